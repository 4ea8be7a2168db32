"""The seven STS sets of the papers, scored the way SentEval does.

Source of the protocol: SentEval (Conneau & Kiela 2018) with raw cosines and the setting "all" of
SimCSE's evaluation (Gao et al. 2021, appendix B), beside "mean" and "wmean" of older papers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.own_data import load_scored_pairs
from isospace.evaluation.pairs import Encode, ScoredPairs, TextPairs, encode_columns
from isospace.evaluation.retrieval import Items, mrr_of_items
from isospace.evaluation.senteval import YEARS, STSSet, find_root, load_sts_hub, read_scored
from isospace.evaluation.task import Conditions, Request, TitledRows, cells, with_average
from isospace.statistics.gains import (
    FloatArray,
    Scores,
    average,
    cosine,
    spearman,
    spearman_scores,
)
from isospace.system.files import expanded
from isospace.system.settings import to_dict

PAPER_COLUMNS = {name: name for name in YEARS} | {
    "STSBenchmark": "STS-B",
    "SICKRelatedness": "SICK-R",
}
"""Task -> column of the papers' tables, in their order."""
AVERAGE = "plain mean of the seven columns, each rounded to two decimals"
PAPER_PROTOCOL = (
    "Spearman over the concatenated sub-sets ('all') of STS12-16, and on the test splits of STS-B "
    f"and SICK-R; Avg is the {AVERAGE}"
)
"""Description of the protocol of the papers' row."""
UNSEEN = " unseen"
"""Ending of the name of a score without the test pairs that are among the labels."""
DEV_SPLITS = {"stsb-dev": "STSBenchmark", "sickr-dev": "SICKRelatedness"}
"""Name of a dev set -> its STS set."""


@dataclass(frozen=True)
class STSScore:
    """A correlation (-1 to 1) of cosine and gold score, with its protocol.

    `aggregation` is "subset" (the one that `split` names), "all" (over the concatenated pairs of
    the sub-sets that `split` joins with "+"), "mean" of the sub-sets' correlations, or "wmean"
    (weighted by number of pairs).
    """

    task: str
    split: str
    aggregation: str
    metric: str
    n: int
    value: float
    source: str

    @property
    def column(self) -> str:
        """Name of the sub-set or of the aggregation."""
        return self.split if self.aggregation == "subset" else self.aggregation


@dataclass(frozen=True)
class STSScores:
    """The papers' row, x 100, with the protocol of each column."""

    paper_row: dict[str, float]
    paper_protocol: dict[str, STSScore | str]


@dataclass(frozen=True)
class STSResult:
    """All scores of one encoder, and the cosines behind the scores."""

    scores: tuple[STSScore, ...]
    cosines: dict[str, dict[str, FloatArray]]
    """Task -> sub-set -> cosine of each pair, in the order of the sub-set."""

    def score(self, task: str, column: str) -> STSScore:
        """Return the score of a sub-set (its name) or an aggregation ("all", "mean", "wmean")."""
        [found] = [one for one in self.scores if (one.task, one.column) == (task, column)]
        return found

    def headlines(self) -> dict[str, STSScore]:
        """Return the papers' columns: Spearman, "all" for STS12-16, test for the others."""
        return {
            column: self.score(name, "all" if name in YEARS else "test")
            for name, column in PAPER_COLUMNS.items()
        }

    def paper_row(self) -> dict[str, float]:
        """Return the papers' row, x 100: seven rounded columns, and `Avg` as SimCSE prints it."""
        columns = self.headlines().items()
        return with_average({column: round(100 * score.value, 2) for column, score in columns})

    def summary(self) -> STSScores:
        """Return the papers' row with its protocols."""
        return STSScores(self.paper_row(), {**self.headlines(), "Avg": AVERAGE})

    def to_json(self) -> dict[str, Any]:
        """Return every score and the papers' row, with their protocols."""
        return {"scores": [asdict(score) for score in self.scores]} | to_dict(self.summary())

    def tables(self, conditions: Conditions) -> list[TitledRows]:
        """Return the papers' row."""
        title = (
            "Spearman x 100 (STS12-16 'all', STS-B and SICK-R test; pooling "
            f"{conditions.pooling}, {conditions.precision})"
        )
        return [TitledRows(title, [cells(self.paper_row())])]


@dataclass(frozen=True)
class UnseenItems:
    """The test items of a benchmark without the labelled pairs that selected a checkpoint.

    STS-B was drawn from STS12 to STS17, so three quarters of its dev set are test pairs of other
    years. A score without them has another name.

    Attributes:
        gold: STS set -> (pair,) gold scores of the pairs that are not among the labels.
        groups: "MRR" -> (pair,) group of each of the verdict's pairs; STS set -> (pair, 2) numbers
            of the sentences of the same pairs as `gold`.
        unseen: STS set -> (pair,) true for pairs that are not among the labels.
        complete: true if all seven sets have such pairs.
    """

    gold: Items
    groups: Items
    unseen: Items
    complete: bool
    labels: str | None

    @classmethod
    def of_test_pairs(
        cls, test_pairs: Mapping[str, Items], labels: str | None = None
    ) -> UnseenItems:
        """Return the test items, given `Benchmark.test_pairs`."""
        unseen = {column: ~seen for column, seen in test_pairs["seen"].items()}
        left = [column for column, usable in unseen.items() if usable.sum() > 1]
        gold, groups = (
            {column: test_pairs[part][column][unseen[column]] for column in left}
            for part in ("gold", "group")
        )
        groups = {**test_pairs["group"], **groups}
        return cls(gold, groups, unseen, len(left) == len(PAPER_COLUMNS), labels)

    def shown(self, column: str) -> str | None:
        """Return the name of a score of these pairs; `None` for an incomplete average."""
        if column == "Avg" and not self.complete:
            return None
        names = list(self.unseen) if column == "Avg" else [column]
        every = all(self.unseen[name].all() for name in names if name in self.unseen)
        return column if every else f"{column}{UNSEEN}"

    @property
    def why_incomplete(self) -> str:
        """The reason why there is no average of all seven sets."""
        few = ", ".join(column for column in self.unseen if column not in self.gold)
        if few:
            return f"the labels, {self.labels}, leave too few test pairs of {few}"
        return "not all STS sets were scored"

    @property
    def unseen_in_words(self) -> str | None:
        """The meaning of "unseen"; `None` if no pair is left out."""
        pairs = np.concatenate([*self.unseen.values(), np.array([], dtype=bool)])
        if pairs.all():
            return None
        left_out = f"{(~pairs).sum():,} of {len(pairs):,} test pairs"
        return f"without those {left_out} that {self.labels} holds too"

    def scores(self, seeds: Sequence[Items]) -> dict[str, Scores]:
        """Return column -> scores, given `Benchmark.items` of each seed of one row."""
        ranked = [c for c in ("MRR", NO_SHARED) if all(c in items for items in seeds)]
        found = {column: self.ranked(seeds, column) for column in ranked}
        by_set = {
            column: spearman_scores(
                np.stack([items[column][self.unseen[column]] for items in seeds]),
                gold,
                self.groups[column],
            )
            for column, gold in self.gold.items()
        }
        if self.complete:
            averaged = papers_average if self.shown("Avg") == "Avg" else average
            by_set["Avg"] = averaged(list(by_set.values()))
        return found | {self.shown(column) or column: s for column, s in by_set.items()}

    def ranked(self, seeds: Sequence[Items], column: str) -> Scores:
        """Return the MRR of the test pairs by `column`: "MRR", "BM25", "fused" or `NO_SHARED`."""
        return mrr_of_items(seeds, column, self.groups["MRR"])


def sts_task(request: Request) -> Callable[[Encode], STSResult] | None:
    """Score every sub-set of the seven STS sets, dev and train splits included."""
    sets = request.sts
    return (lambda encode: evaluate_sts(encode, sets)) if sets else None


def sts_data(data: str | None) -> str | None:
    """Return the place of the STS sets: `data`, else ISOSPACE_DATA, else `None`."""
    return data or os.environ.get("ISOSPACE_DATA") or None


def load_sts_data(data: str) -> dict[str, STSSet]:
    """Read the seven STS sets from a folder in SentEval's layout, or from the Hub for "hub"."""
    return load_sts_hub() if data == "hub" else load_sts(expanded(data))


def load_labels(labels: str, tasks: Mapping[str, STSSet]) -> ScoredPairs:
    """Load the labelled pairs that select checkpoints."""
    task = DEV_SPLITS.get(labels)
    if task is None:
        return load_scored_pairs(Path(labels))
    if task not in tasks or "dev" not in tasks[task].subsets:
        raise UserError(
            f"`labels` {labels} reads the STS sets. Name their folder (`data` FOLDER or "
            "ISOSPACE_DATA), or give a file of sentence1, sentence2, score"
        )
    return tasks[task].subsets["dev"]


def load_sts(folder: Path) -> dict[str, STSSet]:
    """Read the seven STS sets from a folder in SentEval's layout."""
    root = find_root(folder)
    return {name: STSSet(name, read_scored(root, name)) for name in PAPER_COLUMNS}


def evaluate_sts(encode: Encode, sets: Mapping[str, STSSet]) -> STSResult:
    """Score every sub-set of the sets; each distinct sentence is encoded once."""
    cosines = pair_cosines(encode, [pairs for s in sets.values() for pairs in s.subsets.values()])
    scores: list[STSScore] = []
    by_set: dict[str, dict[str, FloatArray]] = {}
    for name, sts_set in sets.items():
        by_set[name] = {subset: next(cosines) for subset in sts_set.subsets}
        scores += _score_set(sts_set, by_set[name])
    return STSResult(tuple(scores), by_set)


def evaluate_pairs(encode: Encode, pairs: ScoredPairs) -> float:
    """Return Spearman's correlation on one set of scored pairs."""
    [cosines] = pair_cosines(encode, [pairs])
    return spearman(cosines, pairs.gold)


def pair_cosines(encode: Encode, sets: Iterable[TextPairs]) -> Iterator[FloatArray]:
    """Yield the cosines of each set; each distinct text is encoded once."""
    sides = encode_columns(
        encode, *(side for pairs in sets for side in (pairs.first, pairs.second))
    )
    for first in sides:
        yield cosine(first, next(sides))


def papers_average(columns: Sequence[Scores]) -> Scores:
    """Average the seven columns with the rounding of the papers' row, for the gain in `Avg`."""
    rounded = [replace(one, by_seed=np.round(one.by_seed, 4)) for one in columns]
    found = average(rounded)
    return replace(found, by_seed=np.round(found.by_seed, 4))


def _score_set(sts_set: STSSet, cosines: Mapping[str, FloatArray]) -> list[STSScore]:
    subsets = sts_set.subsets
    source = next(iter(subsets.values())).source

    def score(split: str, aggregation: str, n: int, value: float) -> STSScore:
        return STSScore(sts_set.name, split, aggregation, "spearman", n, value, source)

    counts = [len(pairs) for pairs in subsets.values()]
    values = [spearman(cosines[name], pairs.gold) for name, pairs in subsets.items()]
    together = spearman(
        np.concatenate([cosines[name] for name in subsets]),
        np.concatenate([pairs.gold for pairs in subsets.values()]),
    )
    joined, n = "+".join(subsets), sum(counts)
    scores = [
        score(name, "subset", count, value)
        for name, count, value in zip(subsets, counts, values, strict=True)
    ]
    scores.append(score(joined, "all", n, together))
    if len(subsets) > 1:  # with one undivided set a "mean" over sub-sets would be misleading
        scores.append(score(joined, "mean", n, float(np.mean(values))))
        scores.append(score(joined, "wmean", n, float(np.average(values, weights=counts))))
    return scores


def paper_cosines(
    tasks: Mapping[str, STSSet], cosines: Mapping[str, Mapping[str, FloatArray]]
) -> dict[str, np.ndarray]:
    """Return column of the papers' row -> cosines (pair,), given `STSResult.cosines`."""
    return {PAPER_COLUMNS[name]: np.concatenate(list(cosines[name].values())) for name in tasks}


def sts_test_pairs(
    tasks: Mapping[str, STSSet], labelled: NDArray[np.int64]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the STS part of `Benchmark.test_pairs`, given the ids of the labelled pairs."""
    tests = {PAPER_COLUMNS[name]: list(task.subsets.values()) for name, task in tasks.items()}
    return {
        "group": numbered_sentences(tests),
        "gold": {
            column: np.concatenate([pairs.gold for pairs in sets]) for column, sets in tests.items()
        },
        "seen": {
            column: np.isin(np.concatenate([pairs.ids() for pairs in sets]), labelled)
            for column, sets in tests.items()
        },
    }


def numbered_sentences(tests: Mapping[str, Sequence[TextPairs]]) -> dict[str, np.ndarray]:
    """Return column -> (pair, 2) numbers of the sentences; columns share the numbers."""
    numbers: dict[str, int] = {}
    return {
        column: np.array(
            [
                [numbers.setdefault(text, len(numbers)) for text in pair]
                for pairs in sets
                for pair in pairs
            ]
        )
        for column, sets in tests.items()
    }
