"""Test items without the labelled pairs that selected a checkpoint.

STS-B was drawn from STS12 to STS17, so three quarters of its dev set are test pairs of other years.
A checkpoint that these pairs selected cannot be tested on them. They are left out, and the score
without them has another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.retrieval import Items, mrr_of_items
from isospace.evaluation.sts import PAPER_COLUMNS, UNSEEN, papers_average
from isospace.statistics.influence import Scores, average, spearman_scores


@dataclass(frozen=True)
class UnseenItems:
    """The test items of encoders that were scored on one benchmark.

    Attributes:
        gold: STS set -> (pair,) gold scores of the pairs that are not among the labels.
        groups: "MRR" -> (pair,) group of each of the verdict's pairs; STS set -> (pair, 2) numbers
            of the sentences of the same pairs as `gold`.
        unseen: STS set -> (pair,) true for pairs that are not among the labels.
        complete: true if all seven sets have such pairs.
        labels: the labels that selected the checkpoints; `None` if none did.
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
        """Return the test items of a benchmark; `test_pairs` are as in `Benchmark.test_pairs`."""
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
        gone = [column for column in self.unseen if column not in self.gold]
        if gone:
            return f"the labels, {self.labels}, leave too few test pairs of {', '.join(gone)}"
        return "not all seven STS sets were scored"

    @property
    def unseen_in_words(self) -> str | None:
        """The meaning of "unseen"; `None` if no pair is left out."""
        pairs = np.concatenate([*self.unseen.values(), np.array([], dtype=bool)])
        if pairs.all():
            return None
        left_out = f"{(~pairs).sum():,} of {len(pairs):,} test pairs"
        return f"without those {left_out} that {self.labels} holds too"

    def scores(self, seeds: Sequence[Items]) -> dict[str, Scores]:
        """Return column -> scores of one encoder, or of the seeds of one row.

        `seeds` are `Benchmark.items` of each, in the order of the test pairs.
        """
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
