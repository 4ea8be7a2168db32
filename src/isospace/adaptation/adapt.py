"""Adapt an encoder to a text: try candidates, select one, test it once.

The candidates come in order of cost (table in `candidates.py`). Each is scored on the validation
pairs and on the validation part of other text. A candidate that drops too much on other text is
rejected. The best of the others is scored once on the test pairs.

If the user names several base models, `compare_base_models` first scores each with and without
whitening on the same pairs. Whitening needs no training, so each model costs one pass over the
texts. Only the model with the highest validation MRR is fine-tuned. The test pairs give its gain
over the second best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isospace.adaptation.candidates import BASE_MODEL, Candidate, CandidateEncoders
from isospace.adaptation.cross_validation import CrossValidated
from isospace.adaptation.fine_tune import fine_tune, fine_tune_queries, nothing_trained
from isospace.adaptation.fitting import fit_precision
from isospace.adaptation.results import BASE_MODELS, BaseModels, BaseModelScores, read_base_models
from isospace.adaptation.selection import (
    FineTuned,
    Search,
    Tried,
    finish,
    score_test,
    score_test_pairs,
    try_closed_forms,
    validate,
    validate_baselines,
)
from isospace.adaptation.task import Task, load_base_model, load_task
from isospace.adaptation.time_plan import (
    MOST_LATE,
    SPARE,
    Amounts,
    Passes,
    TimePlan,
    counted_from,
    seconds_per_token,
    tokens_of,
)
from isospace.config import AdaptConfig, read_settings
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.errors import UserError, number_of
from isospace.statistics.gains import Gain, Scores
from isospace.statistics.selection import SelectedAmong, measured_gain
from isospace.statistics.verdict import counted, gain_sentence
from isospace.system import typed_json
from isospace.system.lifecycle import working_in
from isospace.system.progress import Logged, Progress
from isospace.system.signals import StopRequest
from isospace.training.loop import FEWEST_UPDATES
from isospace.training.run import FinishedRun, Run, start_or_resume

MOST_COMPARING = 0.5
"""Largest share of a budget in minutes for the comparison of base models."""
_TRAINING = 3
"""Time to train on a token, as a multiple of encoding it: backward takes two forward passes."""


@dataclass(frozen=True)
class _Compared:
    """One base model: its closed forms, and the scores of the best on the test pairs."""

    search: Search
    tried: Tried
    test: Scores
    scores: BaseModelScores


def compare_base_models(searches: Sequence[Search]) -> tuple[Search, Tried]:
    """Score the closed forms of each base model, then write and show the comparison.

    Return the search of the selected model, and its tried candidates.
    """
    progress, compared = searches[0].progress, []
    for number, search in enumerate(searches, start=1):
        progress.line("base model", f"{number} of {len(searches)}: {search.task.config.model}")
        compared.append(_closed_forms(search))
    best, second = sorted(compared, key=lambda one: -one.scores.validation)[:2]
    found, benchmark = _gain(compared, best, second), best.search.task.data.benchmark
    head = (
        f"{best.scores.name} is selected, before {second.scores.name}. On the test pairs its gain "
        f"over {second.scores.name}, both whitened where that helps, is "
    )
    count = counted(found, benchmark.pairs.unit)
    verdict = gain_sentence(head, found, benchmark.protocol, count)
    models = BaseModels(tuple(one.scores for one in compared), best.scores.name, found, verdict)
    progress.table("base models, whitened, MRR x 100 on the test pairs", models.rows())
    progress.line("models", verdict)
    typed_json.write(best.search.run.folder / BASE_MODELS, models)
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
        selected.change.name if selected.change else selected.name,
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


_KEPT = "candidates"  # folder in the run for vectors and the plan; removed at the end
_AMOUNTS = "amounts.json"


def adapt(
    config: AdaptConfig | None = None,
    resume: Path | str | None = None,
    progress: Progress | None = None,
) -> FinishedRun:
    """Search for the best encoder, and write the folder of a run with it.

    Args:
        config: the settings of a new search.
        resume: the folder of a search to resume, instead of `config`. Finished candidates are not
            made again. For a finished search, its results are returned.
        progress: shows the progress; default: the log.

    Raises:
        UserError: bad input; refused before the work starts. `TooLittle` if there is too little
            text, so that keeping the base model is best.
        Stopped: a signal (then `Interrupted`), a full disk, or a loss that diverged.
    """
    begin = partial(_begin, time.monotonic(), progress or Logged())
    return start_or_resume(config, resume, _settings, begin)


def _begin(
    started: float, progress: Progress, config: AdaptConfig, run: Run | None, stop: StopRequest
) -> FinishedRun:
    """Read the texts, load the base models, and search in the folder of the run.

    `started` is the start of the command by the monotonic clock.
    """
    compared = None if run is None else read_base_models(run.folder)
    names = config.models or (config.model,)
    text = load_task(config, progress)
    goes_on = names if compared is None else (compared.selected,)
    bases = [load_base_model(text, name, progress) for name in goes_on]
    budget_began = counted_from(started, time.monotonic(), _seconds(config))
    if run is None:
        settings = replace(bases[0][0].training, output=config.output)
        run = Run.create(settings, "adapt", typed_json.to_json(config), len(names))
    with working_in(run.folder, run.how_to_resume):
        kept = run.folder / _KEPT
        amounts = _amounts(bases, kept, budget_began)
        if note := amounts.note(config):
            progress.line("budget", note)
        began = started - amounts.seconds

        def planned(task: Task, encoders: CandidateEncoders) -> Search:
            task = task.with_share(amounts.share)
            encoders = replace(
                encoders, folder=kept, fitted_on=encoders.maps.texts(amounts.fitted_on)
            )
            parts = None
            if task.folds is not None:
                own = tuple(replace(encoders, corpus=corpus) for corpus in task.folds.corpora)
                parts = CrossValidated(task.folds, own)
            return Search(task, encoders, run, parts, began, progress, stop, compared)

        try:
            searches = [planned(*base) for base in bases]
            if len(searches) > 1:
                search, tried = compare_base_models(searches)
            else:
                search, tried = searches[0], try_closed_forms(searches[0])
            if config.models:
                run.write_config(replace(search.task.training, output=config.output))
            del bases, searches  # the models that were not selected take memory
            return _search(search, tried, amounts, budget_began)
        finally:
            if kept.is_dir():  # the search was stopped
                with suppress(OSError):
                    seconds = time.monotonic() - began
                    typed_json.write(kept / _AMOUNTS, replace(_kept_amounts(kept), seconds=seconds))


def _settings(run: Run) -> AdaptConfig:
    if not (run.folder / ADAPT_SETTINGS).is_file():
        raise UserError(f"{run.folder}: a run of train. Continue it with {run.to_resume[0]}")
    return read_settings(run.folder / ADAPT_SETTINGS, AdaptConfig)


def _seconds(config: AdaptConfig) -> float:
    """Return a budget of minutes in seconds, or 0 for a budget in tokens."""
    amount, unit = config.budget
    return 60 * amount if unit == "minutes" else 0.0


def _amounts(
    bases: Sequence[tuple[Task, CandidateEncoders]], kept: Path, budget_began: float
) -> Amounts:
    """Plan how much is measured, or read the plan of a run to resume."""
    task, encoders = bases[0]
    file, config = kept / _AMOUNTS, task.config
    if file.is_file():
        return _kept_amounts(kept)
    amounts = Amounts()
    trains = not encoders.encoder.is_frozen
    if config.budget[1] == "minutes" and task.folds is None and trains:
        work = [(_seconds_per_token(*base), Passes.count(*base)) for base in bases]
        left = budget_began + _seconds(config) - time.monotonic()
        if len(bases) > 1:
            left *= MOST_COMPARING
        whole = not task.data.held_out.natural
        amounts = Amounts.planned(work, left, whole)
    typed_json.write(file, amounts)
    return amounts


def _seconds_per_token(task: Task, encoders: CandidateEncoders) -> float:
    return seconds_per_token(encoders.encoder, task.validation.second, "float32")


def _kept_amounts(kept: Path) -> Amounts:
    return typed_json.read(kept / _AMOUNTS, Amounts, "amounts of a search")


def _search(search: Search, tried: Tried, amounts: Amounts, budget_began: float) -> FinishedRun:
    """Validate the baselines and trained candidates, select one, test it, and write the run."""
    config, data, progress = search.task.config, search.task.data, search.progress
    notes = list(search.task.notes)
    if search.base_models is not None:
        notes.append(search.base_models.verdict)
    notes += filter(None, [amounts.note(config)])
    weight = data.benchmark.select_weight(search.encoders.encode(BASE_MODEL), data.held_out)
    # The test may take a minute, so it follows the first table. Only the baselines of a small
    # folder need it before, because they are scored on the test pairs.
    base = None if search.parts is None else score_test(search, BASE_MODEL, tried, weight)
    baselines = validate_baselines(search, weight, base)
    progress.table(
        "candidates so far, on the validation pairs, x 100", tried.results(baselines).rows()
    )
    base = base or score_test(search, BASE_MODEL, tried, weight)
    progress.line("pairs", data.benchmark.detectable_gain(base.measured, tried.error_share))
    tuned = _fine_tuned(search, budget_began)
    search = replace(search, encoders=replace(search.encoders, trained=tuned.weights))
    if tuned.weights is not None and search.parts is not None:
        task, how_to_resume = search.task, search.run.how_to_resume
        parts = search.parts.trained(
            task.training, data, tuned.facts.steps, search.stop, how_to_resume, progress
        )
        search = replace(search, parts=parts)
        tried = validate(search, tried, search.encoders.maps.in_each_part)
    elif tuned.weights is not None:
        tried, left_out = _validate_trained(search, tried, tuned.plan)
        notes += left_out
    return finish(search, tried, baselines, tuned, base, weight, [*notes, *tuned.notes])


def _fine_tuned(search: Search, budget_began: float) -> FineTuned:
    """Fine-tune the encoder, unless it has no weights or the budget is too small."""
    config, of_queries = search.task.config, search.encoders.maps.queries_only
    if search.encoders.encoder.is_frozen:
        return nothing_trained(search)
    if of_queries and search.parts is not None:
        note = "Queries are mapped, and not fine-tuned, because a small folder is cross-validated."
        return nothing_trained(search, note)
    until = None  # a resumed training keeps its planned length
    if config.budget[1] == "minutes" and not search.run.last_checkpoint.is_file():
        until = budget_began + _seconds(config)
        if note := _too_short_for_training(search, until):
            return nothing_trained(search, note)
    return (fine_tune_queries if of_queries else fine_tune)(search, until)


def _too_short_for_training(search: Search, until: float) -> str:
    """Return a note if no training can end by `until`, however short; empty if one can.

    The shortest training and the measuring after it are counted roughly, because an exact plan
    (`fine_tune`) takes longer to make. One trained model is measured; queries keep time for more.
    """
    task, passes = search.task, search.passes
    if task.folds is not None or not task.data.held_out.natural:
        return ""
    measured = passes.validating + passes.testing
    if search.encoders.maps.queries_only:
        measured = passes.trained
    pairs = max(len(list(texts)) for _, texts in search.encoders.fit_texts)
    trained = FEWEST_UPDATES * task.training.batch_size * passes.mapped / pairs
    token = training = _seconds_per_token(task, search.encoders)
    if (precision := fit_precision(task.training)) == "bf16":
        training = seconds_per_token(search.encoders.encoder, task.validation.second, precision)
    work = token * measured + training * _TRAINING * trained
    late = time.monotonic() + SPARE * work - until
    minutes = task.config.budget[0]
    if late <= MOST_LATE * 60 * minutes:
        return ""
    enough = number_of(math.ceil(minutes + late / 60), "minutes")
    return (
        f"Nothing was trained: a budget of {number_of(minutes, 'minutes')} is too little for "
        f"measuring and fine-tuning. Give {enough} or more."
    )


def _validate_trained(
    search: Search, tried: Tried, plan: TimePlan | None
) -> tuple[Tried, list[str]]:
    """Validate the fine-tuned weights, merged weights as long as they score higher, and the maps.

    With a budget of minutes, a merge is tried only if time is left. A candidate that drops too much
    does not end the search: merging may reduce the drop.

    Return all candidates, and a note if time was short.
    """
    maps, notes = search.encoders.maps, []
    steps: list[Candidate] = []
    for candidate in maps.after_training:
        if steps and plan and not plan.allows_another(time.monotonic()):
            notes.append("The budget ended before all merged models were tried.")
            break
        steps.append(candidate)
        tried = validate(search, tried, [candidate])
        mrr = tried.mrr
        if len(steps) > 1 and steps[-2] in tried.allowed and mrr[candidate] <= mrr[steps[-2]]:
            break
    allowed, mrr = [one for one in steps if one in tried.allowed] or steps, tried.mrr
    best = max(allowed, key=lambda one: mrr[one])
    return validate(search, tried, maps.others(best)), notes
