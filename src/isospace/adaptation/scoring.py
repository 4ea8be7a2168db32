"""Scores of candidates on the validation pairs and on the test pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isospace.adaptation.candidate_encoders import CandidateEncoders
from isospace.adaptation.candidates import (
    BASE_MODEL,
    Candidate,
    allowed_candidates,
    candidates,
)
from isospace.adaptation.cross_validation import FOLDS, CrossValidated
from isospace.adaptation.results import BaseModels
from isospace.adaptation.task import Task
from isospace.adaptation.time_plan import Times
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.evaluation.scores import BASE, HYBRID_BASE
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores
from isospace.system.progress import Progress
from isospace.system.signals import StopRequest
from isospace.training.finish import ModelScores
from isospace.training.run import Run


@dataclass(frozen=True)
class Search:
    """The values that every step of a search reads.

    Attributes:
        task: the base model, the text, and the pairs.
        parts: scores by cross-validation, for a small folder; else `None`.
        times: seconds of every kind of candidate.
        base_models: comparison of the base models; `None` if the user named one.
    """

    task: Task
    run: Run
    encoders: CandidateEncoders
    parts: CrossValidated | None
    times: Times
    progress: Progress
    stop: StopRequest
    base_models: BaseModels | None = None


@dataclass(frozen=True)
class ValidationScores:
    """Scores of one candidate on the validation items.

    Attributes:
        pairs: MRR on the validation pairs, with the contribution of each pair.
        other_text: set -> scores on its validation part.
    """

    pairs: Scores
    other_text: dict[str, Scores]


@dataclass(frozen=True)
class Tried:
    """The candidates tried so far, the base model first, and their scores."""

    scores: Mapping[Candidate, ValidationScores]

    @property
    def base(self) -> ValidationScores:
        """Scores of the base model."""
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

    def allowed(self, max_drop: float) -> list[Candidate]:
        """Return the candidates that drop at most `max_drop` points of 100 on other text."""
        return allowed_candidates({one: self.other_text(one) for one in self.scores}, max_drop)


def validate(search: Search, tried: Tried, more: Sequence[Candidate]) -> Tried:
    """Score more candidates on the validation items, show the scores, and add them to `tried`."""
    for candidate in more:
        with search.times.timed(candidate.kind):
            scores = _validation_scores(search, candidate)
        tried = Tried({**tried.scores, candidate: scores})
        shown = [f"MRR {100 * scores.pairs.mean:.2f}"]
        if candidate != BASE_MODEL:
            changes = tried.other_text(candidate).items()
            shown += [f"{name} {100 * own.mean:+.2f}" for name, own in changes]
        words = f"{candidate.words}: {', '.join(shown)} on validation pairs"
        search.progress.line("tried", words)
    return tried


def try_closed_forms(search: Search) -> Tried:
    """Score the base model, without a map and with each map, on the validation items."""
    closed_forms = candidates([0.0], search.encoders.maps)
    if search.parts is not None:
        with search.times.timed(BASE):
            search.parts.score(closed_forms)
    return validate(search, Tried({}), closed_forms)


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

    Args:
        search: the pairs, and the base model.
        weight: weight of BM25 in the hybrid ranking.
        base: scores of the base model on the test pairs, if they are the validation pairs too.
    """
    pairs = search.task.validation
    if base is None:
        bm25, hybrid = rank_baselines(search.encoders.encode(BASE_MODEL), pairs, weight)
    else:
        bm25, hybrid = base.measured.with_bm25.bm25, base.measured.with_bm25.hybrid
    return {"BM25": mrr_scores(pairs, bm25), HYBRID_BASE: mrr_scores(pairs, hybrid)}


def score_test(
    search: Search, candidate: Candidate, allowed: Sequence[Candidate], weight: float
) -> ModelScores:
    """Score a candidate on the test items.

    Args:
        search: the items, and the encoders.
        candidate: the base model, or the selected candidate.
        allowed: candidates among which each part of a small folder selects.
        weight: weight of BM25 in the hybrid ranking.
    """
    data, encode = search.task.data, search.encoders.encode(candidate)
    if search.parts is None:
        return ModelScores.measure(encode, data, weight)
    selected = selected_of_parts(search.parts, candidate, allowed)
    measured = search.parts.measured(selected, data.benchmark, encode, weight)
    return ModelScores(measured, data.other_text.measure(encode, measured=measured))


def score_test_pairs(search: Search, candidate: Candidate, allowed: Sequence[Candidate]) -> Scores:
    """Return a candidate's scores on the test pairs alone; arguments as for `score_test`."""
    pairs = search.task.data.benchmark.pairs
    if search.parts is not None:
        return search.parts.selected_scores(selected_of_parts(search.parts, candidate, allowed))
    return mrr_scores(pairs, evaluate_retrieval(search.encoders.encode(candidate), pairs))


def selected_of_parts(
    parts: CrossValidated, candidate: Candidate, allowed: Sequence[Candidate]
) -> list[Candidate]:
    """Return the candidate to test in each part: the base model, or the part's own selection."""
    return [BASE_MODEL] * FOLDS if candidate == BASE_MODEL else parts.selected(allowed)
