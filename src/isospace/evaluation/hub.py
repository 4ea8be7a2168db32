"""Copies of the STS sets on the Hugging Face Hub, for users without SentEval's folder.

The copies are those of mteb, at the revisions that mteb pins. Pairs and gold scores are the same as
in SentEval's files; texts differ in case and tokenisation. The copies have no sub-sets, so STS12-16
have the score "all" only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isospace.errors import UserError, first_line
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import STSSet

COPIES = {
    "STS12": ("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
    "STS13": ("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    "STS14": ("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    "STS15": ("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    "STS16": ("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    "STSBenchmark": ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831"),
    "SICKRelatedness": ("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d"),
}
"""Task -> repository and revision."""
_NAMES = {"validation": "dev"}

SICK_TEST = {"pairs": 4927, "gold_sum": 17392.415, "characters": 454_356}
"""Sums that identify the test file within the Hub's only split of 9,927 pairs."""

_TOLERANCE = 0.01  # for the sum of gold scores, which are stored as decimals or float32


def load_sts_hub(load_dataset: Callable[..., Any] | None = None) -> dict[str, STSSet]:
    """Load the seven STS sets from the Hub, at pinned revisions.

    STS-B has a dev and a test split. SICK-R on the Hub is one split of 9,927 pairs, with the pairs
    of SentEval's three files. If consecutive rows have the sums of the test file, these 4,927 pairs
    are the sub-set "test". Otherwise the only sub-set is "all 9,927 pairs", and the papers' columns
    SICK-R and Avg are empty.

    Raises:
        UserError: `datasets` is not installed, or the Hub cannot be reached.
    """
    load = load_dataset or _import_load_dataset()
    tasks = {}
    for task, place in COPIES.items():
        splits = ("validation", "test") if task == "STSBenchmark" else ("test",)
        loaded = {split: _load_copy(load, task, split, *place) for split in splits}
        tasks[task] = STSSet(task, {_NAMES.get(split, split): p for split, p in loaded.items()})
    tasks["SICKRelatedness"] = _split_sick(tasks["SICKRelatedness"].subsets["test"])
    return tasks


def _import_load_dataset() -> Callable[..., Any]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(
            "the Hub copies of the STS sets need the package datasets: "
            "pip install 'isospace[hub]', or name a SentEval folder with `data`"
        ) from error
    loader: Callable[..., Any] = load_dataset
    return loader


def _load_copy(
    load_dataset: Callable[..., Any], task: str, split: str, repository: str, revision: str
) -> ScoredPairs:
    try:
        rows = load_dataset(repository, split=split, revision=revision)
    except Exception as error:  # datasets, its HTTP client and the Hub raise many kinds
        raise UserError(
            f"cannot load {repository} from the Hugging Face Hub ({first_line(error)}). "
            "Check the network, or name a SentEval folder with `data`"
        ) from error
    gold = np.array(rows["score"], dtype=np.float64)
    source = f"{repository}@{revision[:8]} ({split})"
    first, second = tuple(rows["sentence1"]), tuple(rows["sentence2"])
    return ScoredPairs(f"{task} {split}", first, second, gold, source)


def _split_sick(every: ScoredPairs) -> STSSet:
    """Return the consecutive rows that have the sums of the test file, else all rows."""
    n = int(SICK_TEST["pairs"])
    lengths = [len(first) + len(second) for first, second in every]
    gold_sums = np.cumsum([0.0, *every.gold])
    characters = np.cumsum([0, *lengths])
    match = (abs(gold_sums[n:] - gold_sums[:-n] - SICK_TEST["gold_sum"]) <= _TOLERANCE) & (
        characters[n:] - characters[:-n] == SICK_TEST["characters"]
    )
    starts = np.flatnonzero(match)
    if len(starts) != 1:
        return STSSet("SICKRelatedness", {f"all {len(every):,} pairs": every})
    rows = slice(starts[0], starts[0] + n)
    test = ScoredPairs(
        "SICKRelatedness test",
        every.first[rows],
        every.second[rows],
        every.gold[rows],
        f"{every.source}, rows {rows.start}-{rows.stop - 1}",
    )
    return STSSet("SICKRelatedness", {"test": test})
