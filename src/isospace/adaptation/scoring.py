"""Scores of candidates on the validation pairs and on the test pairs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from isospace.adaptation.candidate_encoders import CandidateEncoders
from isospace.adaptation.candidates import (
    BASE_MODEL,
    Candidate,
    allowed_candidates,
    candidates,
)
from isospace.adaptation.cross_validation import CrossValidated
from isospace.adaptation.results import BaseModels, CandidateScores, SearchResults
from isospace.adaptation.task import Task
from isospace.adaptation.time_plan import Passes
from isospace.evaluation.benchmark import HYBRID_BASE
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.statistics.gains import Gain, Scores, gain
from isospace.statistics.selection import best_position
from isospace.statistics.verdict import GAIN_ERROR_SHARE, error_share
from isospace.system.progress import Progress
from isospace.system.signals import StopRequest
from isospace.training.run import Run
from isospace.training.train import ModelScores


@dataclass(frozen=True)
class Search:
    """The values that every step of a search reads.

    Attributes:
        parts: scores by cross-validation, for a small folder; else `None`.
        began: start of the search by the monotonic clock, earlier sessions counted in.
        base_models: comparison of the base models; `None` if the user named one.
    """

    task: Task
    encoders: CandidateEncoders
    run: Run
    parts: CrossValidated | None
    began: float
    progress: Progress
    stop: StopRequest
    base_models: BaseModels | None = None

    @cached_property
    def passes(self) -> Passes:
        """Tokens that trained weights process: those of queries alone, if only they are trained."""
        return Passes.count(self.task, self.encoders, queries=self.encoders.of_queries)

    @property
    def seconds(self) -> float:
        """Seconds of the whole search, with those of earlier sessions."""
        return time.monotonic() - self.began


@dataclass(frozen=True)
class ValidationScores:
    """Scores of one candidate: on the validation pairs, and on each set of other text."""

    pairs: Scores
    other_text: dict[str, Scores]


@dataclass(frozen=True)
class Tried:
    """The candidates tried so far, the base model first, and their scores.

    `max_drop` is the largest drop on other text, in points of 100.
    """

    scores: Mapping[Candidate, ValidationScores]
    max_drop: float

    @property
    def base(self) -> ValidationScores:
        """The base model's scores."""
        return self.scores[BASE_MODEL]

    @property
    def mrr(self) -> dict[Candidate, float]:
        """Candidate -> MRR on the validation pairs."""
        return {candidate: found.pairs.mean for candidate, found in self.scores.items()}

    def gain(self, candidate: Candidate) -> Gain | None:
        """Return the gain of a candidate over the base model; `None` for the base model."""
        if candidate == BASE_MODEL:
            return None
        return gain(self.scores[candidate].pairs, self.base.pairs)

    def other_text(self, candidate: Candidate) -> dict[str, Gain]:
        """Return the gains of a candidate on other text: set -> gain over the base model."""
        own, base = self.scores[candidate].other_text, self.base.other_text
        return {name: gain(scores, base[name]) for name, scores in own.items()}

    @cached_property
    def allowed(self) -> list[Candidate]:
        """The candidates that drop at most `max_drop` points on other text."""
        gains = {one: self.other_text(one) for one in self.scores}
        return allowed_candidates(gains, self.max_drop)

    @property
    def selected(self) -> Candidate:
        """The allowed candidate with the highest validation MRR."""
        mrr = self.mrr
        return self.allowed[best_position([mrr[one] for one in self.allowed])]

    @property
    def error_share(self) -> float:
        """Ratio of the standard error of the selected candidate's gain to the base model's."""
        if self.selected == BASE_MODEL:
            return GAIN_ERROR_SHARE
        return error_share(self.scores[self.selected].pairs, self.base.pairs)

    def results(
        self, baselines: Mapping[str, Scores], selected: Candidate | None = None
    ) -> SearchResults:
        """Return the table of the candidates and baselines; `selected` is marked."""
        return SearchResults(
            tuple(
                CandidateScores(
                    one.name,
                    one.kind,
                    mrr,
                    self.gain(one),
                    self.other_text(one) if one != BASE_MODEL else {},
                    one in self.allowed,
                    one == selected,
                )
                for one, mrr in self.mrr.items()
            ),
            {name: gain(own, self.base.pairs) for name, own in baselines.items()},
        )


def validate(search: Search, tried: Tried, more: Sequence[Candidate]) -> Tried:
    """Score more candidates on the validation items, show the scores, and add them to `tried`."""
    for candidate in more:
        scores = _validation_scores(search, candidate)
        tried = replace(tried, scores={**tried.scores, candidate: scores})
        shown = [f"MRR {100 * scores.pairs.mean:.2f}"]
        if candidate != BASE_MODEL:
            changes = tried.other_text(candidate).items()
            shown += [f"{name} {100 * own.mean:+.2f}" for name, own in changes]
        words = f"{candidate.name}: {', '.join(shown)} on validation pairs"
        search.progress.line("tried", words)
    return tried


def try_closed_forms(search: Search) -> Tried:
    """Score the base model, without a map and with each map, on the validation items."""
    closed_forms = candidates([0.0], search.encoders.maps)
    if search.parts is not None:
        search.parts.score(closed_forms)
    return validate(search, Tried({}, search.task.config.max_drop), closed_forms)


def _validation_scores(search: Search, candidate: Candidate) -> ValidationScores:
    encode, pairs = search.encoders.encode(candidate), search.task.validation
    if search.parts is None:
        scores = mrr_scores(pairs, evaluate_retrieval(encode, pairs))
    else:
        scores = search.parts.scores(candidate)
    return ValidationScores(scores, search.task.data.other_text.measure(encode, "validation"))


def validate_baselines(
    search: Search, weight: float, base: ModelScores | None
) -> dict[str, Scores]:
    """Score BM25, and BM25 with the base model, on the validation pairs.

    After cross-validation they are the test pairs, on which `base` has the scores; else `None`.
    """
    pairs = search.task.validation
    if base is None:
        bm25, hybrid = rank_baselines(search.encoders.encode(BASE_MODEL), pairs, weight)
    else:
        bm25, hybrid = base.measured.with_bm25.bm25, base.measured.with_bm25.hybrid
    return {"BM25": mrr_scores(pairs, bm25), HYBRID_BASE: mrr_scores(pairs, hybrid)}


def score_test(search: Search, candidate: Candidate, tried: Tried, weight: float) -> ModelScores:
    """Score a candidate on the test items.

    Each part of a small folder selects among `tried`.
    """
    data, encode = search.task.data, search.encoders.encode(candidate)
    if search.parts is None:
        return ModelScores.measure(encode, data, weight)
    selected = search.parts.selected(candidate, tried.allowed)
    measured = search.parts.measured(selected, data.benchmark, encode, weight)
    return ModelScores(measured, data.other_text.measure(encode, measured=measured))


def score_test_pairs(search: Search, candidate: Candidate, tried: Tried) -> Scores:
    """Return a candidate's scores on the test pairs alone; arguments as for `score_test`."""
    pairs = search.task.data.benchmark.pairs
    if search.parts is not None:
        selected = search.parts.selected(candidate, tried.allowed)
        return search.parts.selected_scores(selected)
    return mrr_scores(pairs, evaluate_retrieval(search.encoders.encode(candidate), pairs))
