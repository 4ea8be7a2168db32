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
from isospace.statistics.gains import Gain
from isospace.statistics.influence import Scores
from isospace.statistics.selection import SelectedAmong, measured_gain
from isospace.statistics.verdict import counted, kind_of, reason
from isospace.system.progress import Progress

MOST_COMPARING = 0.5
"""Largest share of a budget in minutes for the comparison of base models."""
_TURNS, _TURN, _WARM = 3, 32, 8
"""Number of timed turns of each model, texts of a turn, and texts to warm up."""


@dataclass(frozen=True)
class Pace:
    """The speed of one base model.

    Attributes:
        texts_per_second: documents of the corpus that the model encodes per second.
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
    """One base model: its closed forms, and the scores of the best on the test pairs."""

    search: Search
    tried: Tried
    test: Scores
    scores: BaseModelScores


def compare_base_models(searches: Sequence[Search], paces: Sequence[Pace]) -> tuple[Search, Tried]:
    """Score the closed forms of each base model, then write and show the comparison.

    Returns:
        The search of the selected model, and its tried candidates.
    """
    progress, compared = searches[0].progress, []
    for number, (search, pace) in enumerate(zip(searches, paces, strict=True), start=1):
        progress.line("base model", f"{number} of {len(searches)}: {search.task.config.model}")
        compared.append(_closed_forms(search, pace))
    best, second = sorted(compared, key=lambda one: -one.scores.validation)[:2]
    found, benchmark = _gain(compared, best, second), best.search.task.data.benchmark
    count = counted(found, benchmark.pairs.unit)
    verdict = (
        f"{best.scores.name} is selected, before {second.scores.name}. On the test pairs its gain "
        f"over {second.scores.name}, both whitened where that helps, is {found} in "
        f"{benchmark.protocol}; {count}{reason(kind_of(found), found)}."
    )
    models = BaseModels(tuple(one.scores for one in compared), best.scores.name, found, verdict)
    progress.table("base models, whitened, MRR x 100 on the test pairs", models.rows())
    progress.line("models", verdict)
    write_results(best.search.run.folder, models)
    return replace(best.search, base_models=models), best.tried


def _closed_forms(search: Search, pace: Pace) -> _Compared:
    """Score a base model with and without each map, and the best of these on the test pairs."""
    tried = try_closed_forms(search)
    selected = tried.selected
    base, test = (score_test_pairs(search, one, tried) for one in (BASE_MODEL, selected))
    scores = BaseModelScores(
        search.task.config.model,
        search.encoders.encoder.dim,
        pace.texts_per_second,
        selected.change.words if selected.change else selected.words,
        tried.mrr[selected],
        base.mean,
        test.mean,
    )
    return _Compared(search, tried, test, scores)


def _gain(compared: Sequence[_Compared], best: _Compared, second: _Compared) -> Gain:
    benchmark, among = best.search.task.data.benchmark, None
    if not benchmark.split:  # the test pairs selected the model, and the map of each model
        others = [one for one in compared if one is not second]
        maps = sum(len(one.tried.scores) - 1 for one in compared)
        scores = [second.test, *(one.test for one in others)]
        among = SelectedAmong(scores, 1 + others.index(best), unseen=maps)
    return measured_gain(best.test, second.test, among, benchmark.confidence)
