"""What a look measures on held-out sentences, without labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from isospace.evaluation import geometry, retrieval
from isospace.evaluation.pairs import Encode
from isospace.similarity import info_nce


TEMPERATURE = 0.05
NEIGHBOURS = 10


class HeldOut:
    """Label-free measurements of one encoder as it trains.

    Args:
        sentences: n sentences that are not trained on.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = list(sentences)
        self._halves = retrieval.halves(self.sentences)
        self._start: np.ndarray | None = None

    def measure(self, encode: Encode, encode_noisy: Encode) -> dict[str, float]:
        """Measure one state of the encoder; the first call is the start, to which the others compare.

        Args:
            encode: texts -> (n, dim) clean vectors.
            encode_noisy: the same under the dropout of the training views.

        Returns:
            halves_loss and halves_mrr (first half against all second halves); alignment (two dropout
            views of a sentence) and uniformity (clean vectors), after Wang & Isola; effective_rank;
            mean_cosine; neighbour_overlap (share of the ten nearest neighbours kept from the start).
        """
        clean = encode(self.sentences)
        if self._start is None:
            self._start = clean
        first = encode(self._halves.first)
        second = encode(self._halves.second)
        loss = info_nce(torch.from_numpy(first), torch.from_numpy(second), TEMPERATURE)
        return {
            "halves_loss": float(loss),
            "halves_mrr": retrieval.rank_pairs(first, second).mrr,
            "alignment": geometry.alignment(
                encode_noisy(self.sentences), encode_noisy(self.sentences)
            ),
            "uniformity": geometry.uniformity(clean),
            "effective_rank": geometry.effective_rank(clean),
            "mean_cosine": geometry.mean_cosine(clean),
            "neighbour_overlap": geometry.neighbour_overlap(self._start, clean, NEIGHBOURS),
        }
