"""Scores of a base model and of the model adapted from it, as result files hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from isospace.evaluation.other_text import OtherTextScores, other_text_sentence
from isospace.evaluation.scores import (
    ADAPTED,
    BASE,
    HYBRID_ADAPTED,
    BenchmarkScores,
    recommendation,
    table_rows,
)
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict


@dataclass(frozen=True)
class BeforeAndAfter(ABC):
    """Scores of the base model and of the adapted model on the same test items.

    `with_bm25` has the gain in MRR over the base model for each way of search with BM25, and
    `other_text` the scores on each set of other text.
    """

    base: BenchmarkScores
    adapted: BenchmarkScores
    verdict: Verdict
    with_bm25: dict[str, Gain]
    other_text: dict[str, OtherTextScores]

    adapted_model: ClassVar[str] = "adapted model"
    """Name of the adapted model in sentences."""

    @property
    @abstractmethod
    def ships_base(self) -> bool:
        """True if the base model was written, and not the adapted model."""

    def over_base(self, result: str = ADAPTED) -> dict[str, Gain]:
        """Return the gains in MRR over the base model on the test pairs, by row of the table.

        `result` is the result's name in the table. Rows are BM25, the base model with BM25, and,
        unless the result is the base model, the result alone and with BM25.
        """
        found = {way.replace(ADAPTED, result): own for way, own in self.with_bm25.items()}
        if HYBRID_ADAPTED in self.with_bm25 and self.verdict.gain is not None:
            found[result] = self.verdict.gain
        return found

    def before_and_after(self, adapted: str, column: str = "") -> list[dict[str, str]]:
        """Return the table with the scores of the base model and of the adapted model.

        `adapted` is the name of the adapted model; an empty name leaves it out.
        """
        states = {BASE: self.base}
        if adapted and self.adapted != self.base:
            states[adapted] = self.adapted
        return table_rows(column, states, self.over_base(adapted))

    @property
    def other_text_gains(self) -> dict[str, Gain]:
        """Set of other text -> gain; empty if only the base model was tested."""
        gains = {name: scores.gain for name, scores in self.other_text.items()}
        return gains if any(one.changed for one in gains.values()) else {}

    @property
    def summary(self) -> str:
        """The verdict, and the change on other text."""
        other_text = other_text_sentence(self.other_text_gains)
        return f"{self.verdict.text} {other_text}".rstrip()

    @property
    def recommendation(self) -> str:
        """A sentence that recommends the search with the highest MRR on the test pairs."""
        base = self.base.pairs.mrr
        mrr = {BASE: base} | {way: base + one.mean for way, one in self.over_base().items()}
        if self.ships_base:
            mrr = {way: x for way, x in mrr.items() if not way.startswith(ADAPTED)}
        return recommendation(mrr, self.adapted_model)
