"""Lists to rank: what a teacher says of the texts of a batch, and candidates mined beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.encoders.cross import PairScorer, is_cross_encoder
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.prompts import side_of
from isospace.errors import UserError
from isospace.evaluation.own_data import load_scored_pairs
from isospace.operators.nearest import BLOCK, highest
from isospace.system.files import expanded
from isospace.system.progress import Progress
from isospace.training.examples import Examples
from isospace.training.plan import PassPlan
from isospace.training.teachers import (
    Cosines,
    CrossEncoderTeacher,
    FileTeacher,
    Fused,
    LinesBySide,
    Mean,
    Rows,
    Scores,
    Teacher,
)

DEPTH = 50
"""Nearest texts from which candidates are drawn (GPL mines as many by each of its retrievers)."""
FALSE_NEGATIVE = 0.95
"""A text that scores above this share of what a query's own text scores may well be right too
(TopK-PercPos, Moreira et al. 2024)."""
BM25 = "+bm25"


@dataclass(frozen=True)
class Lists:
    """The teacher and the mined texts of an objective that learns a ranking.

    Attributes:
        ranker: by what texts are looked for in the corpus.
        teacher: by what they are scored, where there is one.
        mined: candidates of an example.
        pool: (n,) lines from which they come, ascending.
        numbers: (line,) of the document of each line, or of the text itself.
        pairs: (pair, 2) of these numbers that belong together, sorted.
        seed: of the draws.
    """

    ranker: Teacher
    teacher: Teacher | None
    mined: int
    pool: Rows
    numbers: Rows
    pairs: Rows = field(repr=False)
    seed: int

    def _related(self, number: int) -> Rows:
        """Return the numbers of what belongs to a document or text, and its own."""
        first, last = np.searchsorted(self.pairs[:, 0], [number, number + 1])
        return np.append(self.pairs[first:last, 1], number)

    def candidates(self, rows: Rows, micro: int) -> Rows:
        """Mine texts that are near the first text of each example and do not belong to it.

        They are drawn from the `DEPTH` nearest that are none of its documents, nor likely to be
        right as well; those first of which a teacher's file says something, near or not. Where
        there are fewer, others of the corpus stand in.

        Args:
            rows: (example, text) lines.
            micro: number of the micro-batch in the run; with the seed and the lines it decides the
                draws, whichever process makes them.

        Returns:
            (example, mined) lines.
        """
        found = np.empty((len(rows), self.mined), np.int64)
        step = max(1, BLOCK // len(self.pool))
        for start in range(0, len(rows) if self.mined else 0, step):
            part = rows[start : start + step]
            queries, own, of_pool = part[:, 0], part[:, -1:], self.numbers[self.pool]
            scores = self.ranker.score_matrix(queries, self.pool)
            limits = FALSE_NEGATIVE * self.ranker.score_own(queries, own)[:, 0]
            for place, (query, positive) in enumerate(part[:, [0, -1]].tolist()):
                of_query, of_own = (int(self.numbers[line]) for line in (query, positive))
                right = np.isin(of_pool, [*self._related(of_query), of_own])
                usable = np.where(right | (scores[place] > limits[place]), -np.inf, scores[place])
                random = np.random.default_rng([self.seed, micro, query, positive])
                near = highest(usable, DEPTH)
                near = random.permutation(near[usable[near] > -np.inf])
                nothing = np.empty(0, np.int64)
                in_file = self.teacher.scored_rows(query) if self.teacher else nothing
                if len(in_file):
                    scored = np.isin(self.pool, in_file) & (usable > -np.inf)
                    scored_first = random.permutation(np.flatnonzero(scored))
                    near = np.concatenate([scored_first, near[~scored[near]]])
                near = near[: self.mined]
                if len(near) < self.mined:
                    different = ~np.isin(of_pool, [of_query, of_own])
                    different[near] = False
                    others = random.permutation(np.flatnonzero(different))
                    near = np.append(near, others[: self.mined - len(near)])
                found[start + place] = self.pool[near]
        return found

    def scores(self, rows: Rows, second: Rows, first: int) -> Scores | None:
        """Score the lists of examples by the teacher.

        Args:
            rows: (example, text + mined) lines, the candidates last.
            second: (batch,) the second texts of all examples of the batch, or its only ones.
            first: place in the batch of the first of these examples.

        Returns:
            (example, batch + mined) scores, NaN where it says nothing; `None` without a teacher.
        """
        if self.teacher is None:
            return None
        own = np.arange(len(rows))
        scores = self.teacher.score_matrix(rows[:, 0], second)
        lines = np.concatenate(
            [second[first + own, None], rows[:, rows.shape[1] - self.mined :]], 1
        )
        of_own = self.teacher.score_own(rows[:, 0], lines)
        scores[own, first + own] = of_own[:, 0]
        return np.concatenate([scores, of_own[:, 1:]], axis=1)

    def best(self, queries: Rows) -> Rows:
        """Return the text of the pool that answers each query best, (query,).

        Of the `DEPTH` nearest it is the one that the teacher scores highest, where it does.
        """
        found = np.empty(len(queries), np.int64)
        step = max(1, BLOCK // len(self.pool))
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            near = self.pool[
                [highest(row, DEPTH) for row in self.ranker.score_matrix(part, self.pool)]
            ]
            scores = (self.teacher or self.ranker).score_own(part, near)
            places = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)
            found[start : start + step] = near[np.arange(len(part)), places]
        return found


def needs_lists(config: TrainConfig, examples: Examples) -> bool:
    """Return true if a run mines texts, or asks a teacher."""
    return config.teacher is not None or config.mined > 0 or examples.unanswered is not None


def make_lists(
    config: TrainConfig,
    corpus: Corpus,
    examples: Examples,
    start: Encoder,
    choose_weight: Callable[[Encoder], float],
    cache: Path,
    progress: Progress,
) -> Lists:
    """Make the lists of a run; vectors are made, or found in the cache.

    The second text of a query among the examples may still be missing. `choose_weight` gives the
    weight of BM25 beside an encoder; `progress` shows what the teacher is and what it costs.

    Raises:
        UserError: a teacher that cannot be used, or too little text to mine from.
    """
    numbers = examples.texts.documents
    pool = _pool(config, corpus, numbers)
    _require_others(config.mined, numbers[pool])
    of = _sided(config, examples, pool)

    def cosines(encoder: Encoder) -> Cosines:
        return Cosines.made(encoder, of, cache, progress)

    began = time.monotonic()
    teacher, description = None, "the base model ranks, and nothing teaches"
    if config.teacher is not None:
        teacher, description = _teacher(config, start, of, cosines, choose_weight)
    ranker = teacher if teacher is not None and teacher.ranks_all else cosines(start)
    size = len(np.union1d(of.queries, of.texts))
    progress.line(
        "teacher",
        f"{description}; {size:,} texts, {time.monotonic() - began:.0f} s; "
        f"{_megabytes(ranker, teacher):,.0f} MB of vectors on disk",
    )
    pairs = numbers[examples.pairs]
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return Lists(ranker, teacher, config.mined, pool, numbers, pairs[order], config.seed)


def _require_others(mined: int, numbers: Rows) -> None:
    """Refuse more candidates than there are documents or texts beside an example's own."""
    others = len(np.unique(numbers)) - 2
    if mined > others:
        raise UserError(
            f"`mined` {mined}: the corpus has only {max(others, 0)} other documents or texts to "
            "mine from. Set fewer, or give more text"
        )


def require_scores(config: TrainConfig, corpus: Corpus) -> None:
    """Refuse a file of scores as `teacher` that says nothing of what is trained on.

    Raises:
        UserError: none of its pairs is of these texts.
    """
    if config.teacher is not None and (file := expanded(config.teacher)).is_file():
        examples = Examples.from_corpus(config, corpus)
        pool = _pool(config, corpus, examples.texts.documents)
        FileTeacher(file, _sided(config, examples, pool))


def _pool(config: TrainConfig, corpus: Corpus, numbers: Rows) -> Rows:
    """Return the texts that a search can find, each once."""
    pool = np.unique(corpus.train_rows + (1 if config.text.columns else 0))
    if config.text.columns:  # a text may be in several rows
        pool = np.sort(pool[np.unique(numbers[pool], return_index=True)[1]])
    return pool


def _sided(config: TrainConfig, examples: Examples, pool: Rows) -> LinesBySide:
    """Return the texts of a run by the sides on which they are read."""
    texts = examples.texts
    return LinesBySide(
        np.unique(examples.rows[:, 0]),
        np.union1d(examples.pairs[:, 1], pool),
        side_of(0, PassPlan.from_config(config).texts),
        texts.__getitem__,
        texts.digest,
    )


def _megabytes(*teachers: Teacher | None) -> float:
    """Return the megabytes of the vectors that these teachers read."""
    files = {
        vectors.file: vectors.vectors.nbytes
        for teacher in teachers
        if teacher is not None
        for vectors in teacher.reads
    }
    return sum(files.values()) / 1e6


def gives_cosines(teacher: str) -> bool:
    """Return true if `teacher` names encoders, and no cross-encoder or file of scores.

    Raises:
        UserError: there is nothing of that name, the file has no scores, or a cross-encoder is not
            named alone.
    """
    file = expanded(teacher)
    if file.is_file():
        load_scored_pairs(file)
        return False
    return _cross_encoder(teacher) is None


def _cross_encoder(teacher: str) -> str | None:
    """The cross-encoder that `teacher` names, if it names one."""
    names = names_of(teacher)
    found = next(filter(_is_cross_encoder, names), None)
    if found is not None and names != [found.removesuffix(BM25)]:
        raise UserError(
            f"`teacher` {teacher}: {found.removesuffix(BM25)} is a cross-encoder, and cannot be "
            "combined with BM25. Name the cross-encoder alone"
        )
    return found


def names_of(teacher: str) -> list[str]:
    """Split the names in `teacher`, each with or without `BM25` at its end."""
    return [name.strip() for name in teacher.split(",")]


def _is_cross_encoder(name: str) -> bool:
    base = name.removesuffix(BM25)
    return base != "base" and is_cross_encoder(base)


def _teacher(
    config: TrainConfig,
    start: Encoder,
    of: LinesBySide,
    cosines: Callable[[Encoder], Cosines],
    choose_weight: Callable[[Encoder], float],
) -> tuple[Teacher, str]:
    """Make the teacher that `teacher` names, and describe it."""
    assert config.teacher is not None
    file = expanded(config.teacher)
    if file.is_file():
        written = FileTeacher(file, of)
        return written, f"{file.name}, scores of {written.count:,} pairs that are trained on"
    teachers: list[Teacher] = []
    descriptions = []
    if (cross := _cross_encoder(config.teacher)) is not None:
        if not config.mined:
            raise UserError(
                f"`teacher` {cross}: a cross-encoder scores mined texts, and none are mined. Set "
                "`mined`, such as 4"
            )
        return CrossEncoderTeacher(
            PairScorer(cross, str(start.device)), of.read
        ), f"cross-encoder {cross}"
    for name in names_of(config.teacher):
        base = name.removesuffix(BM25)
        encoder = start if base == "base" else load_encoder(base, device=str(start.device))
        made, description = cosines(encoder), base
        if base == name:
            teachers.append(made)
        else:
            weight = choose_weight(encoder)
            teachers.append(Fused(made, of, weight))
            description += f" and BM25 (weight {weight:g})"
        descriptions.append(description)
    if len(teachers) == 1:
        return teachers[0], descriptions[0]
    return Mean(teachers), "the average of " + ", ".join(descriptions)
