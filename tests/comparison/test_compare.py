"""Comparisons: resumable, equal budgets, the base model in every table, and what is refused."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import psutil
import pytest
from report_runs import change
from resumed import wait_for_steps
from sts_files import write_senteval
from warm import isospace

from isospace.cli import main
from isospace.comparison.compare import candidate, compare
from isospace.comparison.results import read_results
from isospace.comparison.runs import compare_runs
from isospace.config import CorpusConfig
from isospace.errors import Stopped, UserError
from isospace.objectives import DCL, SCD, SimCSEPP, WhitenedCSE
from isospace.recipes import find
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.system.progress import Silent
from isospace.training.run import Run
from isospace.training.train import AFTER, BEFORE


def test_contestants_are_read(base):
    config = candidate("simcse++:temperature=0.1,head=none,learning_rate=1e-4", base)
    objective = SimCSEPP(temperature=0.1, head="none")
    assert config == replace(base, objective=objective, learning_rate=1e-4)
    assert candidate("simcse", base).objective == base.objective  # as `train simcse` has it
    assert candidate("dcl", base).objective == DCL(head=base.objective.head)  # the same setting
    assert candidate("dcl:head=mlp", base).objective == DCL()  # told otherwise
    assert candidate("scd", base).objective == SCD()
    listed = candidate("scd:projector=[8,16],learning_rate=1e-4", base)
    assert listed == replace(base, objective=SCD(projector=(8, 16)), learning_rate=1e-4)


@pytest.fixture(scope="module")
def compared(base, tmp_path_factory):
    """Two candidates by two seeds: their settings, the folder and the results."""
    settings = {name: candidate(name, base) for name in ("simcse:head=none", "whitenedcse")}
    folder = tmp_path_factory.mktemp("compared") / "c"
    return settings, folder, compare(settings, 2, folder)


def test_cells_are_run_once_and_compared(compared, monkeypatch):
    settings, folder, found = compared
    assert found.protocol.pairs == "MRR, halves of held-out sentences (first to second)"
    assert found.protocol.checkpoints == "last"
    assert found.settings["whitenedcse"]["objective"]["name"] == "whitenedcse"
    assert list(found.scores) == ["base model", "simcse:head=none", "whitenedcse"]
    assert [columns["MRR"].n for columns in found.scores.values()] == [1, 2, 2]
    cells = sorted(str(path.parent.relative_to(folder)) for path in folder.glob("*/*/results.json"))
    names = ("simcse_head=none", "whitenedcse")
    assert cells == [f"{name}/seed-{seed}" for name in names for seed in (42, 43)]
    for name, columns in found.gains.items():
        gain, start = columns["MRR"].over_base, found.scores["base model"]["MRR"].mean
        by_seed = [score - start for score in found.scores[name]["MRR"].seeds]
        assert 100 * gain.mean == pytest.approx(np.mean(by_seed))
        assert 100 * gain.sd == pytest.approx(np.std(by_seed, ddof=1), abs=1e-9)
    assert list(found.other_text) == ["simcse:head=none", "whitenedcse"]
    for name, of in (("simcse:head=none", "simcse_head=none"), ("whitenedcse", "whitenedcse")):
        done = [Run(folder / of / f"seed-{seed}").finished for seed in (42, 43)]
        for column, over in found.other_text[name].items():
            means = [one.other_text[column].gain.mean for one in done]
            assert (over.mean, over.seeds) == (pytest.approx(np.mean(means)), 2)
    assert read_results(folder / "results.json") == found
    start = found.scores["base model"]["MRR"].mean
    for hybrid in found.with_bm25.values():
        assert 100 * hybrid.over_base.mean == pytest.approx(hybrid.scores["MRR"].mean - start)
    assert found.with_bm25["whitenedcse + BM25"].scores["MRR"].n == 2

    with monkeypatch.context() as patch:
        patch.setattr("isospace.training.train._trained", lambda *_: pytest.fail("ran again"))
        assert compare(settings, 2, folder) == found


@pytest.mark.usefixtures("warm_processes")
def test_cells_side_by_side_give_what_they_give_alone(compared, tmp_path):
    settings, _, alone = compared
    found = compare(settings, 1, tmp_path / "beside", jobs=2)
    for name in settings:
        by_seed = alone.scores[name]["MRR"].seeds
        assert found.scores[name]["MRR"].seeds == pytest.approx(by_seed[:1], abs=0.5)
    assert (tmp_path / "beside" / "whitenedcse" / "seed-42" / "train.log").is_file()
    assert compare(settings, 1, tmp_path / "beside", jobs=2).scores == found.scores


@pytest.fixture
def long_comparison(base, tmp_path, request):
    """A comparison that would run for long, and its children, which train."""
    words = [*_words(base, 100_000), "--jobs", "2", "--output", str(tmp_path / "c")]
    process = isospace("compare", *request.param, *words)
    runs = [tmp_path / "c" / name / "seed-42" for name in request.param]
    for run in runs:  # before its first update a signal ends a run without a word
        wait_for_steps(run, 1, process)
    children = psutil.Process(process.pid).children()
    assert len(children) == len(runs)
    yield process, children
    assert not any(child.is_running() for child in children)
    logs = [(run / "train.log").read_text() for run in runs]
    assert any("--resume" in log for log in logs)  # stopped politely


@pytest.mark.exhaustive
@pytest.mark.parametrize("long_comparison", [("simcse", "dcl")], indirect=True)
def test_ctrl_c_stops_every_cell_politely(long_comparison, tmp_path):
    """The same command goes on, and nothing runs on behind the user's back."""
    process, _ = long_comparison
    process.send(signal.SIGINT)
    assert process.wait() == 1
    assert process.err.splitlines()[-1].endswith("Continue with the same command")
    logs = [log.read_text() for log in (tmp_path / "c").glob("*/*/train.log")]
    assert ["--resume" in log for log in logs] == [True, True]


@pytest.mark.exhaustive
@pytest.mark.parametrize("long_comparison", [("simcse",)], indirect=True)
def test_a_killed_comparison_takes_its_run_with_it(long_comparison):
    """Several at once: `tests/comparison/test_cells.py`."""
    process, children = long_comparison
    process.send(signal.SIGKILL)
    gone, _ = psutil.wait_procs(children, timeout=120)
    assert gone == children


@pytest.mark.exhaustive
def test_processes_can_share_every_run(base, tmp_path):
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "isospace", "compare"]
    words += ["simcse:head=none", "dcl", *_words(base, 32), "--json", "--output", tmp_path / "c"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, *words]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    (assumed,) = done.stderr.splitlines()
    assert assumed.startswith(f"WARNING {base.model}: a plain Hugging Face model")
    found = json.loads(done.stdout)  # the first process alone prints
    assert [found["scores"][name]["MRR"]["n"] for name in ("simcse:head=none", "dcl")] == [1, 1]


def test_a_stopped_cell_is_gone_on_with(base, tmp_path, monkeypatch):
    settings = {"simcse": candidate("simcse", base)}
    whole = compare(settings, 1, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("isospace.training.train._tested", lambda *_: (_ for _ in ()).throw(OSError))
        with pytest.raises(Stopped, match="nothing is lost"):
            compare(settings, 1, tmp_path / "broken")
    [stopped] = (tmp_path / "broken").glob("*/*")
    write_report(collect([stopped]))  # an evaluation at it does not make it a finished one
    assert compare(settings, 1, tmp_path / "broken").scores == whole.scores


def test_the_verdict_goes_while_cells_are_missing(base, tmp_path):
    settings = {"simcse": candidate("simcse", base)}
    compare(settings, 1, tmp_path / "c")
    with pytest.raises(UserError, match="not all STS sets"):
        compare_runs({"simcse": [Run(tmp_path / "c" / "simcse" / "seed-42")]}, "Avg")
    settings["dcl"] = candidate("dcl:learning_rate=1e30", base)
    with pytest.raises(Stopped):
        compare(settings, 1, tmp_path / "c")
    assert collect([tmp_path / "c"]).comparisons == {"c": None}
    assert not (tmp_path / "c" / "report.html").exists()
    del settings["dcl"]  # as the guide advises; the page is then about the rest
    compare(settings, 1, tmp_path / "c")
    assert list(collect([tmp_path / "c"]).groups()) == ["simcse"]


def _words(base, budget):
    return ["--corpus", *base.text.corpus, "--held-out", "40", "--model", base.model, "--seeds", "1",
            "--batch-size", "8", "--budget", str(budget), "sentences", "--evaluations", "1", "--precision", "float32"]  # fmt: skip


def test_the_command(base, tmp_path, capsys):
    words = _words(base, 16)
    output = ["--output", str(tmp_path / "c")]
    for wrong, told in (
        ([], "name one or more objectives"),
        (["dcl"], "--output is missing"),
        (["simcse", "--recipe", "dropout", *output], "simcse and --recipe dropout: "),
        (["--recipe", "simcse-bert-bas", *output], "Did you mean simcse-bert-base"),
    ):
        assert main(["compare", *wrong, *words]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    assert main(["compare", "simcse", "dcl:head=none", *words, *output]) == 0
    out, err = capsys.readouterr()
    assert (err.count(BEFORE), err.count(AFTER)) == (1, 2)  # the base model is shown once
    assert "| dcl:head=none |" in out
    found = read_results(tmp_path / "c" / "results.json")
    assert list(found.with_bm25) == ["BM25", *(f"{row} + BM25" for row in found.scores)]
    assert out.rstrip().endswith(found.verdict.text)
    assert found.recommendation in err
    last = err.rpartition("other text ")[2].splitlines()
    assert len([line for line in last if not line.endswith(" left")]) <= 5  # but for slow steps
    assert "2 of 2: dcl:head=none, seed 42" in err


def test_a_run_that_another_machine_has_made_is_a_cell(base, tmp_path, capsys):
    words = _words(base, 16)
    place = words.index("--seeds")
    alone = words[:place] + words[place + 2 :]
    run = tmp_path / "c" / "scd" / "seed-42"
    assert main(["train", *alone, "--output", str(run), "scd"]) == 0
    before = Run(run).results_path.stat().st_mtime_ns
    assert main(["compare", "scd", *words, "--output", str(tmp_path / "c")]) == 0
    assert Run(run).results_path.stat().st_mtime_ns == before
    assert "| scd |" in capsys.readouterr().out


def test_recipes_are_compared_by_name_with_their_own_settings(base, tmp_path, capsys):
    write_senteval(tmp_path / "sts")
    names = ("simcse-bert-base", "whitenedcse-bert-base-positives-3-unwhitened")
    words = [*_words(base, 16), "--data", str(tmp_path / "sts"), "--output", str(tmp_path / "c")]
    assert main(["compare", "--recipe", *names, *words]) == 0
    assert f"2 of 2: {names[1]}, seed 42" in capsys.readouterr().err
    found = read_results(tmp_path / "c" / "results.json")
    assert list(found.scores) == ["base model", *names]
    for name in names:
        wanted = find(name).config
        [folder] = found.runs[name]
        config = Run(tmp_path / "c" / folder).config
        assert config.objective == wanted.objective
        assert config.learning_rate == wanted.learning_rate
        assert config.text.min_chars == wanted.text.min_chars
        assert (config.model, config.batch_size) == (base.model, 8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simsce:head=none", "simsce: no such objective. Did you mean simcse"),
        ("simcse:temprature=1", "temprature: no such field.*temperature"),
        ("simcse:dropout=high", "`dropout` 'high': expected a number"),
    ],
)
def test_bad_contestants_are_refused(base, text, words):
    with pytest.raises(UserError, match=words):
        candidate(text, base)


@pytest.mark.parametrize(
    ("rows", "verdict_on", "words"),
    [
        ({}, "pairs", "`candidates` 0: expected 1 or more"),
        ({"simcse": {}}, "sts", r"`verdict_on` sts: .*`data`"),
        ({"simcse": {"text": CorpusConfig(corpus=("-",))}}, "pairs", "`corpus` -"),
        ({"base model": {}}, "pairs", "base model: "),
        ({"cut": {"objective": WhitenedCSE(groups=5)}}, "pairs", "cannot be cut into 5 groups"),
        (
            {"dcl": {}, "scd": {"pooling": "last2", "other_text": ("other.txt",)}},
            "pairs",
            "dcl and scd differ in `pooling`, `other_text`",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_a_run(base, tmp_path, rows, verdict_on, words):
    settings = {name: replace(base, **changes) for name, changes in rows.items()}
    with pytest.raises(UserError, match=words):
        compare(settings, 1, tmp_path / "c", verdict_on)
    assert not (tmp_path / "c").exists()


def test_an_average_that_the_labels_leave_nothing_of_is_refused_first(base, tmp_path):
    write_senteval(tmp_path / "sts")
    labels = tmp_path / "labels.tsv"
    labels.write_text("0 a\t70 b\t5\n0 a\t5 b\t1\n")
    chosen = replace(base, data=str(tmp_path / "sts"), select="labels", labels=str(labels))
    with pytest.raises(UserError, match="leave too few test pairs of STS-B, SICK-R"):
        compare({"simcse": chosen}, 1, tmp_path / "c", "sts")
    assert not (tmp_path / "c").exists()


def test_the_results_of_something_else_stay(base, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(UserError, match="holds results of something else"):
        compare({"dcl": candidate("dcl", base)}, 1, tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"


def test_cells_of_other_settings_or_another_text_are_refused(base, tmp_path, toy_corpus):
    """Gains are taken item by item, so that all runs need the same items."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(toy_corpus.read_text())
    base = replace(base, text=replace(base.text, corpus=(str(corpus),)))
    settings = {"simcse": candidate("simcse", base)}
    compare(settings, 1, tmp_path / "c")
    other = {"simcse": replace(settings["simcse"], learning_rate=1e-3)}
    with pytest.raises(UserError, match=r"learning_rate was 3e-05, is 0\.001"):
        compare(other, 1, tmp_path / "c")
    with corpus.open("a") as file:
        file.write("one more sentence that nobody has read before\n")
    with pytest.raises(UserError, match=r"seed-42: .*corpus"):
        compare(settings, 2, tmp_path / "c")
    assert (tmp_path / "c" / "results.json").is_file()
    corpus.write_text(toy_corpus.read_text())
    moved = (tmp_path / "c").rename(tmp_path / "moved")
    compare(settings, 2, moved)
    change(Run(moved / "simcse" / "seed-43"), benchmark="other")
    with pytest.raises(UserError, match=r"seed-42 and .*seed-43"):
        compare(settings, 2, moved)


def test_a_folder_where_another_comparison_runs_is_refused(base, tmp_path):
    settings = {"simcse": candidate("simcse", base)}

    class Another(Silent):
        """Compares in the same folder as soon as a run has begun."""

        def line(self, label, text):
            if label == "train":
                with pytest.raises(UserError, match="another process"):
                    compare(settings, 1, tmp_path / "c")
                asked.append(label)

    asked = []
    compare(settings, 1, tmp_path / "c", progress=Another())
    assert asked == ["train"]
    compare(settings, 1, tmp_path / "c")  # it has let go
