"""Adapt an encoder to a text: try candidates, select one, test it once.

The candidates come in order of cost (table in `candidates.py`). Each is scored on the validation
pairs and on the validation part of other text. A candidate that drops too much on other text is
rejected. The best of the others is scored once on the test pairs.

Of several base models, each is scored with and without whitening, and only the one with the highest
validation MRR is fine-tuned. The test pairs give its gain over the second best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isospace.adaptation.candidates import BASE_MODEL, Candidate, CandidateEncoders
from isospace.adaptation.cross_validation import CrossValidated
from isospace.adaptation.fine_tune import fine_tune, fine_tune_queries, nothing_trained
from isospace.adaptation.fitting import fit_precision
from isospace.adaptation.results import VALIDATION
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

    @property
    def name(self) -> str:
        return self.search.task.config.model

    @property
    def validation(self) -> float:
        return self.tried.mrr[self.tried.selected]

    def row(self, selected: bool) -> dict[str, str]:
        encoder, texts = self.search.encoders.encoder, self.search.task.validation.second
        tokens = tokens_of(encoder, ("document", texts)) / len(set(texts))
        seconds = tokens * seconds_per_token(encoder, texts, "float32")  # for a text
        base, own = score_test_pairs(self.search, BASE_MODEL, self.tried), self.tried.selected
        return {
            "": self.name,
            "dimensions": str(encoder.dim),
            "texts a second": f"{1 / seconds:.3g}",
            VALIDATION: f"{100 * self.validation:.2f}",
            "base model": f"{100 * base.mean:.2f}",
            "adapted": f"{100 * self.test.mean:.2f}",
            "by": own.change.name if own.change else own.name,
            "selected": "yes" if selected else "",
        }


def compare_base_models(searches: Sequence[Search]) -> tuple[Search, Tried, str]:
    """Compare the closed forms of base models; return the best model's, and a sentence."""
    progress, compared = searches[0].progress, []
    for number, search in enumerate(searches, start=1):
        progress.line("base model", f"{number} of {len(searches)}: {search.task.config.model}")
        tried = try_closed_forms(search)
        compared.append(_Compared(search, tried, score_test_pairs(search, tried.selected, tried)))
    best, second = sorted(compared, key=lambda one: -one.validation)[:2]
    found, benchmark = _gain(compared, best, second), best.search.task.data.benchmark
    head = (
        f"{best.name} is selected, before {second.name}. On the test pairs its gain over "
        f"{second.name}, both whitened where that helps, is "
    )
    count = counted(found, benchmark.pairs.unit)
    verdict = gain_sentence(head, found, benchmark.protocol, count)
    rows = [one.row(one is best) for one in compared]
    progress.table("base models, whitened, MRR x 100 on the test pairs", rows)
    progress.line("models", verdict)
    return best.search, best.tried, verdict


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
        resume: the folder of a search to resume, instead of `config`; a finished search returns its
            results.
        progress: default: the log.

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
    """Read the texts, load the base models, and search; `started` is by the monotonic clock."""
    names = config.models or (config.model,)
    text = load_task(config, progress)
    bases = [load_base_model(text, name, progress) for name in names]
    budget_began = counted_from(started, time.monotonic(), _seconds(config))
    if run is None:
        settings = replace(bases[0][0].training, output=config.output)
        run = Run.create(settings, "adapt", typed_json.to_json(config), len(names))
    with working_in(run.folder, run.how_to_resume):
        kept = run.folder / _KEPT
        amounts = _amounts(bases, kept, budget_began)
        if note := amounts.note(config):
            progress.line("budget", note)

        def planned(task: Task, encoders: CandidateEncoders) -> Search:
            task = task.with_share(amounts.share)
            encoders = replace(
                encoders, folder=kept, fitted_on=encoders.maps.texts(amounts.fitted_on)
            )
            parts = None
            if task.folds is not None:
                own = tuple(replace(encoders, corpus=corpus) for corpus in task.folds.corpora)
                parts = CrossValidated(task.folds, own)
            return Search(task, encoders, run, parts, started, progress, stop)

        searches = [planned(*base) for base in bases]
        if config.models:
            search, tried, verdict = compare_base_models(searches)
            run.write_config(replace(search.task.training, output=config.output))
        else:
            search, tried, verdict = searches[0], try_closed_forms(searches[0]), ""
        del bases, searches  # the models that were not selected take memory
        notes = list(filter(None, [*search.task.notes, verdict, amounts.note(config)]))
        return _search(search, tried, notes, budget_began)


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
        return typed_json.read(file, Amounts, "amounts of a search")
    amounts = Amounts()
    trains = not encoders.encoder.is_frozen
    if config.budget[1] == "minutes" and task.folds is None and trains:
        work = [
            (seconds_per_token(own.encoder, of.validation.second, "float32"), Passes.count(of, own))
            for of, own in bases
        ]
        left = budget_began + _seconds(config) - time.monotonic()
        if len(bases) > 1:
            left *= MOST_COMPARING
        whole = not task.data.held_out.natural
        amounts = Amounts.planned(work, left, whole)
    typed_json.write(file, amounts)
    return amounts


def _search(search: Search, tried: Tried, notes: list[str], budget_began: float) -> FinishedRun:
    """Validate the baselines and trained candidates, select one, test it, and write the run."""
    data, progress = search.task.data, search.progress
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
    """Return a note if even the shortest training would end long after `until`; else empty.

    The count is rough, because an exact plan (`fine_tune`) takes longer to make.
    """
    task, passes = search.task, search.passes
    if not task.data.held_out.natural:
        return ""
    measured = passes.validating + passes.testing
    if search.encoders.maps.queries_only or task.folds is not None:  # they always try a merge
        measured = passes.trained
    pairs = max(len(texts) for _, texts in search.encoders.fit_texts)
    trained = FEWEST_UPDATES * task.training.batch_size * passes.mapped / pairs
    encoder, texts = search.encoders.encoder, task.validation.second
    token = training = seconds_per_token(encoder, texts, "float32")
    if (precision := fit_precision(task.training)) == "bf16":
        training = seconds_per_token(encoder, texts, precision)
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

    A merge is tried only if the plan leaves time; a note says if not. A candidate that drops too
    much does not end the search, because merging may reduce the drop.
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
