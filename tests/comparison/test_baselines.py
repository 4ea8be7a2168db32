"""Encoders that are not trained here: rows that are scored once, and that no verdict is on."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from report_runs import finish, ranked, write_run
from sts_files import write_senteval
from toy import WORDS

from isospace.comparison.compare import candidate, compare
from isospace.comparison.results import read_results
from isospace.comparison.runs import Baseline, BaselineScores, compare_runs, named_models
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.statistics.verdict import VerdictKind
from isospace.training.prepare import load_data
from isospace.training.run import Run


@pytest.fixture
def words(tmp_path):
    draw = np.random.default_rng(0)
    lines = [" ".join([word, *map(str, draw.normal(size=8).tolist())]) for word in WORDS]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    return f"glove:{tmp_path / 'vectors.txt'}"


def test_baselines_are_rows_and_change_no_verdict(base, tmp_path, words, monkeypatch):
    settings, folder = {"simcse": candidate("simcse", base)}, tmp_path / "c"
    alone = compare(settings, 2, folder)
    models = {"words": words, "same": base.model, "last": str(folder / "simcse" / "seed-42")}
    found = compare(settings, 2, folder, baselines=models)
    assert list(found.scores) == ["base model", *models, "simcse"]
    assert [found.scores[name]["MRR"].n for name in models] == [1, 1, 1]
    assert found.baselines == models
    assert (found.verdict, found.criterion) == (alone.verdict, alone.criterion)
    benchmark = load_data(settings["simcse"]).benchmark
    wanted = benchmark.measure(load_encoder(words).embed).scores.pairs
    row = found.scores["words"]
    assert row["MRR"].mean == pytest.approx(100 * wanted.mrr)
    assert row["R@1"].mean == pytest.approx(100 * wanted.values["R@1"])
    same = found.gains["same"]["MRR"]
    assert (same.over_base.mean, same.over_base.changed, same.holm_p) == (0.0, 0, 1.0)
    # The correction is for all rows, the differences are between all of them but the base model.
    assert found.gains["simcse"]["MRR"].over_base == alone.gains["simcse"]["MRR"].over_base
    smallest = min(columns["MRR"].over_base.p for columns in found.gains.values())
    corrected = min(columns["MRR"].holm_p for columns in found.gains.values())
    assert corrected == pytest.approx(min(1.0, 4 * smallest))
    assert len(found.differences) == 6
    assert read_results(folder / "results.json") == found

    # All of it is in the folder: nothing is scored again, and a row goes with its name.
    with monkeypatch.context() as patch:
        patch.setattr(Baseline, "score", lambda *_: pytest.fail("scored again"))
        assert compare(settings, 2, folder, baselines=models) == found
        assert compare(settings, 2, folder) == alone
    runs = {"simcse": [Run(folder / "simcse" / f"seed-{seed}") for seed in (42, 43)]}
    there = {name: [Baseline.read(folder / "baselines" / name)] for name in models}
    assert compare_runs(runs, "MRR", there) == found


def test_baselines_are_scored_on_the_sts_sets_too(base, tmp_path, words):
    write_senteval(tmp_path / "sts")
    settings = {"simcse": candidate("simcse", replace(base, data=str(tmp_path / "sts")))}
    models = {"same": base.model, "words": words}
    found = compare(settings, 1, tmp_path / "c", "sts", baselines=models)
    assert found.measure == "Avg"
    gain = found.gains["simcse"]["Avg"].over_base
    # A difference of averages that are shown, to their last digit.
    shown = [found.scores[row]["Avg"].mean for row in ("simcse", "base model")]
    assert 100 * gain.mean == pytest.approx(shown[0] - shown[1], abs=1e-9)
    assert (gain.items, gain.groups) == (77, 7)  # pairs of all test sets, of seven texts
    assert found.gains["same"]["Avg"].over_base.mean == 0
    assert list(found.other_text["same"]) == ["docstrings", "definitions"]  # the verdict is on STS
    on_pairs = compare(settings, 1, tmp_path / "c", baselines=models)
    other_text = on_pairs.other_text["same"]
    assert list(other_text) == ["STS", "docstrings", "definitions"]
    assert all(over.changed == 0 for over in other_text.values())
    assert on_pairs.other_text["simcse"]["STS"] == found.gains["simcse"]["Avg"].over_base
    assert found.scores["words"].keys() == found.scores["simcse"].keys()
    assert found.scores["words"]["Avg"].mean == 0  # it knows no word of theirs


def test_a_model_that_was_written_anew_is_scored_again(base, tmp_path):
    settings, folder = {"simcse": candidate("simcse", base)}, tmp_path / "c"
    model = tmp_path / "model"
    shutil.copytree(base.model, model)
    models = {"copy": str(model)}
    before = compare(settings, 1, folder, baselines=models)
    assert before.scores["copy"]["MRR"].mean == before.scores["base model"]["MRR"].mean

    encoder = load_encoder(str(model), device="cpu")
    torch.manual_seed(3)
    for weights in encoder.model.parameters():
        torch.nn.init.normal_(weights)
    encoder.model.save(str(model))
    after = compare(settings, 1, folder, baselines=models)
    assert after.scores["copy"]["MRR"].mean != before.scores["copy"]["MRR"].mean
    assert after.scores["base model"] == before.scores["base model"]


@pytest.mark.parametrize(
    ("baselines", "words"),
    [
        ({"glove": "glove:none.txt"}, r"`baselines` glove:none\.txt: no such file"),
        ({"simcse_head=none": "minilm"}, "the row simcse:head=none"),
        ({"a b": "minilm", "a_b": "minilm"}, "a_b: the row a b"),
    ],
)
def test_impossible_baselines_are_refused_before_a_run(base, tmp_path, baselines, words):
    settings = {"simcse:head=none": candidate("simcse:head=none", base)}
    with pytest.raises(UserError, match=words):
        compare(settings, 1, tmp_path / "c", baselines=baselines)
    assert not (tmp_path / "c").exists()
    with pytest.raises(UserError, match=r"`baselines` glove=: .*NAME=MODEL"):
        named_models(["glove="])
    with pytest.raises(UserError, match="different names"):
        named_models(["glove=a", "glove=b"])


def test_a_baseline_that_is_far_ahead_is_not_advised(tmp_path):
    """Nothing chose it; where the pairs chose, the interval is for what they chose among."""
    run = finish(write_run(tmp_path / "run"), split=False)
    ranks = {"before": 3.0, "after": 2.0}
    items = {part: ranked(1 / (rank + np.arange(30) % 2)) for part, rank in ranks.items()}
    run.write_items(**items, group={"MRR": np.arange(30)}, gold={}, seen={})
    about = BaselineScores("best", run.finished.benchmark, run.finished.adapted, "a hash")
    best = Baseline(about, ranked(1 / (1 + np.arange(30) % 2)), {})
    alone, found = (compare_runs({"a": [run]}, "MRR", rows) for rows in ({}, {"best": [best]}))
    means = {name: columns["MRR"].over_base.mean for name, columns in found.gains.items()}
    assert means["best"] > means["a"] > 0
    assert found.verdict == alone.verdict
    assert (found.verdict.kind, found.verdict.name) == (VerdictKind.ADAPTED, "a")
    assert found.criterion == {"base model": 0.5, "a": 0.54}
    other = replace(best, about=replace(about, benchmark="other"))
    with pytest.raises(UserError, match="`baselines` best: was scored on other items"):
        compare_runs({"a": [run]}, "MRR", {"best": [other]})
