"""The main job: text in, adapted encoder out, measured before and after.

Read from here: `train` prepares everything and draws updates from `loop.Loop`, which makes the views
(`encoder.Encoder`) and calls the objective (`objectives/`).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from safetensors.torch import load_file, save_file

import isospace
from isospace import checkpoint
from isospace.card import model_card
from isospace.config import TrainConfig, objective_name
from isospace.corpus import Corpus, load_corpus
from isospace.devices import environment, has_bf16
from isospace.display import Display, TrainingBar
from isospace.encoder import Encoder
from isospace.errors import UserError
from isospace.evaluation.held_out import HeldOut
from isospace.evaluation.statistics import Kind
from isospace.exam import Exam, Scores
from isospace.export import save_model
from isospace.files import atomic_path, cache_folder
from isospace.loading import load_encoder
from isospace.loop import Diverged, Loop
from isospace.objectives.base import View
from isospace.report import write_report
from isospace.run import Run
from isospace.selection import Choice, choose
from isospace.tokens import Tokens, tokenise


class Stopped(Exception):
    """The run ended early; what is left of it can be resumed or used, and the message says how."""


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        run: the run's folder.
        results: what results.json holds.
    """

    run: Run
    results: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return str(self.results["verdict"]["text"])

    @property
    def model_folder(self) -> Path:
        """Loads with `SentenceTransformer(str(model_folder))`."""
        return self.run.model_folder


def train(
    config: TrainConfig | None = None, resume: Path | None = None, quiet: bool = False
) -> Outcome:
    """Adapt an encoder to a corpus and say whether that helped.

    Args:
        config: the settings of a new run.
        resume: the folder of a run to go on with, instead of `config`.
        quiet: show no progress.

    Raises:
        UserError: bad input; refused before the work starts.
        Stopped: Ctrl-C, SIGTERM, or a loss that diverged.
    """
    if (config is None) == (resume is None):
        raise UserError("give either the settings of a new run or the folder of a run to resume")
    run = None if resume is None else Run(resume)
    if run is not None and run.results is not None:
        return Outcome(run, run.results)
    config = run.config if run is not None else config
    session = _Session(config, quiet)  # type: ignore[arg-type]
    return session.go(run)


@contextmanager
def _polite_stop() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying in the middle of a step; a second one insists."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    try:
        old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us handles signals
        old = {}
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


class _Session:
    """One process's part in a run: everything loaded, then `go`."""

    def __init__(self, config: TrainConfig, quiet: bool) -> None:
        self.config = config
        bf16 = config.precision == "bf16" or (config.precision == "auto" and has_bf16())
        self.accelerator = Accelerator(
            mixed_precision="bf16" if bf16 else "no", log_with=list(config.trackers) or None
        )
        self.main = self.accelerator.is_main_process
        self.display = Display(quiet or not self.main)
        self.started = time.monotonic()
        if config.batch_size % self.accelerator.num_processes:
            raise UserError(
                f"--batch-size {config.batch_size} cannot be shared by "
                f"{self.accelerator.num_processes} processes; give a multiple"
            )
        self.exam = Exam(config)
        self.corpus = self._load_corpus()
        held_out = self.corpus.held_out()
        # Two disjoint sets: a score on the sentences that chose the checkpoint would flatter it.
        self.held_out = HeldOut(held_out[::2])
        self.exam.use_corpus(self.corpus, held_out[1::2])
        self.encoder = self._load_encoder()
        tokens = self._tokenise()
        self.loop = Loop(config, self.encoder, tokens, self.corpus.train_rows, self.accelerator)
        self.looks: list[dict[str, float]] = []

    def _load_corpus(self) -> Corpus:
        with self.accelerator.main_process_first():
            corpus = load_corpus(self.config.text, cache_folder(), exclude=self.exam.texts())
        removed = [f"{n:,} {what}" for what, n in corpus.counts.items() if n]
        self.display.line("corpus", ", ".join(removed))
        if len(corpus.train_rows) < self.config.batch_size:
            raise UserError(
                f"--corpus {' '.join(self.config.text.corpus)}: {len(corpus.train_rows)} usable sentences "
                f"for training ({', '.join(removed)}), fewer than a batch of {self.config.batch_size}. "
                "Give more text or a smaller --batch-size"
            )
        return corpus

    def _load_encoder(self) -> Encoder:
        config = self.config
        with self.accelerator.main_process_first():
            encoder = load_encoder(config.model, config.pooling, str(self.accelerator.device))
        if config.dropout is not None:
            encoder.noise.set(config.dropout)
        rates = ", ".join(f"{rate:g}" for rate in encoder.noise.rates)
        size = sum(p.numel() for p in encoder.parameters()) / 1e6
        self.display.line(
            "encoder",
            f"{config.model}: {size:.1f} M parameters, pooling {encoder.pooling}, dropout {rates}, "
            f"{self.accelerator.device.type}, {'bf16' if self.accelerator.mixed_precision == 'bf16' else 'float32'}",
        )
        return encoder

    def _tokenise(self) -> Tokens:
        config, encoder = self.config, self.encoder
        with (
            self.accelerator.main_process_first(),
            self.display.counting("tokenise", len(self.corpus)) as advance,
        ):
            return tokenise(
                self.corpus,
                self.corpus.digest,
                lambda texts: encoder.token_ids(texts, config.max_length),
                encoder.fingerprint(config.max_length),
                cache_folder(),
                progress=advance,
            )

    def _total_steps(self) -> int:
        """The budget in updates."""
        amount, unit = self.config.budget
        per_step = self.loop.sentences_per_step
        if unit == "minutes":
            steps = amount * 60 / self.loop.seconds_per_step()
        else:
            sentences = amount * len(self.corpus.train_rows) if unit == "epochs" else amount
            steps = sentences / per_step
        return max(1, int(steps))

    def go(self, run: Run | None) -> Outcome:
        """Start or resume, train, choose, examine, write."""
        self.display.line("start", f"examining the encoder ({self.exam.protocol}) ...")
        before = self._examine()
        resumed = run is not None and run.last_checkpoint.is_file()
        if not resumed:
            self.loop.total_steps = self._total_steps()
        self._look()
        run = self._shared_run(run)
        if resumed:
            self._restore(run)
        else:
            run.rewind(-1)
            self._keep_if_best(run)
            self._record_look(run)
            self._save(run)
        self._announce(run, before)
        self._track_start(run)
        try:
            self._train(run)
        except Diverged as error:
            raise Stopped(
                f"training diverged at step {error.step}: {error.term} is {error.value:g}. "
                f"The last good checkpoint is {run.last_checkpoint} (step {self._saved_step}); try a lower "
                f"--learning-rate than {self.config.learning_rate:g}"
            ) from error
        outcome = self._finish(run, before)
        self.accelerator.end_training()
        return outcome

    def _shared_run(self, run: Run | None) -> Run:
        """The same folder for every process; made by the first."""
        folder = [run.folder if run is not None else None]
        if run is None and self.main:
            folder = [Run.create(self.config).folder]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(folder)
        return Run(folder[0])  # type: ignore[arg-type]

    def _encode(self, texts: Any) -> np.ndarray:
        return self.encoder.embed(texts)

    def _encode_noisy(self, texts: Any) -> np.ndarray:
        rate = next((v.dropout for v in self.loop.objective.views if v.dropout != 0.0), None)
        return self.encoder.embed(texts, View(dropout=rate), max_length=self.config.max_length)

    def _examine(self) -> Scores | None:
        """Scores of the encoder as it is; the first process examines, the others wait."""
        scores = self.exam.sit(self._encode) if self.main else None
        self.accelerator.wait_for_everyone()
        return scores

    def _look(self) -> None:
        """Measure the encoder by what selection may see, without touching a random state."""
        if self.main:
            with torch.random.fork_rng():
                torch.manual_seed(self.config.seed)
                look = {"step": float(self.loop.step)}
                look |= self.held_out.measure(self._encode, self._encode_noisy)
                if self.exam.labels is not None:
                    look["labels_spearman"] = self.exam.label_score(self._encode)
            self.looks.append(look)
        self.accelerator.wait_for_everyone()

    def _keep_if_best(self, run: Run) -> None:
        """Write the weights if the newest look is the one to keep so far."""
        if self.main and choose(self.looks, self.config.select).step == self.loop.step:
            weights = {k: v.contiguous().cpu() for k, v in self.encoder.model.state_dict().items()}
            with atomic_path(run.kept_weights) as temporary:
                save_file(weights, temporary)

    def _record_look(self, run: Run) -> None:
        if self.main:
            run.log("look", self.looks[-1])
            self.accelerator.log(
                {f"look/{k}": v for k, v in self.looks[-1].items()}, self.loop.step
            )

    def _save(self, run: Run) -> None:
        """Write the checkpoint from which a resumed run goes on bit for bit."""
        states = gather_object([checkpoint.random_state()])
        if self.main:
            state = {**self.loop.state(), "random": states, "looks": self.looks}
            checkpoint.save(run.last_checkpoint, state)
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _restore(self, run: Run) -> None:
        state = checkpoint.load(run.last_checkpoint)
        if len(state["random"]) != self.accelerator.num_processes:
            raise UserError(
                f"{run.folder}: was started on {len(state['random'])} processes; resume it on as many"
            )
        self.loop.load_state(state)
        if self.main:
            self.looks = [*self.looks[:1], *state["looks"][1:]]
            run.rewind(self.loop.step)
        checkpoint.set_random_state(state["random"][self.accelerator.process_index])
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _announce(self, run: Run, before: Scores | None) -> None:
        config, loop = self.config, self.loop
        if before is not None:
            self.display.table("before training, x 100", {"start": before.cells()})
        if config.accumulate > 1:
            self.display.line(
                "note",
                f"an update accumulates {config.accumulate} batches of {config.batch_size}: each anchor meets "
                f"the negatives of its own batch only ({config.batch_size - 1} sentences), and batch "
                f"statistics (whitening, decorrelation) are over {config.batch_size} sentences",
            )
        self.display.line(
            "train",
            f"{objective_name(config.objective)}: {loop.total_steps:,} updates of {loop.sentences_per_step} "
            f"sentences, from step {loop.step}, into {run.folder}",
        )

    def _track_start(self, run: Run) -> None:
        if self.config.trackers:
            self.accelerator.project_configuration.set_directories(str(run.folder))
            self.accelerator.init_trackers("isospace")

    def _train(self, run: Run) -> None:
        loop, total = self.loop, self.loop.total_steps
        look_steps = {round(total * i / self.config.looks) for i in range(1, self.config.looks + 1)}
        with _polite_stop() as stop, TrainingBar(self.display, loop.step, total) as bar:
            for step in loop:
                speed = bar.update(step, loop.sentences_per_step)
                values = {**asdict(step), "loss": step.loss, "sentences_per_second": speed}
                if self.main:
                    run.log("step", values)
                    self.accelerator.log({**step.terms, "loss": step.loss}, step.step)
                looked = step.step in look_steps
                if looked:
                    self._look()
                    self._keep_if_best(run)
                    self._record_look(run)
                    self._show_look()
                stopping = self._anyone(bool(stop))
                late = time.monotonic() - self._saved_at > 60 * self.config.checkpoint_minutes
                if looked or stopping or self._anyone(late):
                    self._save(run)
                if stopping and loop.step < total:
                    raise Stopped(
                        f"interrupted after step {loop.step} of {total}; nothing is lost. Continue with: "
                        f"isospace train --resume {run.folder}"
                    )

    def _anyone(self, flag: bool) -> bool:
        """Whether the flag is set in any process, so that all do the same."""
        if self.accelerator.num_processes == 1:
            return flag
        flags = torch.tensor([float(flag)], device=self.accelerator.device)
        return bool(self.accelerator.reduce(flags, "sum").item() > 0)

    def _show_look(self) -> None:
        if self.main:
            look = self.looks[-1]
            shown = ("halves_loss", "halves_mrr", "alignment", "uniformity", "effective_rank")
            text = "  ".join(f"{name} {look[name]:.4g}" for name in shown)
            if "labels_spearman" in look:
                text += f"  labels {100 * look['labels_spearman']:.2f}"
            self.display.line("look", f"step {self.loop.step}: {text}")

    def _finish(self, run: Run, before: Scores | None) -> Outcome:
        """Load the look to keep, examine it, say whether it helped, write the model."""
        results: dict[str, Any] = {}
        if before is not None:
            choice = choose(self.looks, self.config.select)
            self.encoder.model.load_state_dict(load_file(run.kept_weights))
            after = self.exam.sit(self._encode) if choice.step else before
            results = self._results(choice, before, after)
            if results["verdict"]["kind"] == Kind.KEEP_START.value and choice.step:
                self.encoder = load_encoder(self.config.model, self.config.pooling)
            save_model(self.encoder, run.model_folder, model_card(self.config, results))
            run.write_results(results)
            write_report(run)
            self._show_results(choice, before, after, results, run)
        self.accelerator.wait_for_everyone()
        return Outcome(run, results or run.results or {})

    def _results(self, choice: Choice, before: Scores, after: Scores) -> dict[str, Any]:
        verdict = self.exam.verdict(before, after, start_kept=choice.step == 0)
        labels = self.config.labels if choice.rule == "labels" else None
        return {
            "isospace": isospace.__version__,
            "config": self.config.to_dict(),
            "corpus": {
                "sentences": len(self.corpus.train_rows),
                "digest": self.corpus.digest,
                "counts": self.corpus.counts,
            },
            "pooling": self.encoder.pooling,
            "steps": self.loop.total_steps,
            "start": {"scores": before.to_json()},
            "result": {"scores": after.to_json(), "selection": choice.rule, "labels": labels},
            "choice": asdict(choice),
            "verdict": verdict.to_json(),
            "looks": self.looks,
            "seconds": time.monotonic() - self.started,
            "environment": {**environment(), "precision": self.accelerator.mixed_precision},
        }

    def _show_results(
        self, choice: Choice, before: Scores, after: Scores, results: dict[str, Any], run: Run
    ) -> None:
        selected = (
            f"dev-selected on {self.config.labels}" if choice.rule == "labels" else choice.rule
        )
        rows = {"start": before.cells(), f"result ({selected})": after.cells()}
        self.display.table("before and after, x 100", rows)
        self.display.line("kept", choice.reason)
        self.display.line("verdict", results["verdict"]["text"])
        self.display.line("took", f"{results['seconds']:.0f} s; everything is in {run.folder}")
        self.display.line("load it", f'SentenceTransformer("{run.model_folder}")')
