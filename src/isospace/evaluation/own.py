"""Scores on a user's own data."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from isospace.config import DataKind
from isospace.evaluation.geometry import NEIGHBOURS, Embeddings, as_array, normalised
from isospace.evaluation.hybrid import (
    BM25Comparison,
    compare_judged,
    compare_pairs,
    gains_over_first,
)
from isospace.evaluation.judged import JudgedQueries
from isospace.evaluation.own_data import LabelledSentences, OwnData
from isospace.evaluation.pairs import Encode, ScoredPairs, TextPairs, encode_columns, sided
from isospace.evaluation.sts import pair_cosines
from isospace.evaluation.task import Conditions, Request, Subject, TitledRows, percent_cells
from isospace.operators.fusion import WEIGHT
from isospace.operators.nearest import product_blocks, shares_of_places, unit_rows
from isospace.statistics.gains import pearson, spearman

OwnKind: TypeAlias = DataKind | Literal["retrieval"]

_STARTS, _SEED = 10, 0  # for k-means


@dataclass(frozen=True)
class OwnScores:
    """Scores of the n rows of one file: 0 to 1, or -1 to 1 for correlations.

    `with_bm25` has the scores of BM25 and hybrid search if the rows are queries.
    """

    file: str
    kind: OwnKind
    n: int
    protocol: str
    values: dict[str, float]
    with_bm25: BM25Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        with_bm25 = None if self.with_bm25 is None else self.with_bm25.to_json()
        return asdict(replace(self, with_bm25=None)) | {"with_bm25": with_bm25}


def evaluate_own(
    encode: Encode, data: OwnData, bm25_weight: float = WEIGHT, encode_afresh: Encode | None = None
) -> OwnScores:
    """Score a user's file or folder.

    - judged queries: nDCG@10, MRR@10 and recall over all documents, compared with BM25.
    - pairs: the rank of each second text for its first text among all second texts, compared with
      BM25.
    - scored pairs: the correlation of cosine and score.
    - labelled sentences: `knn_accuracy` and `cluster_nmi`.

    `encode_afresh` is the encoder without a cache, for the documents of judged queries.
    """
    content, with_bm25 = data.content, None
    kind: OwnKind
    match content:
        case JudgedQueries():
            afresh = replace(sided(encode), documents=sided(encode_afresh or encode).documents)
            with_bm25 = compare_judged(afresh, content, bm25_weight)
            kind, values = "retrieval", with_bm25.values["encoder"]
            protocol = _judged_protocol(content)
        case ScoredPairs():
            kind, protocol = "scored", f"correlation of cosine and score, {len(content):,} pairs"
            [cosines] = pair_cosines(encode, [content])
            values = {"Spearman": spearman(cosines, content.gold)}
            values["Pearson"] = pearson(cosines, content.gold)
        case TextPairs():
            ranks, with_bm25 = compare_pairs(encode, content, bm25_weight)
            kind, protocol, values = "pairs", ranks.protocol, ranks.row()
        case LabelledSentences():
            kind = "labelled"
            protocol, values = _score_labelled(encode, content)
    n, protocol = len(content), f"{data.columns}; {protocol}"
    return OwnScores(data.file, kind, n, protocol, values, with_bm25)


@dataclass(frozen=True)
class OwnFilesScores:
    """Scores of every file, in the user's order."""

    files: tuple[OwnScores, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the scores of each file."""
        return [scores.to_json() for scores in self.files]

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
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


def own_files_task(request: Request) -> Callable[[Subject], OwnFilesScores] | None:
    """Score each of the user's own files by its kind; there may be none."""
    weight = request.config.bm25_weight

    def score(subject: Subject) -> OwnFilesScores:
        encode, afresh = subject.encode, subject.encode_afresh
        files = (evaluate_own(encode, data, weight, afresh) for data in request.own)
        return OwnFilesScores(tuple(files))

    return score if request.own else None


def _judged_protocol(judged: JudgedQueries) -> str:
    empty = sum(all(grade <= 0 for grade in of.values()) for of in judged.judgements)
    without = f", {empty:,} of them without a relevant document and so at 0" if empty else ""
    parts = ["cosine", f"means over the queries{without}", *judged.notes, "ties in a random order"]
    return "; ".join(parts)


def _score_labelled(encode: Encode, data: LabelledSentences) -> tuple[str, dict[str, float]]:
    [x] = encode_columns(encode, data.texts)
    counts = Counter(data.labels)
    commonest = max(counts.values()) / len(data.labels)
    k = min(NEIGHBOURS, len(data.texts) - 1)
    protocol = (
        f"{len(data.texts):,} sentences of {len(counts)} labels, the commonest {commonest:.1%}; "
        f"kNN: leave-one-out vote of the {k} nearest by cosine, ties shared; NMI: k-means with "
        f"{len(counts)} clusters against the labels"
    )
    values = {"kNN accuracy": knn_accuracy(x, data.labels), "NMI": cluster_nmi(x, data.labels)}
    return protocol, values


def knn_accuracy(x: Embeddings, labels: Sequence[str]) -> float:
    """Return the share of sentences whose label wins a vote of their `NEIGHBOURS` nearest ones.

    Neighbours are found by cosine among all other sentences (leave one out), and each has one vote.
    Sentences that tie for the last places (within `nearest.TIE`) share the votes of these places.
    Labels that tie for the most votes share the credit. So the order of rows does not matter. A
    collapsed encoder gets about the share of the commonest label.

    `x` is `(sentence, dim)`; with fewer other sentences all of them vote.
    """
    n = len(x)
    k = min(NEIGHBOURS, n - 1)
    names, numbers = np.unique(np.asarray(labels), return_inverse=True)
    members = np.eye(len(names))[numbers]
    credit = 0.0
    vectors = unit_rows(as_array(x))
    for start, cosines in product_blocks(vectors, vectors):
        np.fill_diagonal(cosines[:, start:], -np.inf)  # a row is no neighbour of its own
        votes = shares_of_places(cosines, k) @ members
        most = votes >= votes.max(1, keepdims=True) - 1e-9
        own = numbers[start : start + len(cosines)]
        credit += float((most[np.arange(len(own)), own] / most.sum(1)).sum())
    return credit / n


def cluster_nmi(x: Embeddings, labels: Sequence[str]) -> float:
    r"""Return the normalised mutual information of clusters and labels, 0 to 1.

    Clusters C are those of k-means on the unit vectors, as many as labels L. The measure is
    $2 I(C; L) / (H(C) + H(L))$, equal to the V-measure that mteb reports. It is NaN if a row is not
    finite.

    `x` is `(sentence, dim)`.
    """
    units = normalised(x).astype(np.float32)
    if not np.isfinite(units).all():
        return float("nan")
    means = KMeans(len(set(labels)), n_init=_STARTS, random_state=_SEED)
    with warnings.catch_warnings():
        # A collapsed encoder has fewer distinct vectors than labels; k-means warns of that.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = means.fit_predict(units)
    return float(normalized_mutual_info_score(labels, clusters))
