"""Fine-tune the base model, once for each seed, for as long as the budget allows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from isospace.adaptation.candidate_encoders import Weights
from isospace.adaptation.candidates import Candidate
from isospace.adaptation.cross_validation import FOLDS
from isospace.adaptation.scoring import Search
from isospace.adaptation.task import MOST_EPOCHS
from isospace.adaptation.time_plan import (
    EARLIEST,
    MOST_LATE,
    SPARE,
    Amounts,
    Passes,
    TimePlan,
    of_pairs,
    seconds_per_token,
)
from isospace.statistics.choosing import added_by_choosing
from isospace.statistics.counts import number_of
from isospace.system.devices import peak_memory_mb
from isospace.training.finish import TrainingFacts
from isospace.training.fit import Fit
from isospace.training.run import Run
from isospace.training.schedule import FEWEST_UPDATES, evaluation_steps
from isospace.training.selection import PAIRS, Choice
from isospace.training.step import Diverged


@dataclass(frozen=True)
class FineTuned:
    """Results of all trainings of a search.

    Attributes:
        facts: facts about the first training that was kept, or about the first one if none was.
        weights: the weights of each kept training.
        steps: the update of the checkpoint of each kept training.
        selection_bias: average gain that comes only from selecting checkpoints by the test pairs.
        unseen: number of checkpoints that were not kept, if the test pairs select checkpoints.
        plan: the plan of the remaining minutes; `None` for a budget in tokens or a resumed run.
    """

    facts: TrainingFacts
    weights: tuple[Weights, ...] = ()
    steps: tuple[int, ...] = ()
    selection_bias: float = 0.0
    unseen: int = 0
    plan: TimePlan | None = None
    notes: tuple[str, ...] = ()


def nothing_trained(search: Search, base_mrr: float, amounts: Amounts) -> FineTuned:
    """Return the results of a search that fine-tunes nothing."""
    training, encoder = search.task.training, search.encoders.encoder
    notes: tuple[str, ...] = ()
    if not amounts.fine_tunes:
        notes = (
            f"Nothing was trained: a budget of {number_of(*search.task.config.budget)} is too "
            "little for measuring and fine-tuning. "
            f"Give about {number_of(amounts.enough, 'minutes')}.",
        )
    choice = Choice(0, training.select, PAIRS, base_mrr, base_mrr, (), "nothing was fine-tuned")
    facts = TrainingFacts(
        choice,
        evaluations=(),
        steps=0,
        longest=training.max_length,
        pooling=encoder.pooling,
        precision=search.encoders.fit_precision,
        seconds=search.times.whole,
        memory_mb=peak_memory_mb(),
    )
    return FineTuned(facts, notes=notes)


def fine_tune(search: Search, until: float | None) -> FineTuned:
    """Train once for each seed, as long as the budget allows.

    Args:
        search: the text, the base model, and the folder.
        until: the time at which the search must end. `None` for a budget in tokens, and for a
            resumed training, which keeps its planned length.
    """
    seeds = search.task.config.seeds
    plan: TimePlan | None = None
    ended: list[_Ended] = []
    for number in range(seeds):
        one = _train(search, number, until, plan, ended[-1].updates if ended else 0)
        ended.append(one)
        plan = one.plan
        if not one.updates:
            break
    kept = [one for one in ended if one.weights is not None]
    notes = [note for one in ended for note in one.notes]
    trained = [one for one in ended if one.updates]
    if trained and all(one.exhausted for one in trained):
        notes.append(f"Each training ends after {MOST_EPOCHS:g} passes over its examples.")
    return FineTuned(
        (kept or ended)[0].facts,
        tuple(one.weights for one in kept if one.weights is not None),
        tuple(one.facts.choice.step for one in kept),
        float(np.mean([one.selection_bias for one in kept])) if kept else 0.0,
        sum(one.unseen for one in ended),
        plan,
        tuple(notes),
    )


@dataclass(frozen=True)
class _Ended:
    """One training that has ended; its fields are like those of `FineTuned`."""

    facts: TrainingFacts
    updates: int
    plan: TimePlan | None
    notes: tuple[str, ...]
    weights: Weights | None = None
    selection_bias: float = 0.0
    unseen: int = 0
    exhausted: bool = False


def _train(
    search: Search, number: int, until: float | None, plan: TimePlan | None, before: int
) -> _Ended:
    """Train once."""
    training = search.task.training
    notes: list[str] = []
    settings = replace(training, seed=training.seed + number)
    folder = search.run.folder / "seeds" / str(number)  # of the first seed, the run itself
    run = Run.opened(folder, settings) if number else search.run
    with search.times.timed(Candidate(1.0, search.encoders.through).kind):

        def due(updates: int, last: int) -> list[int]:
            if plan is not None:
                return plan.due(updates, last)
            return evaluation_steps(updates, settings.evaluations, EARLIEST, last)

        # A checkpoint below the base model is kept too: merged half-way, it may be better.
        fit = Fit(
            settings,
            search.progress,
            search.stop,
            search.task.data,
            start_competes=False,
            due=due,
            vectors=search.encoders.folder,
        )
        search.encoders.put_behind(fit.encoder)
        if until is not None:
            plan = _time_plan(search, fit, until) if plan is None else plan.for_the_next()
        timed = 0  # the update after which a token was last timed

        def planned() -> int:
            nonlocal plan, timed
            assert plan is not None
            token = plan.token
            if fit.evaluated != timed:
                timed, token = fit.evaluated, _seconds_per_token(search)
            plan = plan.seen(fit.paces.update, fit.paces.evaluation, token)
            updates = plan.updates(time.monotonic(), fit.loop.step, fit.evaluated)
            return max(updates, FEWEST_UPDATES)

        with fit.holding(run, search.run.how_to_resume):
            fit.begin()
            updates, note = _updates(search, fit, plan, before)
            notes += filter(None, [note])
            fit.measure_start(updates)
            if not updates:
                return _Ended(TrainingFacts.of(fit), 0, plan, tuple(notes))
            try:
                fit.go(None if plan is None else planned)
            except Diverged as error:
                notes.append(
                    f"A training diverged at update {error.step} ({error.term} {error.value:g}), "
                    "and stopped there."
                )
    choice, tried, weights = fit.choice, fit.tried, None
    if choice.step:
        weights = search.encoders.read_trained(run.kept_weights)
    else:
        notes.append(f"A training gave no candidate: {choice.reason}.")
    return _Ended(
        TrainingFacts.of(fit),
        updates,
        plan,
        tuple(notes),
        weights,
        added_by_choosing(list(tried.values())) if tried and choice.step else 0.0,
        len(tried.keys() - {0, choice.step}) if tried else 0,
        fit.loop.total_steps == most_updates(fit),
    )


def most_updates(fit: Fit) -> int:
    """Return the largest number of updates of a training, whatever the budget."""
    return int(MOST_EPOCHS * fit.loop.updates_per_epoch)


def _seconds_per_token(search: Search) -> float:
    return seconds_per_token(search.encoders.encoder, search.task.validation.second, "float32")


def _time_plan(search: Search, fit: Fit, until: float) -> TimePlan:
    """Plan the remaining minutes from measured speeds."""
    task, encoder = search.task, search.encoders.encoder
    passes = Passes.count(search.encoders, task.data, task.validation, fit.training.config)
    token = evaluating = _seconds_per_token(search)
    if fit.accelerator.mixed_precision == "bf16":
        evaluating = seconds_per_token(encoder, task.validation.second, "bf16")
    # Maps are fitted in another precision. Count the float32 tokens that take the same time.
    fitting = evaluating if search.encoders.fit_precision == "bf16" else token
    mapped = round(passes.mapped * fitting / token)
    trained_have_a_map = search.encoders.through is not None
    validating = passes.validating - (passes.mapped - mapped if trained_have_a_map else 0)
    testing = passes.testing - (0 if trained_have_a_map else passes.mapped - mapped)
    trainings = task.config.seeds
    if task.folds is not None:  # each part has its own trainings, pairs and maps
        pairs = sum(of_pairs(encoder, part) for part in task.folds.of_part)
        trainings *= 1 + FOLDS
        validating += pairs - passes.pairs + FOLDS * mapped
    return TimePlan(
        until=until,
        update=fit.loop.seconds_per_step(),
        evaluation=passes.evaluation * evaluating,
        validating=validating,
        testing=testing,
        token=token,
        trainings=trainings,
        evaluations=fit.training.config.evaluations,
        most=most_updates(fit),
    )


def _updates(search: Search, fit: Fit, plan: TimePlan | None, before: int) -> tuple[int, str]:
    """Return the planned updates of a training, and a note if there are few or none.

    `before` is the number of updates of the previous training, or 0. Without a plan of minutes, a
    training has as many.
    """
    config, loop, most = search.task.config, fit.loop, most_updates(fit)
    amount, unit = config.budget
    if most < FEWEST_UPDATES:
        return 0, (
            f"Nothing was trained: {len(fit.training.batches.examples):,} examples are too few for "
            f"{FEWEST_UPDATES} updates of {loop.sentences_per_step} in {MOST_EPOCHS:g} passes."
        )
    enough, late = 0, math.inf
    if fit.begun is not None:
        updates = fit.begun
    elif plan is not None:
        now = time.monotonic()
        updates = plan.updates(now)
        late = now + SPARE * plan.takes(FEWEST_UPDATES) - plan.until
        enough = math.ceil(amount + late / 60)
    else:
        each = loop.tokens_per_step * config.seeds
        updates = before or min(int(amount / each), most)
        enough = math.ceil(FEWEST_UPDATES * each)
    if updates >= FEWEST_UPDATES:
        return updates, ""
    if late <= MOST_LATE * 60 * amount and not before:
        return FEWEST_UPDATES, (
            f"The fewest updates, {FEWEST_UPDATES}, were made, although they were expected to need "
            f"a budget of about {number_of(enough, unit)}."
        )
    return 0, (
        f"Nothing {'more ' if before else ''}was trained: a budget of "
        f"{number_of(amount, unit)} is too little for {FEWEST_UPDATES} updates of "
        f"{loop.tokens_per_step:,.0f} tokens"
        f"{' and the measuring' if unit == 'minutes' else ''}."
        f"{f' Give about {number_of(enough, unit)}.' if enough and not before else ''}"
    )
