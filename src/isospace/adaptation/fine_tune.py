"""Fine-tune the base model for as long as the budget allows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from isospace.adaptation.candidate_encoders import Weights
from isospace.adaptation.cross_validation import FOLDS
from isospace.adaptation.scoring import Search
from isospace.adaptation.task import MOST_EPOCHS
from isospace.adaptation.time_plan import (
    EARLIEST,
    MOST_LATE,
    SPARE,
    TimePlan,
    evaluation_tokens,
    seconds_per_token,
)
from isospace.statistics.counts import number_of
from isospace.statistics.selection import added_by_selecting
from isospace.system.devices import peak_memory_mb
from isospace.training.fit import Fit
from isospace.training.loop import FEWEST_UPDATES, evaluation_steps
from isospace.training.results import TrainingFacts
from isospace.training.selection import PAIRS, Choice
from isospace.training.step import Diverged


@dataclass(frozen=True)
class FineTuned:
    """The result of a fine-tuning.

    Attributes:
        weights: the kept weights; `None` if none were kept.
        selection_bias: gain that comes only from selecting the checkpoint by the test pairs.
        unseen: number of checkpoints that were not kept, if the test pairs select the checkpoint.
        plan: the plan of the remaining minutes; `None` for a budget in tokens or a resumed run.
    """

    facts: TrainingFacts
    weights: Weights | None = None
    notes: tuple[str, ...] = ()
    selection_bias: float = 0.0
    unseen: int = 0
    plan: TimePlan | None = None


def nothing_trained(search: Search, enough: int) -> FineTuned:
    """Return the results of a search that fine-tunes nothing.

    `enough` is the fewest minutes that may allow fine-tuning, if the budget is too short; else 0.
    """
    notes: tuple[str, ...] = ()
    if enough:
        notes = (
            f"Nothing was trained: a budget of {number_of(*search.task.config.budget)} is too "
            "little for measuring and fine-tuning. "
            f"Give {number_of(enough, 'minutes')} or more.",
        )
    elif search.encoders.of_queries and search.parts is not None:
        notes = (
            "Queries are mapped, and not fine-tuned, because a small folder is cross-validated.",
        )
    rule = search.task.training.select
    choice = Choice(0, rule, PAIRS, (), "nothing was fine-tuned")
    return FineTuned(facts_of(search, choice, 0), notes=notes)


def facts_of(search: Search, choice: Choice, steps: int) -> TrainingFacts:
    """Return the facts of a search whose training, if any, made no evaluations."""
    return TrainingFacts(
        choice,
        evaluations=(),
        steps=steps,
        longest=search.task.training.max_length,
        pooling=search.encoders.encoder.pooling,
        precision=search.encoders.shared.fit_precision,
        seconds=search.seconds,
        memory_mb=peak_memory_mb(),
    )


def fine_tune(search: Search, until: float | None) -> FineTuned:
    """Train as long as the budget allows.

    `until` is the time at which the search must end; `None` for a budget in tokens, and for a
    resumed training, which keeps its planned length.
    """
    plan: TimePlan | None = None
    training = search.task.training

    def due(updates: int, last: int) -> list[int]:
        if plan is not None:
            return plan.due(updates, last)
        return evaluation_steps(updates, training.evaluations, EARLIEST, last)

    # A checkpoint below the base model is kept too: merged half-way, it may be better.
    fit = Fit(
        training,
        search.progress,
        search.stop,
        search.task.data,
        search.run,
        base_competes=False,
        due=due,
        vectors=search.encoders.folder,
    )
    search.encoders.put_behind(fit.encoder)
    if until is not None:
        plan = _time_plan(search, fit, until)
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

    with fit.opened():
        updates, note = _updates(search, fit, plan)
        notes = [note] if note else []
        try:
            fit.train(updates, None if plan is None else planned)
        except Diverged as error:
            notes.append(
                f"The training diverged at update {error.step} ({error.term} "
                f"{error.value:g}), and stopped there."
            )
    if not updates:
        return FineTuned(fit.facts, notes=tuple(notes), plan=plan)
    choice, tried, weights = fit.choice, fit.evaluations.tried, None
    if choice.step:
        weights = search.encoders.read_trained(search.run.kept_weights)
    else:
        notes.append(f"The training gave no candidate: {choice.reason}.")
    if fit.loop.total_steps == most_updates(fit):
        notes.append(f"The training ended after {MOST_EPOCHS:g} passes over its examples.")
    return FineTuned(
        fit.facts,
        weights,
        tuple(notes),
        added_by_selecting(list(tried.values())) if tried and choice.step else 0.0,
        len(tried.keys() - {0, choice.step}) if tried else 0,
        plan,
    )


def most_updates(fit: Fit) -> int:
    """Return the largest number of updates of a training, whatever the budget."""
    return int(MOST_EPOCHS * fit.loop.updates_per_epoch)


def _seconds_per_token(search: Search) -> float:
    return seconds_per_token(search.encoders.encoder, search.task.validation.second, "float32")


def _time_plan(search: Search, fit: Fit, until: float) -> TimePlan:
    task, encoder, passes = search.task, search.encoders.encoder, search.passes
    token = evaluating = _seconds_per_token(search)
    if fit.accelerator.mixed_precision == "bf16":
        evaluating = seconds_per_token(encoder, task.validation.second, "bf16")
    # Maps are fitted in another precision. Count the float32 tokens that take the same time.
    fitting = evaluating if search.encoders.shared.fit_precision == "bf16" else token
    held_out = evaluation_tokens(encoder, task.data.held_out, task.training.max_length)
    return TimePlan(
        until=until,
        update=fit.loop.seconds_per_step(),
        evaluation=held_out * evaluating,
        validating=passes.validating - round(passes.mapped * (1 - fitting / token)),
        testing=passes.testing,
        token=token,
        trainings=1 if task.folds is None else 1 + FOLDS,  # each part has its own training
        evaluations=fit.training.config.evaluations,
        most=most_updates(fit),
    )


def _updates(search: Search, fit: Fit, plan: TimePlan | None) -> tuple[int, str]:
    """Return the planned number of updates, and a note if there are none."""
    loop, most = fit.loop, most_updates(fit)
    amount, unit = search.task.config.budget
    if most < FEWEST_UPDATES:
        return 0, (
            f"Nothing was trained: {len(fit.training.batches.examples):,} examples are too few for "
            f"{FEWEST_UPDATES} updates of {loop.sentences_per_step} in {MOST_EPOCHS:g} passes."
        )
    enough = 0
    if fit.begun is not None:
        updates = fit.begun
    elif plan is not None:
        now = time.monotonic()
        updates = plan.updates(now)
        late = now + SPARE * plan.takes(FEWEST_UPDATES) - plan.until
        enough = math.ceil(amount + late / 60)
        if late <= MOST_LATE * 60 * amount:
            updates = max(updates, FEWEST_UPDATES)
    else:
        updates = min(int(amount / loop.tokens_per_step), most)
        enough = math.ceil(FEWEST_UPDATES * loop.tokens_per_step)
    if updates >= FEWEST_UPDATES:
        return updates, ""
    return 0, (
        f"Nothing was trained: a budget of {number_of(amount, unit)} is too little for "
        f"{FEWEST_UPDATES} updates of {loop.tokens_per_step:,.0f} tokens"
        f"{' and the measuring' if unit == 'minutes' else ''}."
        f"{f' Give about {number_of(enough, unit)}.' if enough else ''}"
    )
