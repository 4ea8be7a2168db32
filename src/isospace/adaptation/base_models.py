"""Comparison of base models before a search: with and without whitening, on the same pairs.

Whitening needs no training, so each model costs one pass over the texts. The model whose best
version has the highest validation MRR is selected, and only this model is fine-tuned. The test
pairs then give the gain of the selected model over the second best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isospace.adaptation.candidates import BASE_MODEL
from isospace.adaptation.results import BaseModels, BaseModelScores, write_results
from isospace.adaptation.scoring import Search, Tried, score_test_pairs, try_closed_forms
from isospace.adaptation.time_plan import seconds_per_token, tokens_of
from isospace.statistics.gains import Gain
from isospace.statistics.influence import Scores
from isospace.statistics.selection import SelectedAmong, measured_gain
from isospace.statistics.verdict import counted, kind_of, reason

MOST_COMPARING = 0.5
"""Largest share of a budget in minutes for the comparison of base models."""


@dataclass(frozen=True)
class _Compared:
    """One base model: its closed forms, and the scores of the best on the test pairs."""

    search: Search
    tried: Tried
    test: Scores
    scores: BaseModelScores


def compare_base_models(searches: Sequence[Search]) -> tuple[Search, Tried]:
    """Score the closed forms of each base model, then write and show the comparison.

    Returns:
        The search of the selected model, and its tried candidates.
    """
    progress, compared = searches[0].progress, []
    for number, search in enumerate(searches, start=1):
        progress.line("base model", f"{number} of {len(searches)}: {search.task.config.model}")
        compared.append(_closed_forms(search))
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


def _closed_forms(search: Search) -> _Compared:
    """Score a base model with and without each map, and the best of these on the test pairs."""
    tried = try_closed_forms(search)
    selected = tried.selected
    base, test = (score_test_pairs(search, one, tried) for one in (BASE_MODEL, selected))
    encoder, texts = search.encoders.encoder, search.task.validation.second
    tokens_per_text = tokens_of(encoder, ("document", texts)) / len(set(texts))
    scores = BaseModelScores(
        search.task.config.model,
        encoder.dim,
        1 / (tokens_per_text * seconds_per_token(encoder, texts, "float32")),
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
