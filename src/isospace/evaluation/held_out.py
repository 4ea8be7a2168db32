"""What an evaluation measures on held-out text, without labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from isospace.corpus.examples import evenly
from isospace.evaluation import geometry, retrieval
from isospace.evaluation.pairs import Encode, TextPairs, encode_columns, sided
from isospace.operators.similarity import info_nce

TEMPERATURE = 0.05
NEIGHBOURS = 10

PAIRS = 500
SENTENCES = 128
NOISY_SENTENCES = 64
"""At most so many are measured: an evaluation is to cost less than a tenth of the training between
two of them (`benchmarks/evaluation_cost.py` measures it). Sizes do not depend on the machine."""


class HeldOut:
    """Label-free measurements of one encoder as it trains.

    Args:
        sentences: n sentences that are not trained on; `SENTENCES` of them are measured.
        pairs: natural pairs of the corpus, not trained on and not those of the verdict; where there
            are none, the two halves of each sentence. `PAIRS` of them are measured.
        groups: of each sentence, and so of its halves.
        unit: what the groups are called.

    Attributes:
        natural: whether the pairs are the corpus's.
        ranks: of the pairs, as the newest measurement found them; `None` before the first.
    """

    def __init__(
        self,
        sentences: Sequence[str],
        pairs: TextPairs | None = None,
        groups: Sequence[str] | None = None,
        unit: str = "groups",
    ) -> None:
        self.natural = pairs is not None
        pairs = pairs or retrieval.halves(sentences, groups, unit)
        self.pairs = pairs.take(evenly(len(pairs), PAIRS))
        self._targets = retrieval.Targets.of(self.pairs)
        self.sentences = tuple(sentences[i] for i in evenly(len(sentences), SENTENCES))
        self.ranks: retrieval.RetrievalScores | None = None
        self._start: np.ndarray | None = None

    def measure(self, encode: Encode, encode_noisy: Encode) -> dict[str, float]:
        """Measure one state of the encoder; the first call is the base model, the reference.

        `encode` gives clean vectors (n, dim), `encode_noisy` the same under dropout. Where they
        have sides, sentences and second texts are documents, first texts queries.

        Returns:
            pairs_loss (InfoNCE of the pairs, first texts against all second texts, tau 0.05) and
            pairs_mrr; alignment (two dropout views of each of `NOISY_SENTENCES`) and uniformity
            (clean vectors), after Wang & Isola; effective_rank; mean_cosine; neighbour_overlap
            (share of the ten nearest neighbours that are the base model's).
        """
        encode, encode_noisy = sided(encode), sided(encode_noisy)
        clean = encode.documents(self.sentences)
        if self._start is None:
            self._start = clean
        # As the weight of BM25 is chosen, so that a start that is cached encodes them once.
        texts, first = encode_columns(
            encode, self._targets.texts, self.pairs.first, sides=("document", "query")
        )
        second = texts[self._targets.own]
        loss = info_nce(torch.from_numpy(first), torch.from_numpy(second), TEMPERATURE)
        self.ranks = self._targets.rank_vectors(first, texts)
        noisy = [encode_noisy.documents(self.sentences[:NOISY_SENTENCES]) for _ in range(2)]
        return {
            "pairs_loss": float(loss),
            "pairs_mrr": self.ranks.mrr,
            "alignment": geometry.alignment(*noisy),
            "uniformity": geometry.uniformity(clean),
            "effective_rank": geometry.effective_rank(clean),
            "mean_cosine": geometry.mean_cosine(clean),
            "neighbour_overlap": geometry.neighbour_overlap(
                self._start, clean, min(NEIGHBOURS, len(clean) - 1)
            ),
        }
