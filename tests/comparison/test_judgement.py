"""What finished runs say together: which test pairs count, and which model is advised."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_runs import change, finish, write_run

from isospace.comparison.judgement import judge_runs
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark, load_labels
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.sts import PAPER_COLUMNS, load_sts
from isospace.statistics.correlation import spearman
from isospace.statistics.decision import welch

DATA = Path(os.environ.get("ISOSPACE_DATA", Path(__file__).parents[2] / "../shared/data/senteval"))
COLUMNS = tuple(PAPER_COLUMNS.values())
PARTS = ("before", "after", "gold", "pair", "seen")
SEEN = 15
"""Of the 60 pairs of each set but SICK-R."""


def write_scored(folder, seed, step=4, noise=0.3, labels="stsb-dev", seen=SEEN, columns=COLUMNS):
    """A finished run with items: pairs that the labels hold evaluation far better than the others."""
    run = finish(write_run(folder, seed=seed), sts=True, model_step=step)
    source, shared = np.random.default_rng(seed), np.random.default_rng(100)
    parts = {part: {} for part in PARTS}
    for part, rank in (("before", 3), ("after", 2)):
        parts[part]["MRR"] = np.full(30, 1 / rank)
    for number, column in enumerate(columns):
        gold = shared.normal(size=60)
        held = (np.arange(60) < seen) & (column != "SICK-R")
        parts["before"][column] = gold + shared.normal(size=60)
        parts["after"][column] = gold + np.where(held, 0.0, noise) * source.normal(size=60)
        parts["gold"][column], parts["seen"][column] = gold, held
        parts["pair"][column] = 60 * number + np.arange(60)
    run.write_items(**parts)
    rule = "labels" if labels else "last"
    change(run, choice=replace(run.finished.choice, rule=rule), labels=labels)
    return run


def test_pairs_that_chose_the_checkpoints_do_not_test_them(tmp_path):
    runs = [write_scored(tmp_path / str(seed), seed) for seed in (1, 2)]
    found = judge_runs({"simcse": runs}, "Avg")
    assert found.measure == "Avg unseen"
    assert found.protocol.unseen == "without those 90 of 420 test pairs that stsb-dev holds too"
    assert "STS average without those 90 of 420 test pairs" in found.verdict.text
    assert list(found.gains["simcse"]) == [
        "MRR", "R@1", *(f"{column} unseen" for column in COLUMNS[:-1]), "SICK-R", "Avg unseen",
    ]  # fmt: skip
    for number, run in enumerate(runs):
        after, gold = run.items("after"), run.items("gold")
        wanted = spearman(after["STS12"][SEEN:], gold["STS12"][SEEN:])
        assert found.scores["simcse"]["STS12 unseen"].seeds[number] == pytest.approx(100 * wanted)
    assert found.scores["simcse"]["STS12"].seeds == (75.0, 75.0)  # the papers' column is as it was
    assert found.gains["simcse"]["Avg unseen"].over_start.items == 7 * 60 - 90


def test_without_labels_every_pair_counts(tmp_path):
    runs = [write_scored(tmp_path / "1", 1, labels=None, seen=0)]
    found = judge_runs({"simcse": runs}, "Avg")
    assert found.measure == "Avg"
    assert found.protocol.unseen is None
    assert list(found.gains["simcse"]) == ["MRR", "R@1", *COLUMNS, "Avg"]


def test_labels_that_hold_a_whole_test_set_leave_no_average(tmp_path):
    run = write_scored(tmp_path / "1", 1, seen=60)
    held = "no Avg: the labels, stsb-dev, leave too few test pairs of STS12, STS13, .*, STS-B"
    with pytest.raises(UserError, match=held):
        judge_runs({"simcse": [run]}, "Avg")
    found = judge_runs({"simcse": [run]}, "MRR")
    assert list(found.gains["simcse"]) == ["MRR", "R@1", "SICK-R"]


@pytest.mark.parametrize(
    ("steps", "model", "words"),
    [
        ((4, 4), "1", ""),
        ((0, 4), "2", " 1 of its 2 runs ship the start, which their own verdicts kept."),
        ((0, 0), None, " The adapted weights are in checkpoints/kept.safetensors of seed 1, 2."),
    ],
)
def test_the_advised_model_is_an_adapted_one(tmp_path, steps, model, words):
    runs = [write_scored(tmp_path / str(n), n, step) for n, step in enumerate(steps, start=1)]
    found = judge_runs({"simcse": runs}, "Avg")
    assert found.verdict.verdict == "adapt with simcse"
    assert found.verdict.model == (None if model is None else str(tmp_path / model / "model"))
    assert found.verdict.text.endswith(words)
    assert ("ship the start" in found.verdict.text) == (0 in steps)


def ask_for_pooling(run, pooling):
    config = json.loads((run.folder / "config.json").read_text()) | {"pooling": pooling}
    (run.folder / "config.json").write_text(json.dumps(config))
    change(run, pooling=pooling)


def test_a_pooling_that_is_the_encoders_own_is_no_other_start(tmp_path):
    first, other = (write_scored(tmp_path / str(seed), seed) for seed in (1, 2))
    assert first.finished.pooling == "cls"
    assert first.config.pooling is None
    ask_for_pooling(other, "cls")
    found = judge_runs({"a": [first], "b": [other]}, "MRR")
    assert list(found.gains) == ["a", "b"]


def test_seeds_are_tested_by_exact_scores(tmp_path):
    """Rounded as in the papers' row, small differences between seeds are none."""
    rows = {
        name: [write_scored(tmp_path / name / str(s), s, labels=None, seen=0) for s in seeds]
        for name, seeds in {"a": (1, 2), "b": (3, 4)}.items()
    }
    found = judge_runs(rows, "Avg")
    exact = {
        name: [
            np.mean([spearman(run.items("after")[c], run.items("gold")[c]) for c in COLUMNS])
            for run in runs
        ]
        for name, runs in rows.items()
    }
    tested = [row["Avg"].holm_p_against_best for row in found.gains.values()]
    (p,) = [p for p in tested if p is not None]
    assert p == pytest.approx(welch(exact["a"], exact["b"]), rel=1e-6)


@pytest.mark.parametrize(("step", "model"), [(0, "model"), (4, None)])
def test_another_start_is_advised_as_a_folder_or_by_its_pooling(tmp_path, step, model):
    """The name of an encoder alone would load it with its own pooling."""
    first = write_scored(tmp_path / "1", 1, noise=5.0)
    other = write_scored(tmp_path / "2", 2, step, noise=9.0)
    ask_for_pooling(other, "mean")
    items = {part: dict(other.items(part)) for part in PARTS}
    items["before"] |= items["gold"]
    other.write_items(**items)
    found = judge_runs({"a": [first], "b": [other]}, "Avg")
    assert found.verdict.verdict == "take start of b"
    assert found.verdict.model == (None if model is None else str(other.folder / model))
    words = f"Load it by isospace.load({other.config.model!r}, pooling='mean')."
    assert found.verdict.text.endswith(words) == (model is None)


def test_a_run_of_an_older_version_says_how_to_examine_it_again(tmp_path):
    run = write_scored(tmp_path / "1", 1)
    run.write_items(**{part: run.items(part) for part in ("before", "after", "gold")})
    with pytest.raises(UserError, match=r"an older isospace .* remove its model/ and run"):
        judge_runs({"simcse": [run]}, "MRR")


def test_r_at_1_is_tested_as_mrr_is(tmp_path):
    run = write_scored(tmp_path / "1", 1, columns=())
    items = {part: dict(run.items(part)) for part in PARTS}
    items["before"]["MRR"], items["after"]["MRR"] = np.full(4, 0.5), np.array([1, 1, 1, 2 / 3])
    run.write_items(**items)
    gain = judge_runs({"simcse": [run]}, "MRR").gains["simcse"]["R@1"]
    assert gain.over_start.mean == 0.75


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the STS sets")
def test_three_quarters_of_stsb_dev_are_test_pairs_of_other_years():
    """The numbers of docs/compare.md."""
    tasks = load_sts(DATA)
    tests = {name: task.test_only() for name, task in tasks.items()}
    labels = load_labels("stsb-dev", tasks)
    found = Benchmark(TextPairs("none", (), ()), "", tests, labels, ()).test_pairs()
    dev = load_sts(DATA, ["STSBenchmark"])["STSBenchmark"].subsets["dev"].ids()
    years = np.concatenate([ids for name, ids in found["pair"].items() if name.startswith("STS1")])
    assert (np.isin(dev, years).sum(), len(dev)) == (1131, 1500)
    assert {name: int(seen.sum()) for name, seen in found["seen"].items()} == {
        "STS12": 259, "STS13": 81, "STS14": 193, "STS15": 580, "STS16": 22, "STS-B": 4, "SICK-R": 0,
    }  # fmt: skip
    assert np.isin(found["pair"]["STS-B"], years).sum() == 1007
