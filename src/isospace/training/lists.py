"""Lists of texts to rank: a batch, mined candidates, and the scores of a teacher."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import side_of
from isospace.errors import UserError
from isospace.operators.nearest import BLOCK, highest
from isospace.system.files import cache_folder
from isospace.system.progress import Progress
from isospace.training.examples import Examples, Rows
from isospace.training.teachers import (
    Cosines,
    CrossEncoderTeacher,
    Fused,
    LinesBySide,
    ScoreMatrix,
    Teacher,
    is_cross_encoder,
)

DEPTH = 50
"""Nearest texts among which candidates are drawn (as many as GPL takes from each retriever)."""
FALSE_NEGATIVE = 0.95
"""A text that scores above this share of the score of the query's own text is probably right too,
and is not mined (TopK-PercPos, Moreira et al. 2024)."""
BM25 = "+bm25"


@dataclass(frozen=True)
class Lists:
    """The teacher and the mined texts for an objective that learns a ranking.

    Attributes:
        ranker: finds the nearest texts in the corpus.
        mined: number of candidates of an example.
        pool: (n,) lines that can be candidates, ascending.
        numbers: (line,) number of each line's document, or of the text itself.
        pairs: (pair, 2) numbers that belong together, sorted.
    """

    ranker: Teacher
    teacher: Teacher | None
    mined: int
    pool: Rows
    numbers: Rows
    pairs: Rows = field(repr=False)
    seed: int

    def _related(self, number: int) -> Rows:
        """Return the numbers that belong to a document or text, its own included."""
        first, last = np.searchsorted(self.pairs[:, 0], [number, number + 1])
        return np.append(self.pairs[first:last, 1], number)

    def candidates(self, rows: Rows, micro: int) -> Rows:
        """Draw (example, mined) lines near the first text of `rows` (example, text) of lines.

        They are among the `DEPTH` nearest. Texts of the example's documents, and those that are
        probably right too, are left out, and random texts fill up. All processes draw alike, by
        seed, lines and micro-batch.
        """
        found = np.empty((len(rows), self.mined), np.int64)
        step = max(1, BLOCK // len(self.pool))
        for start in range(0, len(rows) if self.mined else 0, step):
            part = rows[start : start + step]
            queries, own, of_pool = part[:, 0], part[:, -1:], self.numbers[self.pool]
            scores = self.ranker.scores(queries, self.pool)
            limits = FALSE_NEGATIVE * self.ranker.scores(queries, own)[:, 0]
            for place, (query, positive) in enumerate(part[:, [0, -1]].tolist()):
                of_query, of_own = (int(self.numbers[line]) for line in (query, positive))
                right = np.isin(of_pool, [*self._related(of_query), of_own])
                usable = np.where(right | (scores[place] > limits[place]), -np.inf, scores[place])
                random = np.random.default_rng([self.seed, micro, query, positive])
                near = highest(usable, DEPTH)
                near = random.permutation(near[usable[near] > -np.inf])
                near = near[: self.mined]
                if len(near) < self.mined:
                    different = ~np.isin(of_pool, [of_query, of_own])
                    different[near] = False
                    others = random.permutation(np.flatnonzero(different))
                    near = np.append(near, others[: self.mined - len(near)])
                found[start + place] = self.pool[near]
        return found

    def scores(self, rows: Rows, second: Rows, first: int) -> ScoreMatrix | None:
        """Return the teacher's scores (example, batch + mined), NaN without one.

        `rows` is (example, text + mined) lines, candidates last; `second` (batch,) the last texts
        of the whole batch, in which the examples begin at `first`.
        """
        if self.teacher is None:
            return None
        own = np.arange(len(rows))
        scores = self.teacher.scores(rows[:, 0], second)
        candidates = rows[:, rows.shape[1] - self.mined :]
        lines = np.concatenate([second[first + own, None], candidates], axis=1)
        of_own = self.teacher.scores(rows[:, 0], lines)
        scores[own, first + own] = of_own[:, 0]
        return np.concatenate([scores, of_own[:, 1:]], axis=1)

    def best(self, queries: Rows) -> Rows:
        """Return (query,) the nearest text, or the teacher's best among the `DEPTH` nearest."""
        found = np.empty(len(queries), np.int64)
        step = max(1, BLOCK // len(self.pool))
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            near = self.pool[[highest(row, DEPTH) for row in self.ranker.scores(part, self.pool)]]
            scores = (self.teacher or self.ranker).scores(part, near)
            places = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)
            found[start : start + step] = near[np.arange(len(part)), places]
        return found


def needs_lists(config: TrainConfig, examples: Examples) -> bool:
    """Return true if a run mines texts or has a teacher."""
    return config.teacher is not None or config.mined > 0 or examples.unanswered is not None


def make_lists(
    config: TrainConfig,
    corpus: Corpus,
    examples: Examples,
    base_model: Encoder,
    select_weight: Callable[[Encoder], float],
    progress: Progress,
) -> Lists:
    """Build the lists of a run; `select_weight` returns the weight of BM25 for an encoder."""
    numbers = examples.texts.documents
    pool = np.unique(corpus.train_rows + (1 if config.text.columns else 0))
    if config.text.columns:  # a text may be in several rows
        pool = np.sort(pool[np.unique(numbers[pool], return_index=True)[1]])
    others = len(np.unique(numbers[pool])) - 2
    if config.mined > others:
        raise UserError(
            f"`mined` {config.mined}: the corpus has only {max(others, 0)} other documents or "
            "texts to mine from. Set fewer, or give more text"
        )
    texts = examples.texts
    sides = LinesBySide(
        np.unique(examples.rows[:, 0]),
        np.union1d(examples.pairs[:, 1], pool),
        side_of(0, examples.rows.shape[1] + config.mined),
        texts.__getitem__,
        texts.digest,
    )

    def cosines(encoder: Encoder) -> Cosines:
        return Cosines.made(encoder, sides, cache_folder(), progress)

    began = time.monotonic()
    teacher, description = None, "no teacher; the base model ranks the candidates"
    if config.teacher is not None:
        teacher, description = _teacher(config, base_model, sides, cosines, select_weight)
    ranker = teacher if teacher and teacher.ranks_all else cosines(base_model)
    size = len(np.union1d(sides.queries, sides.texts))
    seconds = time.monotonic() - began
    progress.line("teacher", f"{description}; {size:,} texts, {seconds:.0f} s")
    pairs = numbers[examples.pairs]
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return Lists(ranker, teacher, config.mined, pool, numbers, pairs[order], config.seed)


def gives_cosines(teacher: str) -> bool:
    """Return true if `teacher` names an encoder, and not a cross-encoder."""
    name = teacher.removesuffix(BM25)
    return name == "base" or not is_cross_encoder(name)


def _teacher(
    config: TrainConfig,
    base_model: Encoder,
    sides: LinesBySide,
    cosines: Callable[[Encoder], Cosines],
    select_weight: Callable[[Encoder], float],
) -> tuple[Teacher, str]:
    """Return the teacher of the settings and its description."""
    teacher, device = config.teacher or "", str(base_model.device)
    if not gives_cosines(teacher):
        if not config.mined:
            raise UserError(
                f"`teacher` {teacher}: a cross-encoder scores mined texts. Set `mined`, such as 4"
            )
        return CrossEncoderTeacher(teacher, device, sides.read), f"cross-encoder {teacher}"
    name = teacher.removesuffix(BM25)
    encoder = base_model if name == "base" else load_encoder(name, device=device)
    made = cosines(encoder)
    if name == teacher:
        return made, name
    weight = select_weight(encoder)
    return Fused(made, sides, weight), f"{name} and BM25 (weight {weight:g})"
