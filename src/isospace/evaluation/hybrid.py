"""BM25 and hybrid search compared with an encoder alone, on the same queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.groups import without_words_of
from isospace.errors import UserError, number_of
from isospace.evaluation.bm25 import BM25
from isospace.evaluation.judged import JudgedQueries
from isospace.evaluation.pairs import Encode, TextPairs, unit_vectors
from isospace.evaluation.retrieval import RetrievalScores, Targets, mrr_scores
from isospace.evaluation.task import TitledRows, percent_cells
from isospace.operators.fusion import WEIGHT, fuse
from isospace.operators.nearest import product_blocks
from isospace.statistics.gains import Gain, Scores, gain
from isospace.statistics.selection import best_position

Way = Literal["encoder", "BM25", "hybrid"]
WAYS: tuple[Way, ...] = ("encoder", "BM25", "hybrid")

NO_SHARED = "MRR, no shared words"
"""Column of the encoder's MRR after the query's words were removed from its right text."""

WEIGHTS = (2.0, 1.5, 3.0, 1.0, 4.0, 0.5, 6.0)
"""BM25 weights that validation pairs select from, the default first."""

_Blocks = Iterator[tuple[int, NDArray[Any]]]
_BlocksByWay = dict[Way, Callable[[], _Blocks]]


def require_weight(bm25_weight: float) -> None:
    """Raise a `UserError` for a weight that is negative, infinite or NaN."""
    if not 0 <= bm25_weight < math.inf:
        raise UserError(f"`bm25_weight` {bm25_weight:g}: expected a number of 0 or more, such as 2")


@dataclass(frozen=True)
class BM25Comparison:
    """Scores of an encoder, of BM25 and of hybrid search on the same queries.

    `values` are means over the queries, 0 to 1. `scores` have the value of each query, for measures
    whose gains are shown; the first is that of the verdict. `unit` names the groups of queries.
    """

    values: dict[Way, dict[str, float]]
    scores: dict[Way, dict[str, Scores]]
    weight: float
    unit: str

    @property
    def measure(self) -> str:
        """Name of the verdict's measure."""
        return next(iter(self.scores["encoder"]))

    @property
    def protocol(self) -> str:
        """Description of differences and ways of search."""
        groups = np.unique(self.scores["encoder"][self.measure].groups)
        return (
            f"Differences with 95 % intervals over {number_of(len(groups), self.unit)}; BM25 of "
            "words without stemming or stop words; + BM25: cosine + "
            f"{self.weight:g} standard deviations x BM25 / its highest of the query"
        )

    def over(self, base: BM25Comparison, way: Way) -> dict[str, Gain]:
        """Return measure -> gain of a way of search over the encoder alone in `base`."""
        before = base.scores["encoder"]
        return {name: gain(after, before[name]) for name, after in self.scores[way].items()}

    def names(self, model: str) -> dict[Way, str]:
        """Return the name of each way of search."""
        return {"encoder": model, "BM25": "BM25", "hybrid": f"{model} + BM25"}

    def to_json(self) -> dict[str, Any]:
        """Return the means, and the gains of BM25 and hybrid search over the encoder alone."""
        return {
            "measure": self.measure,
            "values": self.values,
            "gains": {
                way: {name: asdict(found) for name, found in self.over(self, way).items()}
                for way in WAYS[1:]
            },
            "weight": self.weight,
            "unit": self.unit,
            "protocol": self.protocol,
        }

    def table(self, title: str, model: str) -> TitledRows:
        """Return a row for each way of search, x 100."""
        rows = [
            {"model": name} | percent_cells(self.values[way])
            for way, name in self.names(model).items()
        ]
        return TitledRows(title, rows, f"{self.protocol}.")


def gains_over_first(title: str, found: Mapping[str, BM25Comparison]) -> TitledRows:
    """Return a table: the gain of each model and way of search over the first model alone."""
    first, base = next(iter(found.items()))
    rows: dict[str, dict[str, str]] = {}
    for model, with_bm25 in found.items():
        for way, name in with_bm25.names(model).items():
            if name != first and name not in rows:
                gains = with_bm25.over(base, way)
                rows[name] = {"model": name} | {of: gain.points for of, gain in gains.items()}
    note = (
        f"Points, with 95 % intervals over the {base.unit}, each by itself: not corrected for how "
        "many there are."
    )
    return TitledRows(f"{title}, over {first}", list(rows.values()), note)


def compare_judged(encode: Encode, judged: JudgedQueries, weight: float = WEIGHT) -> BM25Comparison:
    """Rank all documents for each query in the three ways, and measure the rankings."""
    ignored = np.array(judged.ignored or [-1] * len(judged))
    _, blocks = _searched(encode, judged.queries, judged.documents, weight, ignored)
    scores = {way: judged.measure(blocks[way]()) for way in WAYS}
    values = {way: {name: found.mean for name, found in scores[way].items()} for way in WAYS}
    return BM25Comparison(values, scores, weight, "queries")


@dataclass(frozen=True)
class BaselineRanks:
    """Ranks of pairs by BM25, by hybrid search, and by the encoder without shared words.

    For `no_shared` the query's words were removed from its right text alone, if any shares one.
    """

    bm25: RetrievalScores
    hybrid: RetrievalScores
    no_shared: RetrievalScores | None
    weight: float


def rank_pairs(
    encode: Encode, pairs: TextPairs, weight: float = WEIGHT
) -> tuple[RetrievalScores, BaselineRanks]:
    """Rank each pair's second text for its first text, by the encoder and by the baselines."""
    targets = Targets.of_pairs(pairs)
    texts, itself = targets.texts, targets.itself
    (first, second), blocks = _searched(encode, pairs.first, texts, weight, itself)
    bare = [without_words_of(*pair) for pair in pairs]
    changed = [i for i, text in enumerate(bare) if text != pairs.second[i]]
    no_shared = None
    if changed:
        right = second[targets.own]
        right[changed] = unit_vectors(encode, [], [bare[i] for i in changed])[1]
        own_scores = np.einsum("ij,ij->i", first, right)
        no_shared = targets.rank(blocks["encoder"](), own_scores=own_scores)
    with_bm25 = BaselineRanks(
        targets.rank(blocks["BM25"](), "BM25"),
        targets.rank(blocks["hybrid"](), f"cosine and BM25 (weight {weight:g})"),
        no_shared,
        weight,
    )
    return targets.rank(blocks["encoder"]()), with_bm25


def rank_baselines(
    encode: Encode, pairs: TextPairs, weight: float = WEIGHT
) -> tuple[RetrievalScores, RetrievalScores]:
    """Return the ranks by BM25 alone and by hybrid search."""
    targets = Targets.of_pairs(pairs)
    _, blocks = _searched(encode, pairs.first, targets.texts, weight, targets.itself)
    return targets.rank(blocks["BM25"]()), targets.rank(blocks["hybrid"]())


def select_weight(encode: Encode, pairs: TextPairs) -> float:
    """Return the BM25 weight for which hybrid search has the highest MRR on the pairs."""
    targets = Targets.of_pairs(pairs)
    vectors = unit_vectors(encode, pairs.first, targets.texts)
    words = BM25(targets.texts).scores(pairs.first)  # small enough to keep in memory
    tried = [
        targets.rank(_hybrid_blocks(*vectors, words.__getitem__, weight, targets.itself)).mrr
        for weight in WEIGHTS
    ]
    return WEIGHTS[best_position(tried)]


def compare_pairs(
    encode: Encode, pairs: TextPairs, weight: float = WEIGHT
) -> tuple[RetrievalScores, BM25Comparison]:
    """Rank pairs as `rank_pairs` does, and compare the ways of search."""
    pairs = pairs.grouped()
    alone, others = rank_pairs(encode, pairs, weight)
    ranks = dict(zip(WAYS, (alone, others.bm25, others.hybrid), strict=True))
    values = {way: ranks[way].row() for way in WAYS}
    if others.no_shared is not None:
        values["encoder"] |= {NO_SHARED: others.no_shared.mrr}
    scores = {way: {"MRR": mrr_scores(pairs, found)} for way, found in ranks.items()}
    return alone, BM25Comparison(values, scores, weight, pairs.unit)


def _searched(
    encode: Encode,
    queries: Sequence[str],
    documents: Sequence[str],
    weight: float,
    itself: NDArray[np.int64],
) -> tuple[tuple[NDArray[np.float32], NDArray[np.float32]], _BlocksByWay]:
    """Return the vectors, and for each way a function that yields scores in blocks."""
    first, second = unit_vectors(encode, queries, documents)
    bm25 = BM25(documents)

    def bm25_scores(rows: slice) -> NDArray[np.float32]:
        return bm25.scores(queries[rows])

    return (first, second), {
        "encoder": lambda: product_blocks(first, second),
        "BM25": lambda: bm25.blocks(queries),
        "hybrid": lambda: _hybrid_blocks(first, second, bm25_scores, weight, itself),
    }


def _hybrid_blocks(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    words_of: Callable[[slice], NDArray[np.float32]],
    weight: float,
    itself: NDArray[np.int64],
) -> _Blocks:
    """Yield fused scores, block by block.

    The document that equals the query, `itself` (query,) or -1, is left out of the spread of the
    cosines and has the BM25 score 0.
    """
    for start, cosines in product_blocks(first, second):
        rows = slice(start, start + len(cosines))
        words, spread = words_of(rows), cosines.std(axis=1)
        there = np.flatnonzero(itself[rows] >= 0)
        own = itself[rows][there]
        words[there, own] = 0
        for row, place in zip(there.tolist(), own.tolist(), strict=True):
            spread[row] = np.delete(cosines[row], place).std()
        yield start, fuse(cosines, words, weight, spread)
