"""How to fuse cosines and BM25: ranks, z-scores, or BM25 by its highest, and with which weight.

    python benchmarks/fusion.py

writes `docs/results/fusion.md`. The pairs of docstrings (summary and next paragraph) are searched
in both directions, by the model as it is and with all its vectors moved towards one point, which
changes no order by cosine but leaves the cosines a fifth of their spread. The pairs are the
validation pairs and the test pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import draw
from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.evaluation.benchmark import natural_pairs
from isospace.evaluation.bm25 import BM25
from isospace.evaluation.pairs import Encode, TextPairs, encode_columns
from isospace.evaluation.retrieval import Targets
from isospace.operators.fusion import fuse
from isospace.operators.nearest import unit_rows
from isospace.system.files import cache_folder
from isospace.system.tables import markdown_table

WEIGHTS = (1.0, 1.5, 2.0, 2.5, 3.0, 5.0)
RANK = 60  # k of reciprocal rank fusion (Cormack, Clarke & Büttcher 2009)
AWAY = 2.0  # length of the vector that is added to all vectors of length 1

SHOWN = (
    "validation: to the paragraph",
    *(f"test: {w}" for w in ("to the paragraph", "to the summary", "narrow")),
)

Matrix = NDArray[np.float64]
Fusion = Callable[[Matrix, Matrix], Matrix]


def reciprocal_ranks(cosines: Matrix, words: Matrix) -> Matrix:
    """Reciprocal rank fusion of two whole lists."""
    ranks = [(-scores).argsort(1, kind="stable").argsort(1) + 1 for scores in (cosines, words)]
    return sum(1 / (RANK + rank) for rank in ranks)


def z_scores(weight: float) -> Fusion:
    """BM25 in standard deviations over all candidates of the query, added to the cosines so."""

    def fused(cosines: Matrix, words: Matrix) -> Matrix:
        # A constant of a query changes no order, so that the means can stay.
        return cosines + weight * cosines.std(1, keepdims=True) * words / words.std(
            1, keepdims=True
        ).clip(1e-9)

    return fused


def plain(weight: float) -> Fusion:
    """BM25 by its highest, added to the cosines as they are."""
    return lambda cosines, words: cosines + weight * words / words.max(1, keepdims=True).clip(1e-9)


WAYS: dict[str, Fusion] = (
    {"encoder": lambda cosines, words: cosines, "BM25": lambda cosines, words: words}
    | {f"reciprocal ranks, k = {RANK}": reciprocal_ranks}
    | {f"cosine + {weight:g} BM25 / highest": plain(weight) for weight in (0.1, 0.2)}
    | {f"cosine + {weight:g} sd x z of BM25": z_scores(weight) for weight in (0.15, 0.25)}
    | {
        f"cosine + {weight:g} sd x BM25 / highest": lambda cosines, words, weight=weight: fuse(
            cosines, words, weight
        )
        for weight in WEIGHTS
    }
)


def measure(pairs: TextPairs, encode: Encode, away: float) -> dict[str, float]:
    """MRR x 100 of each way."""
    targets = Targets.of_pairs(pairs)
    texts = targets.texts
    queries, documents = (
        unit_rows(np.pad(unit_rows(vectors), ((0, 0), (0, 1)), constant_values=away))
        for vectors in encode_columns(encode, pairs.first, texts)
    )
    cosines = (queries @ documents.T).astype(np.float64)
    words = BM25(texts).scores(pairs.first).astype(np.float64)
    # Ranking overwrites what it is given.
    return {
        name: 100 * targets.rank([(0, way(cosines, words).copy())]).mrr
        for name, way in WAYS.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--page", type=Path, default=Path("docs/results/fusion.md"))
    options = parser.parse_args(arguments)
    own = load_corpus(CorpusConfig(corpus=("docstrings",)), cache_folder()).pairs
    sides = {
        "validation": natural_pairs(own.dev, own.dev_groups, own.unit),
        "test": natural_pairs(own.test, own.test_groups, own.unit),
    }
    encoder = load_encoder(options.model)
    vectors: dict[str, NDArray[np.float32]] = {}
    for pairs in sides.values():
        texts = list(dict.fromkeys((*pairs.first, *pairs.second)))
        vectors |= dict(zip(texts, encoder.embed(texts), strict=True))

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vectors[text] for text in texts])

    rows: dict[str, dict[str, str]] = {name: {"scores": name} for name in WAYS}
    for side, pairs in sides.items():
        back = TextPairs(pairs.name, pairs.second, pairs.first, groups=pairs.groups)
        for column, asked, away in (
            (f"{side}: to the paragraph", pairs, 0.0),
            (f"{side}: to the summary", back, 0.0),
            (f"{side}: narrow", pairs, AWAY),
        ):
            if column not in SHOWN:
                continue
            for name, mrr in measure(asked, encode, away).items():
                rows[name][column] = f"{mrr:.2f}"
    counts = ", ".join(f"{len(pairs):,} {side} pairs" for side, pairs in sides.items())
    caption = f"MRR x 100, {options.model}, docstrings: {counts}.\n\n"
    draw(options.page, {"fusion": caption + markdown_table(list(rows.values())) + "\n"})


if __name__ == "__main__":
    main()
