"""Scores of one encoder on a benchmark, as result files hold them, and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.retrieval import RetrievalScores
from isospace.evaluation.sts import STSScores
from isospace.evaluation.task import percent_cells
from isospace.statistics.gains import Gain

DEPTHS = (1, 10, 100)
"""The k of recall@k."""
GAIN = "MRR over the base model"
"""Column of gains with their intervals."""
CORRECTED = "corrected MRR"
"""Column of the MRR without selection bias, if the test pairs also selected the result."""
CORRECTED_NOTE = f"{CORRECTED}: without what selection by the same pairs has added"
_SHOWN = 1e-4
"""Smallest difference of two MRRs that is visible in tables."""
BASE, ADAPTED = "base model", "adapted"
"""Names of both models in tables."""
HYBRID_BASE, HYBRID_ADAPTED = f"{BASE} + BM25", f"{ADAPTED} + BM25"
"""Names of hybrid search with each model in tables."""
_OTHER = {
    HYBRID_ADAPTED: "hybrid search with the {}",
    HYBRID_BASE: "hybrid without adapting",
    ADAPTED: "vectors alone",
    BASE: "vectors alone",
    "BM25": "BM25 alone",
}
_FIRST = _OTHER | {
    HYBRID_BASE: f"hybrid search with the {BASE}",
    ADAPTED: "vectors of the {} alone",
    BASE: f"vectors of the {BASE} alone",
}


@dataclass(frozen=True)
class PairScores:
    """Retrieval scores of the test pairs, 0 to 1, and their protocol."""

    protocol: str
    queries: int
    candidates: int
    mrr: float
    recall: dict[int, float]
    ndcg_10: float | None
    mrr_10: float | None
    no_shared: float | None

    @classmethod
    def of_ranks(
        cls, ranks: RetrievalScores, no_shared: RetrievalScores | None = None
    ) -> PairScores:
        """Return the scores of ranks; `no_shared` are the ranks without shared words."""
        row = ranks.row()
        return cls(
            ranks.protocol,
            len(ranks.ranks),
            ranks.candidates,
            ranks.mrr,
            {k: ranks.recall(k) for k in DEPTHS},
            row["nDCG@10"],
            row["MRR@10"],
            None if no_shared is None else no_shared.mrr,
        )

    def row(self) -> dict[str, float]:
        """Return column -> value, 0 to 1, for all known measures."""
        row = {"MRR": self.mrr, "nDCG@10": self.ndcg_10, "MRR@10": self.mrr_10}
        row |= {f"R@{k}": self.recall.get(k) for k in DEPTHS} | {NO_SHARED: self.no_shared}
        return {column: value for column, value in row.items() if value is not None}


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
    with_bm25: BM25Scores | None

    def cells(self) -> dict[str, str]:
        """Return the cells of a table for people, x 100."""
        cells = percent_cells(self.pairs.row())
        if self.sts is not None:
            cells |= {column: f"{value:.2f}" for column, value in self.sts.known().items()}
        return cells


def table_rows(
    column: str, states: Mapping[str, BenchmarkScores], gains: Mapping[str, Gain] | None = None
) -> list[dict[str, str]]:
    """Return rows for each state of an encoder, alone and in hybrid search, and for BM25."""
    rows, mrr = [], {}
    for name, scores in states.items():
        rows.append({column: name} | scores.cells())
        mrr[name] = scores.pairs.mrr
        if scores.with_bm25 is not None:
            hybrid = percent_cells(scores.with_bm25.hybrid.row())
            rows.append({column: f"{name} + BM25"} | hybrid)
            mrr[f"{name} + BM25"] = scores.with_bm25.hybrid.mrr
    known = next((scores.with_bm25 for scores in states.values() if scores.with_bm25), None)
    # The first row decides the columns of the table, so BM25 comes second.
    if known is not None:
        rows.insert(1, {column: "BM25"} | percent_cells(known.bm25.row()))
        mrr["BM25"] = known.bm25.mrr
    if gains:
        cells = gain_cells(mrr, gains)
        rows = [row | cells[row[column]] for row in rows]
    return rows


def gain_cells(mrr: Mapping[str, float], gains: Mapping[str, Gain]) -> dict[str, dict[str, str]]:
    """Return the cells of the column `GAIN` and, if needed, of `CORRECTED`.

    If the test pairs also selected the result, its MRR is too high, and the gain is less than the
    difference of the MRRs. `CORRECTED` then shows the MRR without this selection bias.
    """
    base = next(iter(mrr.values()))
    corrected = {
        row: f"{100 * (base + gain.mean):.2f}"
        for row, gain in gains.items()
        if row in mrr and abs(base + gain.mean - mrr[row]) > _SHOWN
    }
    return {
        row: ({CORRECTED: corrected.get(row, "")} if corrected else {})
        | {GAIN: gains[row].points if row in gains else ""}
        for row in mrr
    }


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
        f"{_OTHER[way]}: {100 * shown[way]:.1f}" for way in _OTHER if way in shown.keys() - {best}
    ]
    said = [f"Use {_FIRST[best]}: {100 * shown[best]:.1f}"]
    if others:
        rest = "; ".join(others)
        said.append(rest[:1].upper() + rest[1:])
    return f"{'. '.join(said).replace('{}', adapted)} (MRR x 100 on the test pairs)."
