"""Fine-tune: do all updates, evaluate now and then, and keep the best checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from isospace.config import TrainConfig, objective_name
from isospace.encoders.loading import weights_hash
from isospace.encoders.settings import SIDES
from isospace.errors import Interrupted, Stopped, UserError, number_of
from isospace.evaluation.benchmark import HeldOutScores
from isospace.system.devices import any_process, arithmetic, broadcast, peak_memory_mb
from isospace.system.files import cache_folder
from isospace.system.lifecycle import random_state, set_random_state, working_in
from isospace.system.progress import Progress, Silent
from isospace.system.signals import StopRequest
from isospace.training import checkpoint
from isospace.training.build import Training
from isospace.training.evaluations import Evaluations, run_evaluation
from isospace.training.loop import Step, budgeted_updates, evaluation_steps
from isospace.training.prepare import Data, make_accelerator, prepare, require_settings
from isospace.training.results import Choice, TrainingFacts
from isospace.training.run import Run
from isospace.training.step import Diverged

CHECKPOINT_SECONDS = 120.0
"""Longest time between two checkpoints, and so the most that an interruption can cost."""
_TO_FALL = 0.1
"""Share of the updates done that always follows: the learning rate needs them to fall to 0."""
_SAME = 0.1
"""A new plan that differs by less than this share of the remaining updates is ignored."""


class Fit:
    """One process of a training: `train`, inside `with fit.opened()`.

    Args:
        data: the texts, if they are already loaded.
        run: the run to fill or to resume; default: a new one, made after the settings are checked.
        how_to_resume: advice for a stopped run; default: that of `run`.
        base_competes: keep the base model if no checkpoint beats it.
        due: (updates in all, last evaluated update) -> updates to evaluate after; default:
            `evaluation_steps` of the settings.
        vectors: folder for the vectors of all evaluations, for a caller that measures them again.

    Attributes:
        main: true in the first process.
        evaluated: the update of the last evaluation.
        evaluation_seconds: seconds of the last evaluation after the base model's, which are cached.
        begun: total updates of a stopped run, known inside `opened`; `None` for a new run.
    """

    def __init__(
        self,
        config: TrainConfig,
        progress: Progress,
        stop: StopRequest,
        data: Data | None = None,
        run: Run | None = None,
        how_to_resume: str = "",
        base_competes: bool = True,
        due: Callable[[int, int], Sequence[int]] | None = None,
        vectors: Path | None = None,
    ) -> None:
        self._started, self._earlier_memory_mb = time.monotonic(), 0.0
        self.config, self._stop, self._vectors = config, stop, vectors
        self._due = due or (
            lambda total, last: evaluation_steps(total, config.evaluations, last=last)
        )
        require_settings(config)
        self.accelerator = make_accelerator(config)
        self.main = self.accelerator.is_main_process
        self.progress = progress if self.main else Silent()
        self.data, self.loop = prepare(config, self.accelerator, self.progress, data)
        self.benchmark, self.training = self.data.benchmark, self.loop.training
        self.encoder = self.training.encoder
        self.evaluations = Evaluations(config, self.data.held_out, self.benchmark, base_competes)
        self.evaluated = 0
        self.evaluation_seconds: float | None = None
        self._saved_step, self._saved_at = 0, time.monotonic()
        self._stopped_state: dict[str, Any] | None = None  # until it is restored
        self.begun: int | None = None
        if run is None:  # the first process makes it for all
            folder = Run.create(config).folder if self.main else None
            run = Run(broadcast(self.accelerator, folder))
        self.run, self._how_to_resume = run, how_to_resume or run.how_to_resume
        self._digests = _digests(run, self.data, self.training)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the run's folder, and read the checkpoint of a stopped run.

        Raises:
            UserError: what the stopped run read has changed, or it had more or fewer processes.
            Stopped: the loss diverged, the disk is full, or a signal came (`Interrupted`).
        """
        run = self.run
        if self.config.trackers:
            self.accelerator.project_configuration.logging_dir = str(run.folder)
            self.accelerator.init_trackers("isospace")
        try:
            with working_in(run.folder, self._how_to_resume, "checkpoints/.lock"):
                if run.last_checkpoint.is_file():
                    self._read_checkpoint()
                yield
        except Diverged as error:
            raise Stopped(
                f"training diverged at step {error.step}: {error.term} is {error.value:g}. Set a "
                f"`learning_rate` below {self.config.learning_rate:g}. The last good checkpoint "
                f"is {run.last_checkpoint} (step {self._saved_step})"
            ) from error
        finally:
            for tracker in self.accelerator.trackers:
                tracker.finish()

    def _read_checkpoint(self) -> None:
        state = checkpoint.load(self.run.last_checkpoint)
        checkpoint.require_unchanged(self.run.folder, state["digests"], self._digests)
        if len(state["random"]) != self.accelerator.num_processes:
            began = len(state["random"])
            raise UserError(f"{self.run.folder}: resume it on {began} processes, as it began")
        self._stopped_state, self.begun = state, int(state["total_steps"])

    def train(self, updates: int | None = None, planned: Callable[[], int] | None = None) -> None:
        """Evaluate the base model, and do all updates, or those that a stopped run has left.

        Afterwards `choice` describes the weights in `run.kept_weights`. The number of updates is
        `updates`, or what the budget allows. `planned` is called after each update and returns the
        new number; by default it is what a budget in minutes allows.
        """
        if self._stopped_state is not None:
            self._evaluate()
            self._restore(self._stopped_state)
            self._stopped_state = None  # frees weights and moments
            planned = None  # a resumed run keeps its number of updates
        else:
            if updates is None:
                updates, shortfall = budgeted_updates(self.loop)
                if shortfall:
                    self.progress.line("budget", shortfall)
            self.loop.total_steps = broadcast(self.accelerator, updates)
            self._evaluate()
            if self.main:
                self.run.rewind(-1)
            self._record_evaluation()
            self._save()
            if self.config.budget[1] == "minutes":
                planned = planned or self._planned
        if self.loop.total_steps:
            self.progress.line("train", self._described)
        with self._stop.delayed():
            while self.loop.step < self.loop.total_steps:
                self._train(planned)

    @property
    def _described(self) -> str:
        """The length of the training and its place, as text."""
        loop, config = self.loop, self.config
        unit = "sentences" if config.views == "dropout" else "pairs"
        return (
            f"{objective_name(config.objective)}: {number_of(loop.total_steps, 'updates')} of "
            f"{loop.sentences_per_step} {unit}, passes {len(self.training.plan.views)}, from step "
            f"{loop.step}, into {self.run.folder}"
        )

    def _train(self, planned: Callable[[], int] | None) -> None:
        """Do the remaining updates; return early if their number changes."""
        loop, total = self.loop, self.loop.total_steps
        due = self._due(total, self.evaluated)
        with self.progress.bar("train", total, loop.step) as advance:
            for step in loop:
                speed = loop.sentences_per_step / loop.pace
                advance(1, _progress_note(step, speed))
                values = {**asdict(step), "loss": step.loss, "sentences_per_second": speed}
                if self.main:
                    self.run.log("step", values)
                    self.accelerator.log({**step.terms, "loss": step.loss}, step.step)
                evaluated = loop.step in due
                if evaluated:
                    advance(0, "evaluating ...")
                    self._evaluate()
                    self._record_evaluation()
                if planned is not None:
                    self._plan_anew(planned)
                late = time.monotonic() - self._saved_at > CHECKPOINT_SECONDS
                stopping, late = any_process(self.accelerator, self._stop.received, late)
                if evaluated or stopping or late:
                    self._save()
                if stopping:
                    where = f"step {loop.step} of {loop.total_steps}"
                    raise Interrupted(f"interrupted after {where}; {self._how_to_resume}")
                if loop.total_steps != total:
                    return

    def _planned(self) -> int:
        """Return the total number of updates that a budget in minutes allows at this pace."""
        left = 60 * self.config.budget[0] - self.loop.updating
        return self.loop.step + int(left / self.loop.pace)

    def _plan_anew(self, planned: Callable[[], int]) -> None:
        """Move the end of the training to the planned number of updates, if it differs enough."""
        loop = self.loop
        step, total = loop.step, loop.total_steps
        if 1 < step < total:
            now = max(planned(), min(total, step + math.ceil(_TO_FALL * step)))
            now = broadcast(self.accelerator, now)
            if abs(now - total) > max(1, _SAME * (total - step)):
                loop.end_at(now)

    def _evaluate(self) -> None:
        started, step = time.monotonic(), self.loop.step
        found: HeldOutScores | None = None
        if self.main:
            # The base model has its own pooling. A template takes nothing of a sentence's length.
            encoder = self.training.shipped if step else self.encoder
            room = encoder.tokens.around - self.encoder.tokens.around
            settings = self.training.config
            assert settings.max_length is not None
            found = run_evaluation(
                replace(settings, max_length=settings.max_length + room),
                encoder,
                self.data.held_out,
                self.benchmark,
                self.accelerator.mixed_precision,
                self.evaluations.base,
                self._vectors if step else cache_folder(),
                Silent() if step else self.progress,  # the bar of training is shown
            )
        values = broadcast(self.accelerator, None if found is None else found.values)
        for name, value in values.items():
            if not math.isfinite(value):
                if not step:
                    raise UserError(
                        f"`model` {self.config.model}: {name} of the base model is {value:g}. Set "
                        "`precision` float32, or give another model"
                    )
                raise Diverged(step, name, value)
        self.evaluated = step
        if step:
            self.evaluation_seconds = time.monotonic() - started
        if found is not None:
            self.evaluations.add(step, found)

    @property
    def choice(self) -> Choice:
        """The checkpoint to keep so far; known in the first process only."""
        return self.evaluations.choice

    def _record_evaluation(self) -> None:
        if self.main:
            step, newest = self.loop.step, self.evaluations.measured[-1]
            self.run.log("evaluation", newest)
            self.accelerator.log({f"evaluation/{k}": v for k, v in newest.items()}, step)
            if step:
                of = f"step {step} of {self.loop.total_steps}"
                self.progress.line("evaluation", f"{of}: {self.evaluations.newest}")

    @property
    def _cost(self) -> tuple[float, float]:
        """Seconds and peak memory in MB, earlier sessions included."""
        return time.monotonic() - self._started, max(self._earlier_memory_mb, peak_memory_mb())

    @property
    def facts(self) -> TrainingFacts:
        """The facts of the training so far; known in the first process only."""
        return TrainingFacts(
            self.choice,
            tuple(self.evaluations.measured),
            self.loop.total_steps,
            self.training.config.max_length,
            self.encoder.pooling,
            arithmetic(self.accelerator),
            *self._cost,
        )

    def _save(self) -> None:
        """Write the checkpoint from which a resumed run goes on bit for bit, and what is kept."""
        states = gather_object([random_state()])
        if self.main:
            seconds, memory_mb = self._cost
            state = {
                **self.loop.state(),
                "digests": self._digests,
                "random": states,
                "evaluations": self.evaluations.measured,
                "ranks": self.evaluations.ranks,
                "seconds": seconds,
                "memory_mb": memory_mb,
            }
            checkpoint.save(self.run.last_checkpoint, state)
        # Last, so that kept weights are never of an evaluation that the checkpoint does not know.
        self._keep_if_best()
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _restore(self, state: dict[str, Any]) -> None:
        self.loop.load_state(state)
        self.evaluated = int(state["evaluations"][-1]["step"])
        self._started -= state["seconds"]
        self._earlier_memory_mb = state["memory_mb"]
        if self.main:
            self.evaluations.measured = list(state["evaluations"])
            self.evaluations.ranks = list(state["ranks"])
            self.run.rewind(self.loop.step)
        self._keep_if_best()  # a kill may have come between the two
        set_random_state(state["random"][self.accelerator.process_index])
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _keep_if_best(self) -> None:
        """Write the weights if the newest evaluation is the one to keep."""
        if self.main and self.choice.step == self.loop.step:
            checkpoint.save_weights(self.run.kept_weights, self.training.shipped.model)


def _digests(run: Run, data: Data, training: Training) -> dict[str, str]:
    """Return the digest of everything that a run reads, which must not change until it ends."""
    files = {
        "queries": training.batches.examples.texts.digest,
        "labels": data.benchmark.labels_digest(),
        "pairs": data.benchmark.pairs_digest(),
    }
    given = {name: own for name, own in files.items() if getattr(training.config, name) is not None}
    return {
        "config.json": run.settings_digest,
        "corpus": data.corpus.digest,
        **given,
        "model": weights_hash(training.encoder, *SIDES),
        **training.digests,
    }


def _progress_note(step: Step, speed: float) -> str:
    terms = "  ".join(f"{name} {value:.4g}" for name, value in step.terms.items())
    return f"{terms}  {speed:.0f} sentences/s  {peak_memory_mb() / 1000:.1f} GB"
