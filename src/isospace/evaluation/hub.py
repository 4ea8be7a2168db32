"""Copies of the STS sets on the Hugging Face Hub, for users without SentEval's folder.

The copies are mteb's, at the revisions that mteb pins. They hold the same pairs and gold scores as
SentEval's files, undivided (so only "all" exists for STS12-16), and their texts differ in case and
tokenisation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isospace.errors import UserError
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import STSSet


@dataclass(frozen=True)
class Copy:
    """Split of a Hub repository, with known counts and sums."""

    repository: str
    revision: str
    split: str
    pairs: int
    gold_sum: float
    """Sum of the gold scores; SentEval's files have the same."""
    characters: int | None
    """Sum of the lengths of all texts, where mteb's published statistics give it."""


_STSB = ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831")

COPIES: dict[str, dict[str, Copy]] = {
    "STS12": {
        "test": Copy(
            "mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384", "test",
            3108, 10896.848, 402_118,
        )
    },
    "STS13": {
        "test": Copy(
            "mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca", "test",
            1500, 3504.283333, 161_949,
        )
    },
    "STS14": {
        "test": Copy(
            "mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375", "test",
            3750, 10542.875397, 407_185,
        )
    },
    "STS15": {
        "test": Copy(
            "mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3", "test",
            3000, 7217.74, 346_442,
        )
    },
    "STS16": {
        "test": Copy(
            "mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513", "test",
            1186, 2862.0, 154_802,
        )
    },
    "STSBenchmark": {
        "dev": Copy(*_STSB, "validation", 1500, 3545.861333, None),
        "test": Copy(*_STSB, "test", 1379, 3596.317, 147_886),
    },
    "SICKRelatedness": {
        "all": Copy(
            "mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d", "test",
            9927, 35033.865, 915_617,
        )
    },
}  # fmt: skip
"""Task -> sub-set -> where it is. Counts and gold sums were computed from SentEval's files; for the
test splits they agree with mteb's descriptive statistics, which also give the characters."""

SICK_TEST = {"pairs": 4927, "gold_sum": 17392.415, "characters": 454_356}
"""The test file inside the 9,927 pairs of the Hub's only split."""

_TOLERANCE = 0.01  # on a sum of gold scores: they are stored as decimal fractions or as float32


def load_sts_hub(load_dataset: Callable[..., Any] | None = None) -> dict[str, STSSet]:
    """Load the seven STS sets from the Hub, and check known counts and sums.

    STS-B has its dev and test splits. SICK-R on the Hub is one split of 9,927 pairs, which holds
    SentEval's three files. Where the 4,927 test pairs can be told from the rest (a run of rows with
    the test file's sums) they are the sub-set "test"; where not, the only sub-set is "all 9,927
    pairs", and the papers' columns SICK-R and Avg stay empty.

    Args:
        load_dataset: called as `load_dataset(repository, split=..., revision=...)`;
            `datasets.load_dataset` where it is None.

    Raises:
        UserError: where `datasets` is not installed, the Hub cannot be reached, or a copy is not
            the known one.
    """
    load_dataset = load_dataset or _import_load_dataset()
    tasks = {}
    for task, copies in COPIES.items():
        subsets = {
            name: _load_copy(load_dataset, task, name, copy) for name, copy in copies.items()
        }
        tasks[task] = STSSet(task, subsets)
    tasks["SICKRelatedness"] = _split_sick(tasks["SICKRelatedness"].subsets["all"])
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


def _load_copy(load_dataset: Callable[..., Any], task: str, name: str, copy: Copy) -> ScoredPairs:
    try:
        rows = load_dataset(copy.repository, split=copy.split, revision=copy.revision)
    except Exception as error:  # any of the many that datasets, its HTTP client and the Hub raise
        reason = str(error).strip().split("\n")[0][:200]
        raise UserError(
            f"cannot load {copy.repository} from the Hugging Face Hub ({reason}). "
            "Check the network, or name a SentEval folder with `data`"
        ) from error
    missing = {"sentence1", "sentence2", "score"} - set(rows.column_names)
    if missing:
        raise UserError(
            f"{copy.repository}: has no column {', '.join(sorted(missing))}, only "
            f"{', '.join(rows.column_names)}. Name a SentEval folder with `data`"
        )
    gold = np.array(rows["score"], dtype=np.float64)
    first, second = tuple(rows["sentence1"]), tuple(rows["sentence2"])
    _check(copy, gold, sum(map(len, first)) + sum(map(len, second)))
    source = f"{copy.repository}@{copy.revision[:8]} ({copy.split})"
    return ScoredPairs(f"{task} {name}", first, second, gold, source)


def _check(copy: Copy, gold: np.ndarray[Any, np.dtype[np.float64]], characters: int) -> None:
    for what, found, known, tolerance in (
        ("pairs", len(gold), copy.pairs, 0.0),
        ("as the sum of gold scores", round(float(gold.sum()), 6), copy.gold_sum, _TOLERANCE),
        ("characters", characters, copy.characters, 0.0),
    ):
        if known is not None and not abs(found - known) <= tolerance:
            raise UserError(
                f"{copy.repository} ({copy.split}) has changed: found {found:,} {what}, expected "
                f"{known:,}. Name a SentEval folder with `data`"
            )


def _split_sick(every: ScoredPairs) -> STSSet:
    """Find the run of rows that has the test file's sums, if the rows lie in that order."""
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
