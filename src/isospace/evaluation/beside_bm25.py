"""An encoder beside BM25 and fused with it, on the same queries: is the encoder worth its while?

Shared words alone find much, and cost nothing: on some text more than an encoder does. Every table
of retrieval has these rows, and the interval of what they gain over the encoder alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.evaluation.pairs import Encode, TextPairs, encode_distinct
from isospace.evaluation.ranking import MEASURES, JudgedQueries, measure_ranking
from isospace.evaluation.retrieval import RetrievalScores, Targets
from isospace.evaluation.task import TitledRows, percent_cells
from isospace.operators.fusion import WEIGHT, fuse
from isospace.operators.nearest import product_blocks, unit_rows
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores, mean_scores

Way = Literal["encoder", "BM25", "fused"]
WAYS: tuple[Way, ...] = ("encoder", "BM25", "fused")

_Blocks = Iterator[tuple[int, NDArray[Any]]]
_SLICE = 1 << 14  # vectors that are scaled at once


def require_weight(bm25_weight: float) -> None:
    """Refuse what is no weight.

    Raises:
        UserError: it is below 0, or no number.
    """
    if not 0 <= bm25_weight < math.inf:
        raise UserError(f"`bm25_weight` {bm25_weight:g}: expected a number of 0 or more, such as 2")


@dataclass(frozen=True)
class BesideBM25:
    """What each way to search found.

    Attributes:
        measure: the one that the gains are of.
        values: way -> measure -> mean over the queries, 0 to 1.
        gains: way -> its gain over the encoder alone.
        weight: of BM25 in what is fused.
        unit: what the groups of queries are, in the plural.
        protocol: how BM25 and the differences are made, in words.
    """

    measure: str
    values: dict[Way, dict[str, float]]
    gains: dict[Way, Gain]
    weight: float
    unit: str
    protocol: str

    def rows(self, model: str) -> list[dict[str, str]]:
        """A row a way, x 100."""
        names = {"encoder": model, "BM25": "BM25", "fused": f"{model} + BM25"}
        column = f"{self.measure} over {model}"
        return [
            {"model": names[way]}
            | percent_cells(self.values[way])
            | ({column: _difference(self.gains[way])} if way in self.gains else {})
            for way in WAYS
        ]

    def in_words(self, model: str) -> str:
        """Whether plain BM25 is better, as far as the queries can tell."""
        found = self.gains["BM25"]
        interval = f"{self.measure} {100 * found.mean:+.2f}, 95 % interval {found.interval}"
        if found.low > 0:
            return f"Plain BM25 finds more than {model} here ({interval})."
        if found.high < 0:
            return f"{model} finds more than plain BM25 ({interval})."
        return (
            f"{found.groups:,} {self.unit} cannot tell whether {model} or plain BM25 finds more "
            f"({interval})."
        )

    def table(self, title: str, model: str) -> TitledRows:
        """The rows, with the sentence under them."""
        return TitledRows(title, self.rows(model), f"{self.in_words(model)} {self.protocol}.")


def judged_beside_bm25(
    encode_queries: Encode,
    encode_documents: Encode,
    judged: JudgedQueries,
    weight: float = WEIGHT,
) -> BesideBM25:
    """Rank all documents for each query in the three ways, and measure the lists.

    What is held is a vector of each document and the BM25 index; scores are made in blocks.

    Args:
        encode_queries: the encoder, as it reads queries.
        encode_documents: as it reads documents.
        judged: queries, documents and judgements; two queries or more.
        weight: of BM25, as in `fusion.fuse`.
    """
    blocks = _blocks_by_way(
        encode_queries, encode_documents, judged.queries, judged.documents, weight
    )
    values = {way: measure_ranking(blocks[way](), judged.judgements) for way in WAYS}
    groups, measure = judged.group_numbers(), MEASURES[0]
    return _compare(
        measure,
        {way: {name: float(of.mean()) for name, of in values[way].items()} for way in WAYS},
        {way: mean_scores(values[way][measure][None], groups) for way in WAYS},
        weight,
        judged.unit,
    )


def pairs_beside_bm25(
    encode_queries: Encode, encode_documents: Encode, pairs: TextPairs, weight: float = WEIGHT
) -> tuple[RetrievalScores, BesideBM25]:
    """Rank each pair's second text for its first text in the three ways.

    Args:
        encode_queries: the encoder, as it reads first texts.
        encode_documents: as it reads second texts.
        pairs: two or more.
        weight: of BM25, as in `fusion.fuse`.

    Returns:
        The ranks by the encoder alone, as `retrieval.rank_pairs` gives them, and all ways.
    """
    pairs = pairs.grouped()
    targets = Targets.of(pairs)
    texts = [pairs.second[row] for row in targets.rows]
    blocks = _blocks_by_way(encode_queries, encode_documents, pairs.first, texts, weight)
    ranks = {way: targets.rank(blocks[way]()) for way in WAYS}
    groups = pairs.group_numbers()
    beside = _compare(
        "MRR",
        {way: ranks[way].row() for way in WAYS},
        {
            way: mean_scores(of.reciprocal_ranks[None], groups, of.burdens[:, None])
            for way, of in ranks.items()
        },
        weight,
        pairs.unit,
    )
    return ranks["encoder"], beside


def _compare(
    measure: str,
    values: dict[Way, dict[str, float]],
    scores: Mapping[Way, Scores],
    weight: float,
    unit: str,
) -> BesideBM25:
    others: tuple[Way, ...] = ("BM25", "fused")
    gains = {way: gain(scores[way], scores["encoder"]) for way in others}
    protocol = (
        f"Differences with 95 % intervals over {gains['BM25'].groups:,} {unit}; BM25 of words "
        "without stemming or stop words; + BM25: cosine + "
        f"{weight:g} standard deviations x BM25 / its highest of the query"
    )
    return BesideBM25(measure, values, gains, weight, unit, protocol)


def _blocks_by_way(
    encode_queries: Encode,
    encode_documents: Encode,
    queries: Sequence[str],
    documents: Sequence[str],
    weight: float,
) -> dict[Way, Callable[[], _Blocks]]:
    """Way -> a function that makes its scores (query, document) anew, block by block."""
    first, second = (
        _unit_vectors(encode_queries, queries),
        _unit_vectors(encode_documents, documents),
    )
    bm25 = BM25(documents)

    def fused() -> _Blocks:
        for start, cosines in product_blocks(first, second):
            words = bm25.scores(queries[start : start + len(cosines)])
            yield start, fuse(cosines, words, weight)

    return {
        "encoder": lambda: product_blocks(first, second),
        "BM25": lambda: bm25.blocks(queries),
        "fused": fused,
    }


def _unit_vectors(encode: Encode, texts: Sequence[str]) -> NDArray[np.float32]:
    """`(text, dim)` of length 1; scaled in slices, since several copies would not fit in memory."""
    rows, vectors = encode_distinct(encode, texts)
    places = np.array([rows[text] for text in texts])
    unit = np.empty((len(texts), vectors.shape[1]), np.float32)
    for start in range(0, len(texts), _SLICE):
        part = slice(start, start + _SLICE)
        unit[part] = unit_rows(vectors[places[part]])
    return unit


def _difference(found: Gain) -> str:
    """A cell: points of 100 and their interval."""
    return f"{100 * found.mean:+.2f} ({found.interval})"
