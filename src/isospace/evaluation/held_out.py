"""Held-out text of a corpus, which selects checkpoints, and label-free measurements on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.examples import evenly
from isospace.corpus.groups import unit_of
from isospace.evaluation import geometry, retrieval
from isospace.evaluation.pairs import Candidates, Encode, TextPairs, encode_columns, sided
from isospace.losses import info_nce

TEMPERATURE = 0.05
PAIRS = 500
SENTENCES = 128
NOISY_SENTENCES = 64
"""Sentences measured under dropout. The sizes here do not depend on the machine. They keep the cost
of an evaluation below a tenth of the training between two evaluations."""
DISTRACTORS = 1_000
"""Largest number of training passages that are candidates of the validation pairs."""


class HeldOut:
    """Label-free measurements of one encoder during its training.

    `SENTENCES` of the sentences and `PAIRS` of the pairs are measured. `natural` is false for
    halves of sentences. `ranks` are those of the pairs in the last measurement.
    """

    def __init__(self, sentences: Sequence[str], pairs: TextPairs, natural: bool = True) -> None:
        self.natural = natural
        self.pairs = pairs.take(evenly(len(pairs), PAIRS))
        self._targets = retrieval.Targets.of_pairs(self.pairs)
        self.sentences = tuple(sentences[i] for i in evenly(len(sentences), SENTENCES))
        self.ranks: retrieval.RetrievalScores | None = None
        self._start: np.ndarray | None = None

    def measure(self, encode: Encode, encode_noisy: Encode) -> dict[str, float]:
        """Measure one state of the encoder; the first call must be the base model.

        Returns:
            pairs_loss (InfoNCE of the pairs, first texts against all second texts, tau 0.05) and
            pairs_mrr; alignment (two dropout views of each of `NOISY_SENTENCES`) and uniformity
            (clean vectors), after Wang & Isola; effective_rank; mean_cosine; neighbour_overlap
            (share of the ten nearest neighbours that are the same as in the base model).
        """
        encode, encode_noisy = sided(encode), sided(encode_noisy)
        clean = encode.documents(self.sentences)
        if self._start is None:
            self._start = clean
        # The same texts as in the selection of the BM25 weight: a cached base model encodes them
        # once.
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
            "neighbour_overlap": geometry.neighbour_overlap(self._start, clean),
        }


def validation_text(corpus: Corpus) -> HeldOut:
    """Return the held-out text and the validation pairs that select checkpoints.

    They share no text and no group with the benchmark, unless there is too little text to split
    (`Benchmark.split`).
    """
    own, sentences = corpus.pairs, corpus.held_out(corpus.validation)
    if not own.dev:
        return HeldOut(sentences, held_out_halves(corpus, corpus.validation), natural=False)
    # Candidates of their own documents alone, because every evaluation encodes them.
    among = candidate_passages(corpus, corpus.validation)
    return HeldOut(sentences, natural_pairs(own.dev, own.dev_groups, own.unit, among))


def held_out_halves(corpus: Corpus, places: NDArray[np.int64]) -> TextPairs:
    """Return the halves of some held-out sentences, with their groups by the column `group`."""
    groups = None if corpus.group is None else [corpus.held_groups[place] for place in places]
    return retrieval.halves(corpus.held_out(places), groups, unit_of(corpus.group))


def hard_pairs(corpus: Corpus, held_out: HeldOut) -> TextPairs:
    """Return the validation pairs with `DISTRACTORS` training passages as additional candidates.

    With few candidates most encoders find most pairs, so that a better encoder hardly shows. The
    test pairs have more candidates.
    """
    if not corpus.pairs.dev:
        return held_out.pairs
    lines = corpus.train_rows[evenly(len(corpus.train_rows), DISTRACTORS)]
    among = candidate_passages(corpus, corpus.validation, lines)
    return replace(held_out.pairs, among=among)


def natural_pairs(
    pairs: Sequence[tuple[str, str]],
    groups: Sequence[str],
    unit: str,
    among: Candidates | None = None,
) -> TextPairs:
    """Return the pairs of a corpus with the group of each."""
    first, second = zip(*pairs, strict=True)
    return TextPairs("natural pairs", first, second, groups=tuple(groups), unit=unit, among=among)


def candidate_passages(
    corpus: Corpus, places: NDArray[np.int64] | None, distractors: NDArray[np.int64] | None = None
) -> Candidates | None:
    """Return the candidate passages for the held-out pairs of a corpus; `None` without documents.

    The candidates know all right passages of a query, including pairs that are not measured.
    `distractors` are lines of additional passages; a passage is never a candidate twice.
    """
    related, relation = corpus.related, corpus.pairs.relation
    if related is None or not relation:
        return None
    held = corpus.held_rows(places)
    names = corpus.held_groups if places is None else [corpus.held_groups[i] for i in places]
    groups: list[str | None] = list(names)
    validates = places is not None and len(places) < len(corpus.held_groups)
    described = f"all passages of the {'validation' if validates else 'held-out'} documents"
    if distractors is not None:
        others = np.setdiff1d(distractors, held)
        held = np.concatenate([held, others])
        groups += [None] * len(others)
        described += f" and {len(others):,} others"
    lines = related.sought(relation, held).tolist()
    place_of = {line: place for place, line in enumerate(lines)}
    right = {
        query: np.array([place_of[line] for line in found if line in place_of], dtype=np.int64)
        for query, found in related.answers(relation, corpus).items()
    }
    return Candidates(tuple(corpus[line] for line in lines), tuple(groups), right, described)
