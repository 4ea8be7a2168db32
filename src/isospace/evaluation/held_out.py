"""What an evaluation measures on held-out text, without labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from isospace.evaluation import geometry, retrieval
from isospace.evaluation.pairs import Encode, TextPairs
from isospace.operators.similarity import info_nce

TEMPERATURE = 0.05
NEIGHBOURS = 10


class HeldOut:
    """Label-free measurements of one encoder as it trains.

    Args:
        sentences: n sentences that are not trained on.
        pairs: natural pairs of the corpus, not trained on and not those of the verdict; where there
            are none, the two halves of each sentence.

    Attributes:
        natural: whether the pairs are the corpus's.
    """

    def __init__(self, sentences: Sequence[str], pairs: TextPairs | None = None) -> None:
        self.sentences = tuple(sentences)
        self.natural = pairs is not None
        self.pairs = pairs or retrieval.halves(self.sentences)
        self._start: np.ndarray | None = None

    def measure(self, encode: Encode, encode_noisy: Encode) -> dict[str, float]:
        """Measure one state of the encoder; the first call is the start, the others' reference.

        Args:
            encode: texts -> (n, dim) clean vectors.
            encode_noisy: the same under dropout.

        Returns:
            pairs_loss (InfoNCE of the pairs, first texts against all second texts, tau 0.05) and
            pairs_mrr; alignment (two dropout views of a sentence) and uniformity (clean vectors),
            after Wang & Isola; effective_rank; mean_cosine; neighbour_overlap (share of the ten
            nearest neighbours that are the start's).
        """
        clean = encode(self.sentences)
        if self._start is None:
            self._start = clean
        first, second = encode(self.pairs.first), encode(self.pairs.second)
        loss = info_nce(torch.from_numpy(first), torch.from_numpy(second), TEMPERATURE)
        noisy = [encode_noisy(self.sentences) for _ in range(2)]
        return {
            "pairs_loss": float(loss),
            "pairs_mrr": retrieval.rank_pairs(self.pairs, first, second).mrr,
            "alignment": geometry.alignment(*noisy),
            "uniformity": geometry.uniformity(clean),
            "effective_rank": geometry.effective_rank(clean),
            "mean_cosine": geometry.mean_cosine(clean),
            "neighbour_overlap": geometry.neighbour_overlap(
                self._start, clean, min(NEIGHBOURS, len(clean) - 1)
            ),
        }
