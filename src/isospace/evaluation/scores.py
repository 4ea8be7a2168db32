"""Scores of one encoder on a benchmark, as result files hold them, and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.retrieval import RetrievalScores
from isospace.evaluation.sts import STSScores
from isospace.evaluation.task import percent_cells
from isospace.statistics.gains import Gain

GAIN = "MRR over the base model"
"""Column of gains with their intervals."""
CROSS_VALIDATED = "cross-validated pairs of all documents"
"""Description of the test pairs of a small folder, whose documents all train the final model."""
SAME_PAIRS = "gains are without what selection by the same pairs has added to the MRR"
"""Note if the test pairs are the validation pairs too."""
BASE, ADAPTED = "base model", "adapted"
"""Names of both models in tables."""
HYBRID_BASE, HYBRID_ADAPTED = f"{BASE} + BM25", f"{ADAPTED} + BM25"
"""Names of hybrid search with each model in tables."""
_WAYS = {
    HYBRID_ADAPTED: ("hybrid search with the {}", "hybrid search with the {}"),
    HYBRID_BASE: (f"hybrid search with the {BASE}", "hybrid without adapting"),
    ADAPTED: ("vectors of the {} alone", "vectors alone"),
    BASE: (f"vectors of the {BASE} alone", "vectors alone"),
    "BM25": ("BM25 alone", "BM25 alone"),
}
"""Way of search -> its words if it is advised, and if it is compared with the advised way."""


@dataclass(frozen=True)
class PairScores:
    """Retrieval scores of the test pairs (measure -> value, 0 to 1), and their protocol."""

    protocol: str
    queries: int
    candidates: int
    values: dict[str, float]

    @classmethod
    def of_ranks(
        cls, ranks: RetrievalScores, no_shared: RetrievalScores | None = None
    ) -> PairScores:
        """Return the scores of ranks; `no_shared` are the ranks without shared words."""
        values = ranks.row()
        if no_shared is not None:
            values[NO_SHARED] = no_shared.mrr
        return cls(ranks.protocol, len(ranks.ranks), ranks.candidates, values)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return self.values["MRR"]


@dataclass(frozen=True)
class BM25Scores:
    """Retrieval scores of the test pairs by BM25, and by hybrid search."""

    bm25: PairScores
    hybrid: PairScores
    weight: float


@dataclass(frozen=True)
class BenchmarkScores:
    """Scores of one encoder on a benchmark, as results.json holds them."""

    pairs: PairScores
    sts: STSScores | None
    with_bm25: BM25Scores

    def cells(self) -> dict[str, str]:
        """Return the cells of a table for people, x 100."""
        cells = percent_cells(self.pairs.values)
        if self.sts is not None:
            cells |= {column: f"{value:.2f}" for column, value in self.sts.known().items()}
        return cells


def table_rows(
    column: str, states: Mapping[str, BenchmarkScores], gains: Mapping[str, Gain] | None = None
) -> list[dict[str, str]]:
    """Return rows for each state of an encoder, alone and in hybrid search, and for BM25."""
    rows = []
    for name, scores in states.items():
        rows.append({column: name} | scores.cells())
        rows.append({column: f"{name} + BM25"} | percent_cells(scores.with_bm25.hybrid.values))
    # The first row decides the columns of the table, so BM25 comes second.
    bm25 = next(iter(states.values())).with_bm25.bm25
    rows.insert(1, {column: "BM25"} | percent_cells(bm25.values))
    if gains:
        rows = [row | {GAIN: points_of(gains, row[column])} for row in rows]
    return rows


def points_of(gains: Mapping[str, Gain], row: str) -> str:
    """Return the gain of a row as a cell; empty without a gain."""
    return gains[row].points if row in gains else ""


def recommendation(mrr: Mapping[str, float], adapted: str = "adapted model") -> str:
    """Return a sentence that names the way of search with the highest MRR, and the others' MRR.

    >>> bm25 = {"BM25": 0.4, "base model": 0.45, "base model + BM25": 0.516}
    >>> recommendation(bm25 | {"adapted": 0.55, "adapted + BM25": 0.561})[:82]
    'Use hybrid search with the adapted model: 56.1. Hybrid without adapting: 51.6; vec'
    """
    # Nobody would use the base model alone if there is an adapted model.
    shown = {way: x for way, x in mrr.items() if way != BASE or ADAPTED not in mrr}
    best = max(shown, key=lambda way: shown[way])
    others = [
        f"{_WAYS[way][1]}: {100 * shown[way]:.1f}" for way in _WAYS if way in shown.keys() - {best}
    ]
    said = [f"Use {_WAYS[best][0]}: {100 * shown[best]:.1f}"]
    if others:
        rest = "; ".join(others)
        said.append(rest[:1].upper() + rest[1:])
    return f"{'. '.join(said).replace('{}', adapted)} (MRR x 100 on the test pairs)."
