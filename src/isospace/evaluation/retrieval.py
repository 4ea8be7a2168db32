"""Retrieval with pairs: the second text is ranked among all second texts by the first text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.groups import UNSPACED
from isospace.evaluation.pairs import Encode, TextPairs, unit_vectors
from isospace.operators.nearest import TIE, highest, product_blocks, unit_rows
from isospace.statistics.gains import FloatArray, Scores, mean_scores

MIN_WORDS = 8
MIN_CHARACTERS = 16
"""Shortest sentence that `halves` cuts: in words, or in a script without spaces."""
FIRST = 3
"""Number of top texts that `first_texts` returns for a query."""
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True)
class RetrievalScores:
    """Ranks of each query's own target among all targets: `(query,)`, 1 is best.

    `displacement` `(half, query)` is the sum by which a query's own target lowers the reciprocal
    ranks of the other queries of a half. If several queries share a target, the first has the loss.
    The first query of a group also has the losses by other texts of the group.
    """

    ranks: FloatArray
    candidates: int
    protocol: str
    displacement: FloatArray

    @property
    def reciprocal_ranks(self) -> FloatArray:
        """1 / rank of each query, `(query,)`."""
        return 1.0 / self.ranks

    @property
    def ndcg(self) -> FloatArray:
        """nDCG@10 of each query, which has one right text, `(query,)`."""
        return np.asarray((self.ranks <= 10) / np.log2(1 + self.ranks))

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank, 0 to 1."""
        return float(self.reciprocal_ranks.mean())

    def row(self) -> dict[str, float]:
        """Return MRR and the measures of `judged` for tables."""
        return {
            "MRR": self.mrr,
            "nDCG@10": float(self.ndcg.mean()),
            "MRR@10": float(((self.ranks <= 10) / self.ranks).mean()),
        } | {f"R@{k}": float((self.ranks <= k).mean()) for k in (1, 10, 100)}


@dataclass(frozen=True)
class Targets:
    """Texts that are ranked for the first texts of pairs: second texts and other candidates.

    Attributes:
        texts: distinct texts, the second texts of the pairs first.
        own: (pair,) position of each pair's second text.
        left_out: for each pair the positions of all texts that are right for its first text, or
            equal to it, which do not compete with its own second text; `None` if all have one.
        itself: (pair,) the position of the first text, if it is a target but not the right one;
            else -1.
        second_half: (pair,) true for pairs of the second half; a group is in one half.
        bearers: (target,) the pair that has the displacement by a target: the first pair with this
            target, else the first of its group; -1 if there is none.
        described: description of further candidates.
    """

    texts: tuple[str, ...]
    own: NDArray[np.int64]
    left_out: Sequence[NDArray[np.int64]] | None
    itself: NDArray[np.int64]
    second_half: NDArray[np.bool_]
    bearers: NDArray[np.int64]
    described: str

    @classmethod
    def of_pairs(cls, pairs: TextPairs) -> Targets:
        """Return the targets of pairs."""
        among = pairs.among
        others = () if among is None else among.texts
        place_of = {text: at for at, text in enumerate(dict.fromkeys((*pairs.second, *others)))}
        own = np.array([place_of[text] for text in pairs.second], dtype=np.int64)
        answers: dict[str, set[int]] = {}
        for query, place in zip(pairs.first, own.tolist(), strict=True):
            answers.setdefault(query, set()).add(place)
        bearers = np.full(len(place_of), -1)
        found, first = np.unique(own, return_index=True)
        bearers[found] = first
        if among is not None:
            for query, places in answers.items():
                places |= {place_of[others[at]] for at in among.right.get(query, ())}
            first_of = {g: at for at, g in reversed(list(enumerate(pairs.groups or ())))}
            for text, group in zip(others, among.groups, strict=True):
                if bearers[place_of[text]] < 0 and group is not None:
                    bearers[place_of[text]] = first_of.get(group, -1)
        for query, places in answers.items():
            if query in place_of:
                places.add(place_of[query])
        # The pairs of one query share an array: an array for each pair would not fit in memory.
        right = {query: np.array(sorted(places)) for query, places in answers.items()}
        several = any(len(places) > 1 for places in answers.values())
        itself = np.array([place_of.get(query, -1) for query in pairs.first], dtype=np.int64)
        return cls(
            tuple(place_of),
            own,
            [right[query] for query in pairs.first] if several else None,
            np.where(itself == own, -1, itself),
            pairs.group_numbers() % 2 == 1,
            bearers,
            "" if among is None else among.described,
        )

    def rank(
        self,
        blocks: Iterable[tuple[int, NDArray[Any]]],
        score: str = "cosine",
        own_scores: NDArray[Any] | None = None,
    ) -> RetrievalScores:
        """Rank each pair's second text by the scores (pair, target) in blocks, and overwrite these.

        Ties (within `nearest.TIE`) have their mean rank, `1 + better + tied / 2`: a collapsed
        encoder gets the middle rank. `own_scores` (pair,) replace the scores of the second texts.
        """
        own = self.own
        ranks, displacement = np.empty(len(own)), np.zeros((2, len(self.texts)))
        halves_of = np.stack([~self.second_half, self.second_half]).astype(np.float64)
        for start, scores in blocks:
            block = slice(start, start + len(scores))
            right = np.take_along_axis(scores, own[block, None], axis=1)
            if own_scores is not None:
                right = own_scores[block, None].astype(scores.dtype)
            if self.left_out is not None:
                for row, places in zip(scores, self.left_out[block], strict=True):
                    row[places] = -np.inf
            np.put_along_axis(scores, own[block, None], right, axis=1)
            better, tied = scores > right + TIE, np.abs(scores - right) <= TIE
            rank = 1 + better.sum(1) + (tied.sum(1) - 1) / 2
            ranks[block] = rank
            np.put_along_axis(tied, own[block, None], False, axis=1)
            for before, place in ((better, 1.0), (tied, 0.5)):
                # Without a better target the own one gains a place, without a tied one half of it.
                loss = np.where(before.any(1), 1 / np.maximum(rank - place, 0.5) - 1 / rank, 0.0)
                displacement += (halves_of[:, block] * loss) @ before
        borne = self.bearers >= 0
        of_queries = [
            np.bincount(self.bearers[borne], half[borne], len(own)) for half in displacement
        ]
        protocol = (
            f"{score}, {len(own)} queries ranked among {len(self.texts)} distinct targets, ties at "
            "their mean rank"
        )
        if self.left_out is not None:
            protocol += ", a query's other right targets and itself left out"
        if self.described:
            protocol += f"; candidates: {self.described}"
        return RetrievalScores(ranks, len(self.texts), protocol, np.stack(of_queries))

    def rank_vectors(self, first: NDArray[Any], texts: NDArray[Any]) -> RetrievalScores:
        """Rank the targets (target, dim) for the first texts (pair, dim) by cosine."""
        return self.rank(product_blocks(unit_rows(first), unit_rows(texts)))


def evaluate_retrieval(encode: Encode, pairs: TextPairs) -> RetrievalScores:
    """Rank each pair's second text for its first text among all candidates, by cosine."""
    targets = Targets.of_pairs(pairs)
    vectors = unit_vectors(encode, pairs.first, targets.texts)
    return targets.rank(product_blocks(*vectors))


def first_texts(encode: Encode, pairs: TextPairs, places: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the top texts of an encoder for the queries at some positions."""
    targets = Targets.of_pairs(pairs)
    queries, texts = unit_vectors(encode, pairs.first, targets.texts)
    found = []
    for place in places:
        cosines = texts @ queries[place]
        if targets.left_out is not None:  # other right texts of the query are not ranked for it
            others = targets.left_out[place]
            cosines[others[others != targets.own[place]]] = -np.inf
        best = highest(cosines, min(FIRST, len(cosines)))
        found.append(tuple(targets.texts[text] for text in best))
    return found


def mrr_scores(pairs: TextPairs, found: RetrievalScores) -> Scores:
    """Return the MRR of pairs with the contribution of each pair."""
    return mean_scores(
        found.reciprocal_ranks[None], pairs.group_numbers(), found.displacement[:, None]
    )


Items = dict[str, np.ndarray]
"""Column -> score of each test item, (item,); with the ending `DISPLACEMENT` -> what each item
takes from the scores of other items, (half, item)."""
DISPLACEMENT = " displacement"


def mrr_of_items(seeds: Sequence[Items], column: str, groups: NDArray[np.int64]) -> Scores:
    """Return `mrr_scores` from the items of each seed."""
    displacement = np.stack([items[f"{column}{DISPLACEMENT}"] for items in seeds], axis=1)
    return mean_scores(np.stack([items[column] for items in seeds]), groups, displacement)


def halves(
    sentences: Sequence[str], groups: Sequence[str] | None = None, unit: str = "groups"
) -> TextPairs:
    """Make pairs from single sentences: the first half of the words and the second half.

    They replace natural pairs if a corpus has none. A sentence that is mostly in a script without
    spaces is cut by characters, never before a combining mark. Short sentences are left out.

    >>> list(halves(["one two three four five six seven eight", "too short"]))
    [('one two three four', 'five six seven eight')]
    """
    rows: dict[str, int] = {}
    for row, sentence in enumerate(sentences):
        rows.setdefault(sentence, row)
    cuts = [(row, *cut) for sentence, row in rows.items() if (cut := _cut(sentence))]
    kept, first, second = zip(*cuts, strict=True) if cuts else ((), (), ())
    of_pairs = None if groups is None else tuple(groups[row] for row in kept)
    return TextPairs("halves of sentences", first, second, groups=of_pairs, unit=unit)


def _cut(sentence: str) -> tuple[str, str] | None:
    words = sentence.split()
    if len(words) >= MIN_WORDS:
        middle = len(words) // 2
        return " ".join(words[:middle]), " ".join(words[middle:])
    text = " ".join(words)
    unspaced = len(_UNSPACED.findall(text))
    if len(text) < MIN_CHARACTERS or 2 * unspaced < len(text):
        return None
    middle = len(text) // 2
    while middle < len(text) and unicodedata.category(text[middle]).startswith("M"):
        middle += 1
    first, second = text[:middle].strip(), text[middle:].strip()
    return (first, second) if first and second else None
