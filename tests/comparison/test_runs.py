"""What finished runs say together: which test pairs count, and which model is advised."""

from dataclasses import replace

import numpy as np
import pytest
from report_runs import change, finish, ranked, write_run
from sts_files import DATA

from isospace.comparison.runs import compare_runs
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.sts import PAPER_COLUMNS, load_labels, load_sts
from isospace.statistics.gains import spearman
from isospace.statistics.verdict import VerdictKind
from isospace.training.results import BY_LAST

COLUMNS = tuple(PAPER_COLUMNS.values())
PARTS = ("before", "after", "group", "gold", "seen")
SEEN = 15
"""Of the 60 pairs of each set but SICK-R."""


def write_scored(folder, seed, step=4, noise=0.3, labels="stsb-dev", seen=SEEN, criterion=0.54):
    """A finished run with items: pairs that the labels hold gain far more than the others."""
    run = finish(write_run(folder, seed=seed), sts=True, model_step=step)
    source, shared = np.random.default_rng(seed), np.random.default_rng(100)
    parts = {part: {} for part in PARTS}
    for part, rank in (("before", 3), ("after", 2)):
        parts[part] = ranked(1 / (rank + np.arange(30) % 2))
    parts["group"]["MRR"] = np.arange(30)
    for number, column in enumerate(COLUMNS):
        gold = shared.normal(size=60)
        held = (np.arange(60) < seen) & (column != "SICK-R")
        parts["before"][column] = gold + shared.normal(size=60)
        parts["after"][column] = gold + np.where(held, 0.0, noise) * source.normal(size=60)
        parts["gold"][column], parts["seen"][column] = gold, held
        parts["group"][column] = 120 * number + np.arange(120).reshape(60, 2)
    run.write_items(**parts)
    choice = replace(run.finished.training.choice, rule="labels" if labels else "last")
    measured = list(run.finished.training.evaluations)
    measured[-1] = measured[-1] | {choice.criterion: criterion}
    change(run, choice=choice, labels=labels, evaluations=tuple(measured))
    return run


def rewrite(run, **parts):
    run.write_items(**{part: run.items(part) | parts.get(part, {}) for part in PARTS})


def test_pairs_that_chose_the_checkpoints_do_not_test_them(tmp_path):
    runs = [write_scored(tmp_path / str(seed), seed) for seed in (1, 2)]
    found = compare_runs({"simcse": runs}, "Avg")
    assert found.measure == "Avg unseen"
    assert found.protocol.unseen == "without those 90 of 420 test pairs that stsb-dev holds too"
    assert list(found.gains["simcse"]) == [
        "MRR", *(f"{column} unseen" for column in COLUMNS[:-1]), "SICK-R", "Avg unseen",
    ]  # fmt: skip
    for number, run in enumerate(runs):
        after, gold = run.items("after"), run.items("gold")
        wanted = spearman(after["STS12"][SEEN:], gold["STS12"][SEEN:])
        assert found.scores["simcse"]["STS12 unseen"].seeds[number] == pytest.approx(100 * wanted)
    assert found.scores["simcse"]["STS12"].seeds == (75.0, 75.0)  # the papers' column is as it was
    assert found.gains["simcse"]["Avg unseen"].over_base.items == 7 * 60 - 90


def test_labels_that_hold_a_whole_test_set_leave_no_average(tmp_path):
    run = write_scored(tmp_path / "1", 1, seen=60)
    held = "no Avg: the labels, stsb-dev, leave too few test pairs of STS12, STS13, .*, STS-B"
    with pytest.raises(UserError, match=held):
        compare_runs({"simcse": [run]}, "Avg")
    assert list(compare_runs({"simcse": [run]}, "MRR").gains["simcse"]) == ["MRR", "SICK-R"]


@pytest.mark.parametrize(
    ("steps", "model", "words"),
    [
        ((4, 4), "1", ""),
        ((0, 4), "2", " 1 of its 2 runs ship the base model, which their own verdicts kept."),
        ((0, 0), None, " The adapted weights are in checkpoints/kept.safetensors of seed 1, 2."),
    ],
)
def test_the_advised_model_is_an_adapted_one(tmp_path, steps, model, words):
    runs = [write_scored(tmp_path / str(n), n, step) for n, step in enumerate(steps, start=1)]
    found = compare_runs({"simcse": runs}, "Avg")
    assert (found.verdict.kind, found.verdict.name) == (VerdictKind.ADAPTED, "simcse")
    assert found.verdict.model == (None if model is None else str(tmp_path / model / "model"))
    assert found.verdict.text.endswith(words)
    assert ("ship the base model" in found.verdict.text) == (0 in steps)
    if model is not None:
        assert f"The model is that of seed {model}, " in found.verdict.text


def judged(tmp_path, **candidates):
    """What four seeds of each candidate say, written with these settings."""
    runs = {
        name: [write_scored(tmp_path / name / str(s), s, **settings) for s in range(1, 5)]
        for name, settings in candidates.items()
    }
    return compare_runs(runs, "Avg")


def test_the_row_with_the_highest_criterion_is_judged_whatever_the_others_gain(tmp_path):
    """The largest of several gains would flatter itself."""
    gains_most, chosen = {"noise": 0.1, "criterion": 0.55}, {"noise": 0.6, "criterion": 0.56}
    found = judged(tmp_path, a=gains_most, b=chosen)
    mean = {name: columns["Avg unseen"].over_base.mean for name, columns in found.gains.items()}
    assert mean["a"] > mean["b"]
    assert found.verdict.name == "b"
    assert found.verdict.text.startswith(f"Adapt with b: {100 * mean['b']:+.2f} points (95 % ")
    assert "; highest of 2 by validation MRR. The model is that of seed 1, " in found.verdict.text

    found = judged(tmp_path / "worse", a=gains_most, b=chosen | {"noise": 1.0})
    assert found.verdict.kind is VerdictKind.CANNOT_TELL
    assert (found.verdict.name, found.verdict.model) == ("b", None)
    assert "; more seeds or more pairs would tell." in found.verdict.text
    assert found.verdict.text.startswith("Cannot tell: b, ")
    found = judged(tmp_path / "harm", a=gains_most, b=chosen | {"noise": 9.0})
    assert found.verdict.text.startswith("Keep the base model: b, -")


def test_where_every_run_preferred_its_start_there_is_nothing_to_judge(tmp_path):
    runs = [write_scored(tmp_path / str(seed), seed, step=0) for seed in (1, 2)]
    for run in runs:
        change(run, choice=replace(run.finished.training.choice, step=0))
    verdict = compare_runs({"simcse": runs}, "Avg").verdict
    assert (verdict.kind, verdict.name, verdict.model) == (VerdictKind.KEEP_BASE, None, None)
    assert verdict.text.startswith("Keep the base model: every run preferred its base model")


@pytest.mark.parametrize(("criterion", "name"), [("pairs_mrr", None), (BY_LAST, "a")])
def test_the_start_is_chosen_only_where_a_criterion_chose(tmp_path, criterion, name):
    """Where the last checkpoint was kept nothing has compared it with the base model."""
    run = write_scored(tmp_path / "1", 1, labels=None, seen=0, criterion=0.4)
    change(run, choice=replace(run.finished.training.choice, criterion=criterion))
    assert compare_runs({"a": [run]}, "Avg").verdict.name == name


def test_pairs_that_also_chose_ask_more_of_a_gain(tmp_path):
    """Below 400 pairs there is no split: the interval is for all candidates and checkpoints."""
    runs = {}
    for name, (seed, criterion) in {"a": (1, 0.55), "b": (2, 0.56)}.items():
        run = runs[name] = write_scored(tmp_path / name, seed, labels=None, criterion=criterion)
        rewrite(run, after={"MRR": 1 / np.random.default_rng(seed).integers(1, 4, size=30)})
    apart = compare_runs({name: [run] for name, run in runs.items()}, "MRR")
    for run in runs.values():
        change(run, split=False)
    found = compare_runs({name: [run] for name, run in runs.items()}, "MRR")
    assert found.gains == apart.gains  # each as it is, under a note
    assert not found.protocol.split
    words = found.verdict.text
    assert "best of 4 tried)" in words  # two rows of two evaluations
    assert "highest of 2 by validation MRR (of the test pairs)" in words
    low = float(words.split("interval ")[1].split(" to ")[0])
    assert low < 100 * apart.gains["b"]["MRR"].over_base.low
    said = [float(text.split(" points")[0].split()[-1]) for text in (words, apart.verdict.text)]
    assert said[0] <= said[1]  # less what choosing between the rows has added
    for run in runs.values():  # and between checkpoints, as the run's own verdict found it
        verdict = run.finished.verdict
        less = replace(verdict.gain, mean=verdict.gain.mean - 0.02, candidates=2)
        change(run, verdict=replace(verdict, gain=less))
    again = compare_runs({name: [run] for name, run in runs.items()}, "MRR").verdict.text
    assert float(again.split(" points")[0].split()[-1]) == pytest.approx(said[0] - 2, abs=0.011)
    # The STS sets have chosen nothing.
    sts = compare_runs({name: [run] for name, run in runs.items()}, "Avg").verdict.text
    assert "tried)" not in sts


def test_all_runs_start_from_one_encoder_and_text(tmp_path):
    first, other = (write_scored(tmp_path / f"{seed}", seed) for seed in (1, 2))
    ranks = first.items("before")["MRR"]
    flipped = ranks.copy()
    flipped[0] = 1.0  # as rounding may on another machine
    rewrite(other, before={"MRR": flipped})
    assert compare_runs({"a": [first], "b": [other]}, "MRR").scores["base model"]["MRR"].n == 1
    rewrite(other, before={"MRR": 1 / (1 / ranks + 1)})
    with pytest.raises(UserError, match=r"1 and .*2: .* different encoders"):
        compare_runs({"a": [first], "b": [other]}, "MRR")
    change(other, corpus=replace(other.finished.corpus, digest="of other text"))
    with pytest.raises(UserError, match=r"1 and .*2: the text changed"):
        compare_runs({"a": [first], "b": [other]}, "MRR")


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the STS sets")
def test_three_quarters_of_stsb_dev_are_test_pairs_of_other_years():
    """The numbers of docs/guides/compare-objectives.md."""
    tasks = load_sts(DATA)
    tests = {name: task.test_only() for name, task in tasks.items()}
    labels = load_labels("stsb-dev", tasks)
    found = Benchmark(TextPairs("none", (), ()), "", tests, labels, ()).test_pairs()
    dev = tasks["STSBenchmark"].subsets["dev"].ids()
    ids = {
        PAPER_COLUMNS[name]: np.concatenate([pairs.ids() for pairs in task.subsets.values()])
        for name, task in tests.items()
    }
    years = np.concatenate([ids[name] for name in ids if name.startswith("STS1")])
    assert (np.isin(dev, years).sum(), len(dev)) == (1131, 1500)
    assert {name: int(seen.sum()) for name, seen in found["seen"].items()} == {
        "STS12": 259, "STS13": 81, "STS14": 193, "STS15": 580, "STS16": 22, "STS-B": 4, "SICK-R": 0,
    }  # fmt: skip
    assert np.isin(ids["STS-B"], years).sum() == 1007
