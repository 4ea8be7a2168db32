"""Scores on a user's own data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from isospace.config import DataKind
from isospace.evaluation.hybrid import (
    BM25Comparison,
    compare_judged,
    compare_pairs,
    gains_over_first,
)
from isospace.evaluation.judged import JudgedQueries
from isospace.evaluation.own_data import OwnData
from isospace.evaluation.pairs import Encode, ScoredPairs, TextPairs
from isospace.evaluation.sts import evaluate_pairs
from isospace.evaluation.task import Conditions, Request, TitledRows, percent_cells
from isospace.operators.fusion import WEIGHT

OwnKind: TypeAlias = DataKind | Literal["retrieval"]


@dataclass(frozen=True)
class OwnScores:
    """Scores of the n rows of one file; queries are also scored by BM25 and hybrid search."""

    file: str
    kind: OwnKind
    n: int
    protocol: str
    values: dict[str, float]
    with_bm25: BM25Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all scores."""
        with_bm25 = None if self.with_bm25 is None else self.with_bm25.to_json()
        return asdict(replace(self, with_bm25=None)) | {"with_bm25": with_bm25}


def evaluate_own(encode: Encode, data: OwnData, bm25_weight: float = WEIGHT) -> OwnScores:
    """Score a user's file or folder by its kind."""
    content, with_bm25 = data.content, None
    kind: OwnKind
    match content:
        case JudgedQueries():
            with_bm25 = compare_judged(encode, content, bm25_weight)
            kind, values = "retrieval", with_bm25.values["encoder"]
            protocol = _judged_protocol(content)
        case ScoredPairs():
            kind, protocol = "scored", f"correlation of cosine and score, {len(content):,} pairs"
            values = {"Spearman": evaluate_pairs(encode, content)}
        case TextPairs():
            ranks, with_bm25 = compare_pairs(encode, content, bm25_weight)
            kind, protocol, values = "pairs", ranks.protocol, ranks.row()
    n, protocol = len(content), f"{data.columns}; {protocol}"
    return OwnScores(data.file, kind, n, protocol, values, with_bm25)


@dataclass(frozen=True)
class OwnFilesScores:
    """Scores of every file, in the user's order."""

    files: tuple[OwnScores, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the scores of each file."""
        return [scores.to_json() for scores in self.files]

    def tables(self, conditions: Conditions) -> list[TitledRows]:
        """Return a table for each file."""
        return [_table(own, conditions.model) for own in self.files]


def tables_of_gains(found: Mapping[str, OwnFilesScores]) -> list[TitledRows]:
    """Return a table for each file with queries: gains over the first model alone."""
    tables = []
    for by_file in zip(*(scores.files for scores in found.values()), strict=True):
        searched = {
            model: own.with_bm25
            for model, own in zip(found, by_file, strict=True)
            if own.with_bm25 is not None
        }
        if searched:
            tables.append(gains_over_first(f"{by_file[0].file}, {by_file[0].kind}", searched))
    return tables


def _table(own: OwnScores, model: str) -> TitledRows:
    title = f"{own.file}, {own.kind}, x 100 ({own.protocol})"
    if own.with_bm25 is not None:
        return own.with_bm25.table(title, model)
    return TitledRows(title, [percent_cells(own.values)])


def own_files_task(request: Request) -> Callable[[Encode], OwnFilesScores] | None:
    """Score each of the user's own files by its kind; there may be none."""
    weight = request.config.bm25_weight

    def score(encode: Encode) -> OwnFilesScores:
        return OwnFilesScores(tuple(evaluate_own(encode, data, weight) for data in request.own))

    return score if request.own else None


def _judged_protocol(judged: JudgedQueries) -> str:
    empty = sum(all(grade <= 0 for grade in of.values()) for of in judged.judgements)
    without = f", {empty:,} of them without a relevant document and so at 0" if empty else ""
    parts = ["cosine", f"means over the queries{without}", *judged.notes, "ties in a random order"]
    return "; ".join(parts)
