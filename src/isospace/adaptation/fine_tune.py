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
from isospace.statistics.counts import number_of
from isospace.statistics.selection import added_by_selecting
from isospace.system.devices import peak_memory_mb
from isospace.training.finish import TrainingFacts
from isospace.training.fit import Fit
from isospace.training.run import Run
from isospace.training.schedule import FEWEST_UPDATES, evaluation_steps
from isospace.training.selection import PAIRS, Choice
from isospace.training.step import Diverged


@dataclass(frozen=True)
class EndedTraining:
    """One training of a search, after its end.

    Attributes:
        weights: the weights that were kept; `None` if no checkpoint was.
        selection_bias: gain that comes only from selecting the checkpoint by the test pairs.
        unseen: number of checkpoints that were not kept, if the test pairs select the checkpoint.
        exhausted: true if the training had the largest number of updates (`most_updates`).
        plan: the plan of the remaining minutes; `None` for a budget in tokens or a resumed run.
    """

    facts: TrainingFacts
    weights: Weights | None = None
    selection_bias: float = 0.0
    unseen: int = 0
    exhausted: bool = False
    plan: TimePlan | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FineTuned:
    """All trainings of a search, one or more."""

    trainings: tuple[EndedTraining, ...]

    @property
    def facts(self) -> TrainingFacts:
        """Facts about the first training that was kept, or about the first one if none was."""
        return (self._kept or self.trainings)[0].facts

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights of each kept training."""
        return tuple(one.weights for one in self.trainings if one.weights is not None)

    @property
    def selection_bias(self) -> float:
        """Average gain that comes only from selecting checkpoints by the test pairs."""
        return float(np.mean([one.selection_bias for one in self._kept])) if self._kept else 0.0

    @property
    def unseen(self) -> int:
        """Number of checkpoints that were not kept, if the test pairs select checkpoints."""
        return sum(one.unseen for one in self.trainings)

    @property
    def plan(self) -> TimePlan | None:
        """The plan of the remaining minutes; `None` for a budget in tokens or a resumed run."""
        return self.trainings[-1].plan

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user."""
        notes = tuple(note for one in self.trainings for note in one.notes)
        trained = [one for one in self.trainings if one.facts.steps]
        if trained and all(one.exhausted for one in trained):
            notes += (f"Each training ends after {MOST_EPOCHS:g} passes over its examples.",)
        return notes

    @property
    def _kept(self) -> tuple[EndedTraining, ...]:
        return tuple(one for one in self.trainings if one.weights is not None)


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
    return FineTuned((EndedTraining(facts, notes=notes),))


def fine_tune(search: Search, until: float | None) -> FineTuned:
    """Train once for each seed, as long as the budget allows.

    Args:
        search: the text, the base model, and the folder.
        until: the time at which the search must end. `None` for a budget in tokens, and for a
            resumed training, which keeps its planned length.
    """
    trainings: list[EndedTraining] = []
    for number in range(search.task.config.seeds):
        trainings.append(_train(search, number, until, trainings[-1] if trainings else None))
        if not trainings[-1].facts.steps:
            break
    return FineTuned(tuple(trainings))


def _train(
    search: Search, number: int, until: float | None, previous: EndedTraining | None
) -> EndedTraining:
    """Train once."""
    plan, before = (previous.plan, previous.facts.steps) if previous else (None, 0)
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
            run,
            search.run.how_to_resume,
            base_competes=False,
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

        with fit.holding():
            fit.begin()
            updates, note = _updates(search, fit, plan, before)
            notes += filter(None, [note])
            fit.measure_base(updates)
            if not updates:
                return EndedTraining(TrainingFacts.of(fit), plan=plan, notes=tuple(notes))
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
    return EndedTraining(
        TrainingFacts.of(fit),
        weights,
        added_by_selecting(list(tried.values())) if tried and choice.step else 0.0,
        len(tried.keys() - {0, choice.step}) if tried else 0,
        fit.loop.total_steps == most_updates(fit),
        plan,
        tuple(notes),
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
