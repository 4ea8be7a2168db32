"""Training itself: an encoder goes through its updates, and the best of its states is kept.

`train` judges what comes out and ships it; `adapt` makes candidates of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from isospace.config import TrainConfig, objective_name
from isospace.encoders.loading import weights_hash
from isospace.encoders.prompts import SIDES
from isospace.errors import Interrupted, Stopped, UserError
from isospace.statistics.counts import number_of
from isospace.statistics.influence import Scores, mean_scores
from isospace.system.cache import cache_folder
from isospace.system.devices import memory_gb, peak_memory_mb
from isospace.system.processes import any_process, broadcast
from isospace.system.progress import Progress, Silent
from isospace.system.signals import StopRequest
from isospace.training import checkpoint
from isospace.training.evaluations import run_evaluation
from isospace.training.lifecycle import working_in
from isospace.training.loop import Diverged, Step
from isospace.training.paces import Paces
from isospace.training.prepare import Data, make_accelerator, prepare
from isospace.training.run import Run
from isospace.training.selection import Choice, choose


def evaluation_steps(
    total: int, evaluations: int, earliest: int | None = None, last: int = 0
) -> list[int]:
    """The updates after which a training is evaluated: so many, evenly, the last one in the end.

    Args:
        total: updates.
        evaluations: how many.
        earliest: where it is given, there are further ones at half of the first, half of that and
            so on, but none before this update.
        last: the update that was evaluated last, maybe when the training had another length. What
            would follow it in less than half of the usual distance is left out.

    >>> evaluation_steps(300, 2), evaluation_steps(300, 2, earliest=24)
    ([150, 300], [38, 75, 150, 300])
    >>> evaluation_steps(300, 2, earliest=24, last=30)
    [75, 150, 300]
    """
    steps = {round(total * i / evaluations) for i in range(1, evaluations + 1)}
    halves = min(steps) / 2
    while earliest is not None and halves >= earliest:
        steps.add(round(halves))
        halves /= 2
    return [
        step
        for before, step in pairwise([0, *sorted(steps)])
        if step > last and (step == total or step - last >= (step - before) / 2)
    ]


FEWEST_UPDATES = 10
"""What does not allow for so many is no time to fine-tune."""
_TO_FALL = 0.1
"""So many updates follow, as a share of those that are done, however late it is: the learning rate
falls in them."""
_SAME = 0.1
"""By less than this share of the updates that remain a plan is no other."""


class Fit:
    """One process's part in a training: everything loaded, then `begin` and `go`.

    Args:
        config: the settings.
        progress: where it is shown.
        stop: what a signal asks for.
        data: the texts, where they are loaded already.
        start_competes: whether the base model is kept where no evaluation beats it, as where
            nothing more is done with what was trained.
        due: gives the updates after which there is an evaluation, of the number that there are in
            all and the last one that was evaluated; default: `evaluation_steps` of the settings.
        vectors: a folder in which the vectors of evaluations are kept, for who measures the same
            weights on the same texts again; default: those of the base model alone are, in the
            cache.

    Attributes:
        main: whether this process is the first.
        evaluations: what has been measured, the base model first.
        paces: how long updates and evaluations take in this session.
        evaluated: the last update after which there was an evaluation.
        ranks: where the validation pairs are the test pairs: what they came to, (1 + halves, pair),
            at each evaluation.
    """

    def __init__(
        self,
        config: TrainConfig,
        progress: Progress,
        stop: StopRequest,
        data: Data | None = None,
        start_competes: bool = True,
        due: Callable[[int, int], Sequence[int]] | None = None,
        vectors: Path | None = None,
    ) -> None:
        self._started, self._earlier_seconds = time.monotonic(), 0.0
        self._earlier_memory_mb = 0.0
        self.config, self._stop, self._start_competes = config, stop, start_competes
        self._due = due or (
            lambda total, last: evaluation_steps(total, config.evaluations, last=last)
        )
        self._vectors = vectors
        self.accelerator = make_accelerator(config)
        self.main = self.accelerator.is_main_process
        self.progress = progress if self.main else Silent()
        data, self.loop = prepare(config, self.accelerator, self.progress, data)
        self.data, self.benchmark = data, data.benchmark
        self.held_out, self.corpus = data.held_out, data.corpus
        self.encoder = self.loop.encoder
        self._start_hash = weights_hash(self.encoder, *SIDES)
        self.evaluations: list[dict[str, float]] = []
        self.paces = Paces()
        self.evaluated = 0
        self.ranks: list[torch.Tensor] = []
        self._saved_step, self._saved_at = 0, time.monotonic()
        self.begun: int | None = None
        """Updates of the whole of a run that `begin` found, `None` where it is new."""
        self._how_to_resume = ""
        self._state: dict[str, Any] | None = None
        """Of the checkpoint, until the run has gone back to it."""

    @contextmanager
    def holding(self, run: Run, how_to_resume: str) -> Iterator[None]:
        """Keep other processes off a run, in which the other methods write, meanwhile.

        Whatever stops it says how it goes on.

        Raises:
            Stopped: a loss that diverged, a full disk, or a signal (`Interrupted`).
        """
        self.run, self._how_to_resume = run, how_to_resume
        if self.config.trackers:
            self.accelerator.project_configuration.logging_dir = str(run.folder)
            self.accelerator.init_trackers("isospace")
        try:
            with working_in(run.folder, how_to_resume, "checkpoints/.lock"):
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

    def begin(self) -> None:
        """Read the checkpoint of a run that was stopped.

        Raises:
            UserError: it is of another text, start or number of processes.
        """
        if self.run.last_checkpoint.is_file():
            self._state = self._load_checkpoint()
            self.begun = int(self._state["total_steps"])

    def measure_start(self, updates: int | None = None) -> None:
        """Evaluate the base model and write the first checkpoint, or go back to the last one.

        Args:
            updates: how many a new run has; default: what the settings' budget allows.
        """
        if self._state is None:
            updates = self.updates if updates is None else updates
            self.loop.total_steps = broadcast(self.accelerator, updates)
        self._evaluate()
        if self._state is not None:
            self._restore(self._state)
            self._state = None  # weights and moments once more
        else:
            if self.main:
                self.run.rewind(-1)
            self._record_evaluation()
            self._save()

    def go(self, planned: Callable[[], int] | None = None) -> None:
        """Train; `choice` is then about the weights in `run.kept_weights`.

        Args:
            planned: asked after each update how many the whole has by then; default: what the
                settings' budget allows, where that is minutes. A run that was stopped keeps the
                number it had, whatever the clock says.
        """
        self._show_plan()
        if self.config.budget[1] == "minutes":
            planned = planned or self._total_by_now
        if self.begun is not None:
            planned = None
        with self._stop.delayed():
            while self.loop.step < self.loop.total_steps:
                self._train(planned)

    @cached_property
    def _an_update(self) -> float:
        """What an update takes of the budget, in its unit."""
        unit, loop = self.config.budget[1], self.loop
        if unit == "minutes":
            return loop.seconds_per_step() / 60
        if unit == "epochs":
            return 1 / loop.updates_per_epoch
        return loop.tokens_per_step if unit == "tokens" else loop.sentences_per_step

    @property
    def updates(self) -> int:
        """The budget in updates, one or more."""
        return max(1, int(self.config.budget[0] / self._an_update))

    def show_too_little(self) -> None:
        """Say before anything is measured that the budget allows hardly any training."""
        if self.begun is not None or self.updates >= FEWEST_UPDATES:
            return
        amount, unit = self.config.budget
        enough = math.ceil(FEWEST_UPDATES * self._an_update)
        self.progress.line(
            "budget",
            f"{number_of(amount, unit)} {'is' if amount == 1 else 'are'} too few to fine-tune: "
            f"{number_of(self.updates, 'updates')}; {FEWEST_UPDATES} updates take about "
            f"{number_of(enough, unit)}",
        )

    def _total_by_now(self) -> int:
        """The budget in updates, by how long they take."""
        left = 60 * self.config.budget[0] - self.paces.updating
        return self.loop.step + int(left / self.paces.update)

    def _evaluate(self) -> None:
        """Measure the encoder by what selection may see; NaN in its vectors is a divergence."""
        started, evaluation = time.monotonic(), None
        if self.main:
            mixed = self.accelerator.mixed_precision
            # The base model has its own pooling. A template takes nothing of a sentence's length.
            encoder = self.loop.shipped if self.loop.step else self.encoder
            room = encoder.tokens.around - self.encoder.tokens.around
            settings = self.loop.config
            assert settings.max_length is not None
            measurements = run_evaluation(
                replace(settings, max_length=settings.max_length + room),
                encoder,
                self.held_out,
                self.benchmark,
                mixed,
                self._vectors if self.loop.step else cache_folder(),
                Silent() if self.loop.step else self.progress,  # beside the bar of training
            )
            evaluation = {"step": float(self.loop.step), **measurements}
        evaluation = broadcast(self.accelerator, evaluation)
        for name, value in evaluation.items():
            if not math.isfinite(value):
                raise Diverged(self.loop.step, name, value)
        self.evaluated = self.loop.step
        if self.evaluated:
            self.paces.evaluation = time.monotonic() - started
        if self.main:
            self.evaluations.append(evaluation)
            if self.pairs_judge_too and (ranks := self.held_out.ranks) is not None:
                items = np.stack([ranks.reciprocal_ranks, *ranks.displacement])
                self.ranks.append(torch.from_numpy(items))

    @property
    def pairs_judge_too(self) -> bool:
        """Whether the verdict's own pairs choose the checkpoint: there are too few to split."""
        return (
            not self.benchmark.split
            and self.held_out.natural
            and self.config.select == "label-free"
        )

    @property
    def tried(self) -> dict[int, Scores]:
        """Step -> MRR of the test pairs too, of the evaluations among which one was chosen.

        Empty where other pairs chose.
        """
        if not self.pairs_judge_too:
            return {}
        groups, collapsed = self.held_out.pairs.group_numbers(), self.choice.collapsed
        return {
            int(evaluation["step"]): mean_scores(items[:1].numpy(), groups, items[1:, None].numpy())
            for evaluation, items in zip(self.evaluations, self.ranks, strict=True)
            if evaluation["step"] not in collapsed
        }

    @property
    def choice(self) -> Choice:
        """Which of the evaluations so far to keep; the first process knows."""
        natural = self.held_out.natural
        return choose(self.evaluations, self.config.select, natural, self._start_competes)

    def _keep_if_best(self) -> None:
        """Write the weights if they are of the evaluation to keep so far."""
        if self.main and self.choice.step == self.loop.step:
            checkpoint.save_weights(self.run.kept_weights, self.loop.shipped.model)

    def _record_evaluation(self) -> None:
        if self.main:
            self.run.log("evaluation", self.evaluations[-1])
            self.accelerator.log(
                {f"evaluation/{k}": v for k, v in self.evaluations[-1].items()}, self.loop.step
            )

    @property
    def seconds(self) -> float:
        """Wall clock of the run, the sessions before a resumption included."""
        return self._earlier_seconds + time.monotonic() - self._started

    @property
    def memory_mb(self) -> float:
        """The run's most memory, the sessions before a resumption included."""
        return max(self._earlier_memory_mb, peak_memory_mb())

    def _save(self) -> None:
        """Write the checkpoint from which a resumed run goes on bit for bit, and what is kept."""
        states = gather_object([checkpoint.random_state()])
        if self.main:
            state = {
                **self.loop.state(),
                "settings": self.run.settings_digest,
                "corpus": self.corpus.digest,
                **self._read_beside,
                "start": self._start_hash,
                "random": states,
                "evaluations": self.evaluations,
                "ranks": self.ranks,
                "seconds": self.seconds,
                "memory_mb": self.memory_mb,
            }
            checkpoint.save(self.run.last_checkpoint, state)
        # Last, so that kept weights are never of an evaluation that the checkpoint does not know.
        self._keep_if_best()
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _load_checkpoint(self) -> dict[str, Any]:
        """What a checkpoint of this text, this base model and as many processes holds."""
        run = self.run
        state = checkpoint.load(run.last_checkpoint)
        if state.get("settings", run.settings_digest) != run.settings_digest:
            raise UserError(
                f"{run.folder}/config.json: the settings changed after this run's last "
                "checkpoint. Restore the file, or start a new run"
            )
        if state["corpus"] != self.corpus.digest:
            raise UserError(
                f"{run.folder}: the corpus has changed since this run began (digest "
                f"{state['corpus'][:12]}, now {self.corpus.digest[:12]}). Restore the old text, "
                "or start a new run"
            )
        for setting, digest in self._read_beside.items():
            if state.get(setting, digest) != digest:
                raise UserError(
                    f"{run.folder}: the file of `{setting}` has changed since this run began. "
                    "Restore the old file, or start a new run"
                )
        if state["start"] != self._start_hash:
            raise UserError(
                f"{run.folder}: this run began with another encoder than the present "
                f"{self.config.model}. Restore the old encoder, or start a new run"
            )
        frozen = self.loop.frozen
        for setting, digest in state.get("frozen", frozen).items():
            if digest != frozen[setting]:
                raise UserError(
                    f"{run.folder}: this run began with another model for `{setting}`. Restore "
                    "the old one, or start a new run"
                )
        if len(state["random"]) != self.accelerator.num_processes:
            raise UserError(
                f"{run.folder}: this run began on {len(state['random'])} processes. Resume it on "
                "as many"
            )
        return state

    @property
    def _read_beside(self) -> dict[str, str]:
        """Setting -> what identifies its file, of those that train or choose beside the corpus."""
        found = {
            "queries": self.loop.examples.digest(self.corpus),
            "labels": self.benchmark.labels_digest(),
            "pairs": self.benchmark.pairs_digest(),
        }
        return {name: one for name, one in found.items() if getattr(self.config, name) is not None}

    def _restore(self, state: dict[str, Any]) -> None:
        self.loop.load_state(state)
        self.evaluated = int(state["evaluations"][-1]["step"])
        self._earlier_seconds = state["seconds"]
        self._earlier_memory_mb = state.get("memory_mb", 0.0)
        if self.main:
            self.evaluations, self.ranks = list(state["evaluations"]), list(state["ranks"])
            self.run.rewind(self.loop.step)
        self._keep_if_best()  # a kill may have come between the two
        checkpoint.set_random_state(state["random"][self.accelerator.process_index])
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _train(self, planned: Callable[[], int] | None) -> None:
        """Do the updates that remain, or those until their number is planned anew."""
        loop, total = self.loop, self.loop.total_steps
        due = self._due(total, self.evaluated)
        with self.progress.bar("train", total, loop.step) as advance:
            for step in loop:
                self.paces.note_update(step.seconds)
                speed = loop.sentences_per_step / self.paces.update
                advance(1, _progress_note(step, speed))
                if step.step == 1 and step.gradient_norm == 0:
                    self.progress.line("note", NOTHING_TO_LEARN)
                values = {**asdict(step), "loss": step.loss, "sentences_per_second": speed}
                if self.main:
                    self.run.log("step", values)
                    self.accelerator.log({**step.terms, "loss": step.loss}, step.step)
                evaluated = loop.step in due
                if evaluated:
                    advance(0, "evaluating ...")
                    self._evaluate()
                    self._record_evaluation()
                    self._show_evaluation()
                if planned is not None:
                    self._plan_anew(planned)
                late = time.monotonic() - self._saved_at > 60 * self.config.checkpoint_minutes
                stopping, late = any_process(self.accelerator, self._stop.received, late)
                if evaluated or stopping or late:
                    self._save()
                if stopping:
                    raise Interrupted(
                        f"interrupted after step {loop.step} of {loop.total_steps}; "
                        f"{self._how_to_resume}"
                    )
                if loop.total_steps != total:
                    return

    def _plan_anew(self, planned: Callable[[], int]) -> None:
        """End the training where that is planned by now, if that is another end."""
        loop = self.loop
        step, total = loop.step, loop.total_steps
        if 1 < step < total:
            now = max(planned(), min(total, step + math.ceil(_TO_FALL * step)))
            now = broadcast(self.accelerator, now)
            if abs(now - total) > max(1, _SAME * (total - step)):
                loop.end_at(now)

    def _show_plan(self) -> None:
        """What the training is going to do."""
        size, loop = self.config.batch_size, self.loop
        if self.config.accumulate > 1:
            self.progress.line(
                "note",
                f"an update accumulates {self.config.accumulate} batches of {size}: each anchor "
                f"meets the {size - 1} other sentences of its own batch only, and batch statistics "
                f"(whitening, decorrelation) are over {size} sentences",
            )
        name, rate = objective_name(self.config.objective), self.config.dropout
        if rate is not None and all(view.dropout is not None for view in loop.plan.views):
            self.progress.line(
                "note", f"`dropout` {rate:g} does nothing here: the views of {name} have their own"
            )
        beside = self.config.objective.auxiliary_passes
        if len(loop.plan.ways) > 1:  # once for each direction of a pair
            beside = tuple(f"{len(loop.plan.ways)} x {passes}" for passes in beside)
        passes = " + ".join([str(len(loop.plan.views)), *beside])
        unit = "sentences" if self.config.views == "dropout" else "pairs"
        self.progress.line(
            "train",
            f"{name}: {number_of(loop.total_steps, 'updates')} of "
            f"{loop.sentences_per_step} {unit}, passes {passes}, from step {loop.step}, into "
            f"{self.run.folder}",
        )

    def _show_evaluation(self) -> None:
        """The newest evaluation, beside the base model."""
        if not self.evaluations:
            return
        shown = ("pairs_loss", "pairs_mrr", "uniformity", "effective_rank", "labels_spearman")
        now, start = self.evaluations[-1], self.evaluations[0]
        cells = [f"{name} {now[name]:.4g} (was {start[name]:.4g})" for name in shown if name in now]
        step = f"step {now['step']:.0f} of {self.loop.total_steps}"
        self.progress.line("evaluation", f"{step}: {', '.join(cells)}")


NOTHING_TO_LEARN = (
    "the first update has no gradient, so nothing is learnt: its texts may all be equal, or its "
    "loss may be 0 already; look at the texts with `isospace corpus`"
)


def _progress_note(step: Step, speed: float) -> str:
    """How the training goes, beside its bar."""
    terms = "  ".join(f"{name} {value:.4g}" for name, value in step.terms.items())
    return f"{terms}  {speed:.0f} sentences/s  {memory_gb():.1f} GB"
