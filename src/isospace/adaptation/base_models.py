"""Comparison of base models before a search: with and without whitening, on the same pairs.

Whitening needs no training, so each model costs one pass over the texts. The model whose best
version has the highest validation MRR is selected, and only this model is fine-tuned. The test
pairs then give the gain of the selected model over the second best.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isospace.adaptation.candidate_encoders import CandidateEncoders
from isospace.adaptation.candidates import BASE_MODEL
from isospace.adaptation.results import BaseModels, BaseModelScores, write_results
from isospace.adaptation.scoring import Search, Tried, score_test_pairs, try_closed_forms
from isospace.adaptation.task import Task
from isospace.corpus.examples import evenly
from isospace.evaluation.benchmark import Benchmark
from isospace.statistics.counts import number_of
from isospace.statistics.gains import Gain
from isospace.statistics.influence import Scores
from isospace.statistics.selection import SelectedAmong, best_position, measured_gain
from isospace.statistics.verdict import counted
from isospace.system.progress import Progress

MOST_COMPARING = 0.5
"""Largest share of a budget in minutes for the comparison of base models."""
_TURNS, _TURN, _WARM = 3, 32, 8
"""Number of timed turns of each model, texts of a turn, and texts to warm up."""
_AS_FAST = 1.2
"""Largest ratio of speeds at which two models count as equally fast."""


@dataclass(frozen=True)
class Pace:
    """The speed of one base model.

    Attributes:
        texts_per_second: documents of the corpus that the model encodes per second.
        token: seconds per token.
    """

    texts_per_second: float
    token: float


def measure_paces(
    bases: Sequence[tuple[Task, CandidateEncoders]], progress: Progress
) -> list[Pace]:
    """Time the base models on the same documents, in turns, so that all have the same load."""
    texts = bases[0][0].validation.second
    sample = [texts[place] for place in evenly(len(texts), _TURNS * _TURN)]
    encoders = [own.encoder for _, own in bases]
    seconds = [0.0] * len(encoders)
    with progress.bar("speed", (1 + _TURNS) * len(encoders)) as advance:
        for encoder in encoders:
            encoder.embed(sample[:_WARM], side="document")
            advance(1)
        for turn in range(_TURNS):
            for place, encoder in enumerate(encoders):
                started = time.monotonic()
                encoder.embed(sample[turn::_TURNS], side="document")
                seconds[place] += time.monotonic() - started
                advance(1)
    tokens = [sum(map(len, one.tokens.ids(sample, side="document"))) for one in encoders]
    return [
        Pace(len(sample) / took, took / max(1, count))
        for took, count in zip(seconds, tokens, strict=True)
    ]


@dataclass(frozen=True)
class _Compared:
    """One base model: its closed forms, and scores of the best on validation and test pairs."""

    search: Search
    tried: Tried
    validation: Scores
    test: Scores
    scores: BaseModelScores


def compare_base_models(searches: Sequence[Search], paces: Sequence[Pace]) -> tuple[Search, Tried]:
    """Score the closed forms of each base model, then write and show the comparison.

    Args:
        searches: the search of each base model; all have the same text, pairs and run.
        paces: the speed of each base model.

    Returns:
        The search of the selected model, and its tried candidates.
    """
    progress, task = searches[0].progress, searches[0].task
    progress.line("budget", _split_of_budget(task, len(searches)))
    compared = []
    for number, (search, pace) in enumerate(zip(searches, paces, strict=True), start=1):
        progress.line("base model", f"{number} of {len(searches)}: {search.task.config.model}")
        compared.append(_closed_forms(search, pace))
    best = compared[best_position([one.validation for one in compared])]
    others = [one for one in compared if one is not best]
    second = others[best_position([one.validation for one in others])]
    found = _gain(compared, best, second)
    verdict = _verdict(task.data.benchmark, found, best.scores, second.scores)
    models = BaseModels(tuple(one.scores for one in compared), best.scores.name, found, verdict)
    progress.table("base models, whitened, MRR x 100 on the test pairs", models.rows())
    progress.line("models", verdict)
    write_results(best.search.run.folder, models)
    return replace(best.search, base_models=models), best.tried


def _split_of_budget(task: Task, count: int) -> str:
    amount, unit = task.config.budget
    if unit == "tokens":
        return f"{number_of(amount, unit)} train the best of {count} base models"
    if task.folds is not None:
        return (
            f"{number_of(amount, unit)}: {count} base models are compared first, and fine-tuning "
            "the best one gets the time that is left"
        )
    return (
        f"{number_of(amount, unit)}: up to {100 * MOST_COMPARING:.0f} % of them compare {count} "
        "base models, and the rest fine-tunes the best one"
    )


def _closed_forms(search: Search, pace: Pace) -> _Compared:
    """Score a base model with and without each map, and the best of these on the test pairs."""
    tried, task = try_closed_forms(search), search.task
    allowed = tried.allowed(task.config.max_drop)
    selected = allowed[best_position([tried.mrr[candidate] for candidate in allowed])]
    base, test = (score_test_pairs(search, one, allowed) for one in (BASE_MODEL, selected))
    scores = BaseModelScores(
        task.config.model,
        search.encoders.encoder.dim,
        pace.texts_per_second,
        selected.change.words if selected.change else selected.words,
        tried.mrr[selected],
        base.mean,
        test.mean,
    )
    return _Compared(search, tried, tried.scores[selected].pairs, test, scores)


def _gain(compared: Sequence[_Compared], best: _Compared, second: _Compared) -> Gain:
    """Return the gain of the best model over the second on the test pairs."""
    benchmark, among = best.search.task.data.benchmark, None
    if not benchmark.split:  # the test pairs selected the model, and the map of each model
        others = [one for one in compared if one is not second]
        maps = sum(len(one.tried.scores) - 1 for one in compared)
        scores = [second.test, *(one.test for one in others)]
        among = SelectedAmong(scores, 1 + others.index(best), unseen=maps)
    return measured_gain(best.test, second.test, among, benchmark.confidence)


def _verdict(
    benchmark: Benchmark, found: Gain, best: BaseModelScores, second: BaseModelScores
) -> str:
    """Return a sentence on which of the two best models is better, and which is faster."""
    if found.low > 0:
        words = f"{best.name} is the better base model, before {second.name}"
    elif found.high < 0:
        words = (
            f"{second.name} is better than {best.name} on the test pairs, though the validation "
            f"pairs selected {best.name}"
        )
    else:
        words = f"The test pairs cannot tell {best.name} and {second.name} apart"
    count = counted(found, benchmark.pairs.unit)
    text = f"{words}, both whitened where that helps: {found} in {benchmark.protocol}; {count}."
    fast, slow = sorted((best, second), key=lambda one: -one.texts_per_second)
    ratio = fast.texts_per_second / slow.texts_per_second
    if ratio < _AS_FAST:
        return text
    return f"{text} {fast.name} encodes {ratio:.1f} times as many texts a second as {slow.name}."
