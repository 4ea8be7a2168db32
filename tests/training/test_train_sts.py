"""A run with the STS sets: dev chooses, test is scored, and they are never mixed up."""

from dataclasses import replace

import numpy as np
import pytest
from sts_files import write, write_senteval

from isospace.comparison.compare import compare
from isospace.encoders.loading import load_encoder
from isospace.evaluation.sts import PAPER_COLUMNS, evaluate_pairs, evaluate_sts, load_sts
from isospace.training.prepare import data_of
from isospace.training.train import train


@pytest.fixture
def folder(tmp_path):
    """The sets of sts_files.py, with dev sets that an encoder does not score as it scores test."""
    write_senteval(tmp_path / "sts")
    pairs = [("the cat sat", "a dog runs"), ("red tree", "old tree"), ("a file", "blue river")]
    gold = (4.0, 1.0, 3.0)
    rows = zip(range(3), pairs, gold, strict=True)
    lines = [
        (f"g\tf\t2012\t1\t{g}\t{a}\t{b}\n", f"{i}\t{a}\t{b}\t{g}\tX\r\n") for i, (a, b), g in rows
    ]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
    write(tmp_path / "sts/STS/STSBenchmark/sts-dev.csv", "".join(line for line, _ in lines))
    write(tmp_path / "sts/SICK/SICK_trial.txt", header + "".join(line for _, line in lines))
    return tmp_path / "sts"


@pytest.mark.parametrize(
    ("labels", "task"), [("stsb-dev", "STSBenchmark"), ("sickr-dev", "SICKRelatedness")]
)
def test_dev_chooses_and_test_is_scored(config, folder, labels, task):
    settings = replace(
        config, data=str(folder), select="labels", labels=labels, precision="float32"
    )
    outcome = train(settings)
    sets, embed = load_sts(folder), load_encoder(config.model).embed
    dev, test = (evaluate_pairs(embed, sets[task].subsets[split]) for split in ("dev", "test"))
    assert abs(dev - test) > 0.1
    start, *later = outcome.results.training.evaluations
    assert start["labels_spearman"] == pytest.approx(dev)
    best = max((start, *later), key=lambda evaluation: evaluation["labels_spearman"])
    assert outcome.results.training.choice.step == best["step"]
    scored = outcome.results.base.sts.paper_row
    only_test = {name: one.test_only() for name, one in sets.items()}
    assert scored == pytest.approx(evaluate_sts(embed, only_test).paper_row(), nan_ok=True)
    gold = outcome.run.items("gold")
    assert list(gold) == list(PAPER_COLUMNS.values())
    np.testing.assert_array_equal(gold[PAPER_COLUMNS[task]], sets[task].subsets["test"].gold)
    assert outcome.results.labels == labels
    data, same = data_of(outcome.run)  # without the sets, which may be elsewhere by now
    assert same
    assert data.benchmark.pairs_digest() == outcome.results.pairs


def test_a_comparison_can_be_about_the_average_of_the_sets(base, folder, tmp_path):
    found = compare({"simcse": replace(base, data=str(folder))}, 1, tmp_path / "c", "sts")
    assert found.measure == "Avg"
    sets = {name: task.test_only() for name, task in load_sts(folder).items()}
    row = evaluate_sts(load_encoder(base.model).embed, sets).paper_row()
    assert found.scores["base model"]["Avg"].mean == pytest.approx(row["Avg"], abs=0.01)
    subsets = [pairs for task in sets.values() for pairs in task.subsets.values()]
    gain = found.gains["simcse"]["Avg"].over_base
    # A difference of averages that are shown, to their last digit.
    shown = {row: scores["Avg"].mean for row, scores in found.scores.items()}
    assert 100 * gain.mean == pytest.approx(shown["simcse"] - shown["base model"], abs=1e-9)
    assert gain.items == sum(map(len, subsets))
    assert gain.groups == len({text for pairs in subsets for pair in pairs for text in pair})
