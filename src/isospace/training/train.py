"""The main job: text in, adapted encoder out, measured before and after.

Read from here: `train` prepares everything and draws updates from `loop.Loop`, which makes the
views (`encoder.Encoder`) and calls the objective (`objectives/`).
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from safetensors.torch import load_file

import isospace
from isospace.config import TrainConfig, objective_name
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.prompts import SIDES
from isospace.encoders.saving import save_model
from isospace.errors import Interrupted, Stopped, UserError
from isospace.evaluation.benchmark import Measured, sts_data
from isospace.evaluation.scores import table_rows
from isospace.evaluation.vector_cache import cached
from isospace.statistics.influence import mean_scores
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.system.cache import cache_folder
from isospace.system.devices import environment, memory_gb, peak_memory_mb
from isospace.system.processes import agreed, anywhere, arithmetic
from isospace.system.progress import Logged, Progress, Silent
from isospace.system.signals import StopRequest, polite_stop
from isospace.training import checkpoint
from isospace.training.card import classic_usage, model_card
from isospace.training.evaluations import run_evaluation
from isospace.training.loop import Diverged, Step
from isospace.training.origin import Origin
from isospace.training.prepare import make_accelerator, prepare
from isospace.training.results import CorpusFacts, RunResults, write_results
from isospace.training.run import FinishedRun, Run, require_free
from isospace.training.selection import Choice, choose


def train(
    config: TrainConfig | None = None,
    resume: Path | str | None = None,
    progress: Progress | None = None,
) -> FinishedRun:
    """Adapt an encoder to a corpus and say whether that helped.

    Writes the folder of the run: `output` of the settings, or else a new folder in `runs` of the
    working directory. Texts and tokens are kept in the user's cache (ISOSPACE_CACHE). Seeds random
    generators while it works, and puts back the caller's global ones at its end.

    Args:
        config: the settings of a new run.
        resume: the folder of a run to go on with, instead of `config`; a finished one gives its
            results.
        progress: where it is shown; default: the log.

    Raises:
        UserError: bad input; refused before the work starts.
        Stopped: a signal (then `Interrupted`), a full disk, or a loss that diverged.
    """
    run = None if resume is None else Run(Path(resume))
    callers_state = checkpoint.random_state()
    try:
        with polite_stop() as stop:
            if run is not None and config is None:
                # A model that somebody removed is made again, of the weights that were kept.
                removed = not run.model_folder.is_dir() and run.last_checkpoint.is_file()
                if run.results is not None and not removed:
                    return FinishedRun(run, run.results)
                settings = run.config
            elif run is None and config is not None:
                if config.output is not None:
                    require_free(config.output)
                # In the settings, because a resumed run may find another environment.
                settings = replace(config, data=sts_data(config.data))
            else:
                raise UserError("give either the settings of a new run or the folder of a run")
            finished = _Session(settings, progress or Logged(), stop).go(run)
            run = finished.run
            return finished
    except KeyboardInterrupt as error:
        left = "no run was begun" if run is None else run.how_to_resume
        raise Interrupted(f"interrupted; {left}") from error
    finally:
        checkpoint.set_random_state(callers_state)


class _Session:
    """One process's part in a run: everything loaded, then `go`."""

    def __init__(self, config: TrainConfig, progress: Progress, stop: StopRequest) -> None:
        self.started, self._earlier_seconds = time.monotonic(), 0.0
        self._earlier_memory_mb = 0.0
        self.config, self._stop = config, stop
        self.accelerator = make_accelerator(config)
        self.main = self.accelerator.is_main_process
        self.progress = progress if self.main else Silent()
        data, self.loop = prepare(config, self.accelerator, self.progress)
        self.benchmark, self.held_out, self.corpus = data.benchmark, data.held_out, data.corpus
        self.encoder = self.loop.encoder
        self._start_hash = weights_hash(self.encoder, *SIDES)
        self.evaluations: list[dict[str, float]] = []
        # Where the pairs that choose also judge: what they came to, (1 + halves, pair), at each.
        self._ranks: list[torch.Tensor] = []
        self._saved_step, self._saved_at = 0, time.monotonic()

    def _total_steps(self) -> int:
        """The budget in updates."""
        amount, unit = self.config.budget
        if unit == "minutes":
            steps = amount * 60 / self.loop.seconds_per_step()
        else:
            a_step = self.loop.tokens_per_step if unit == "tokens" else self.loop.sentences_per_step
            steps = amount * (len(self.loop.examples) if unit == "epochs" else 1) / a_step
        return max(1, int(steps))

    def go(self, run: Run | None) -> FinishedRun:
        """Start or resume, train, choose, score, write."""
        if run is None:
            folder = Run.create(self.config).folder if self.main else None
            run = Run(agreed(self.accelerator, folder))
        if self.config.trackers:
            self.accelerator.project_configuration.logging_dir = str(run.folder)
            self.accelerator.init_trackers("isospace")
        try:
            with run.held() if self.main else nullcontext():
                return self._run(run)
        except Diverged as error:
            raise Stopped(
                f"training diverged at step {error.step}: {error.term} is {error.value:g}. "
                f"The last good checkpoint is {run.last_checkpoint} (step {self._saved_step}); try "
                f"a lower `learning_rate` than {self.config.learning_rate:g}"
            ) from error
        except KeyboardInterrupt as error:
            raise Interrupted(f"interrupted; {run.how_to_resume}") from error
        except (OSError, SafetensorError) as error:  # a full disk
            raise Stopped(f"{error}; {run.how_to_resume}") from error
        finally:
            for tracker in self.accelerator.trackers:
                tracker.finish()

    def _run(self, run: Run) -> FinishedRun:
        state = self._load_checkpoint(run) if run.last_checkpoint.is_file() else None
        self.progress.line("start", f"scoring the encoder ({self.benchmark.protocol}) ...")
        before = None
        if self.main:
            start = cached(self.encoder, cache_folder())
            weight = self.benchmark.choose_weight(start, self.held_out)
            before = self.benchmark.measure(start, weight)
        self.accelerator.wait_for_everyone()
        if state is None:
            self.loop.total_steps = agreed(self.accelerator, self._total_steps())
        self._evaluate()
        if state is not None:
            self._restore(run, state)
        else:
            if self.main:
                run.rewind(-1)
            self._record_evaluation(run)
            self._save(run)
        if before is not None:
            rows = table_rows("", {"start": before.scores})
            self.progress.table("before training, x 100", rows)
            self.progress.line("pairs", self.benchmark.what_can_be_shown(before))
        self._show_plan(run)
        self._train(run)
        return self._finish(run, before)

    def _evaluate(self) -> None:
        """Measure the encoder by what selection may see; NaN in its vectors is a divergence."""
        if self.main:
            mixed = self.accelerator.mixed_precision
            # The start has its own pooling. A template takes nothing of a sentence's length.
            encoder = self.loop.shipped if self.loop.step else self.encoder
            room = encoder.tokens_around - self.encoder.tokens_around
            settings = self.loop.config
            assert settings.max_length is not None
            measurements = run_evaluation(
                replace(settings, max_length=settings.max_length + room),
                encoder,
                self.held_out,
                self.benchmark,
                mixed,
            )
            self.evaluations.append({"step": float(self.loop.step), **measurements})
            if self._pairs_judge_too and (ranks := self.held_out.ranks) is not None:
                items = np.stack([ranks.reciprocal_ranks, *ranks.burdens])
                self._ranks.append(torch.from_numpy(items))
        evaluation = agreed(self.accelerator, self.evaluations[-1] if self.main else None)
        for name, value in evaluation.items():
            if not math.isfinite(value):
                raise Diverged(self.loop.step, name, value)

    @property
    def _pairs_judge_too(self) -> bool:
        """Whether the verdict's own pairs choose the checkpoint: there are too few to split."""
        return (
            not self.benchmark.split
            and self.held_out.natural
            and self.config.select == "label-free"
        )

    def _choice(self) -> Choice:
        return choose(self.evaluations, self.config.select, self.held_out.natural)

    def _keep_if_best(self, run: Run) -> None:
        """Write the weights if they are of the evaluation to keep so far."""
        if self.main and self._choice().step == self.loop.step:
            checkpoint.save_weights(run.kept_weights, self.loop.shipped.model)

    def _record_evaluation(self, run: Run) -> None:
        if self.main:
            run.log("evaluation", self.evaluations[-1])
            self.accelerator.log(
                {f"evaluation/{k}": v for k, v in self.evaluations[-1].items()}, self.loop.step
            )

    def _seconds(self) -> float:
        """Wall clock of the run, the sessions before a resumption included."""
        return self._earlier_seconds + time.monotonic() - self.started

    def _memory_mb(self) -> float:
        """The run's most memory, the sessions before a resumption included."""
        return max(self._earlier_memory_mb, peak_memory_mb())

    def _save(self, run: Run) -> None:
        """Write the checkpoint from which a resumed run goes on bit for bit, and what is kept."""
        states = gather_object([checkpoint.random_state()])
        if self.main:
            state = {
                **self.loop.state(),
                "corpus": self.corpus.digest,
                "start": self._start_hash,
                "random": states,
                "evaluations": self.evaluations,
                "ranks": self._ranks,
                "seconds": self._seconds(),
                "memory_mb": self._memory_mb(),
            }
            checkpoint.save(run.last_checkpoint, state)
        # Last, so that kept weights are never of an evaluation that the checkpoint does not know.
        self._keep_if_best(run)
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _load_checkpoint(self, run: Run) -> dict[str, Any]:
        """What a checkpoint of this text, this start and as many processes holds."""
        state = checkpoint.load(run.last_checkpoint)
        if state["corpus"] != self.corpus.digest:
            raise UserError(
                f"{run.folder}: the corpus has changed since this run began (digest "
                f"{state['corpus'][:12]}, now {self.corpus.digest[:12]}); put the old text back, "
                "or start a new run"
            )
        if state["start"] != self._start_hash:
            raise UserError(
                f"{run.folder}: the encoder {self.config.model} is not the one that this run began "
                "with; put that one back, or start a new run"
            )
        frozen = self.loop.frozen
        for setting, digest in state.get("frozen", frozen).items():
            if digest != frozen[setting]:
                raise UserError(
                    f"{run.folder}: what `{setting}` names beside the encoder is not what this run "
                    "began with; put that back, or start a new run"
                )
        if len(state["random"]) != self.accelerator.num_processes:
            raise UserError(
                f"{run.folder}: was started on {len(state['random'])} processes; resume it on as "
                "many"
            )
        return state

    def _restore(self, run: Run, state: dict[str, Any]) -> None:
        self.loop.load_state(state)
        self._earlier_seconds = state["seconds"]
        self._earlier_memory_mb = state.get("memory_mb", 0.0)
        if self.main:
            self.evaluations, self._ranks = list(state["evaluations"]), list(state["ranks"])
            run.rewind(self.loop.step)
        self._keep_if_best(run)  # a kill may have come between the two
        checkpoint.set_random_state(state["random"][self.accelerator.process_index])
        self._saved_step, self._saved_at = self.loop.step, time.monotonic()

    def _train(self, run: Run) -> None:
        loop, total = self.loop, self.loop.total_steps
        speed: float | None = None
        evaluation_steps = {
            round(total * i / self.config.evaluations)
            for i in range(1, self.config.evaluations + 1)
        }
        bar = self.progress.bar("train", total, loop.step)
        with self._stop.delayed(), bar as advance:
            for step in loop:
                now = loop.sentences_per_step / step.seconds
                speed = now if speed is None else 0.9 * speed + 0.1 * now
                advance(1, _story(step, speed))
                values = {**asdict(step), "loss": step.loss, "sentences_per_second": speed}
                if self.main:
                    run.log("step", values)
                    self.accelerator.log({**step.terms, "loss": step.loss}, step.step)
                evaluated = step.step in evaluation_steps
                if evaluated:
                    self._evaluate()
                    self._record_evaluation(run)
                    self._show_evaluation()
                late = time.monotonic() - self._saved_at > 60 * self.config.checkpoint_minutes
                stopping, late = anywhere(self.accelerator, self._stop.received, late)
                if evaluated or stopping or late:
                    self._save(run)
                if stopping:
                    raise Interrupted(
                        f"interrupted after step {loop.step} of {total}; {run.how_to_resume}"
                    )

    def _finish(self, run: Run, before: Measured | None) -> FinishedRun:
        """Load the checkpoint to keep, score it, say whether it helped, write the model."""
        results = None
        if before is not None:
            choice = self._choice()
            encoder = self.loop.shipped
            encoder.model.load_state_dict(load_file(run.kept_weights))
            after = before
            if choice.step:
                after = self.benchmark.measure(encoder.embed, before.beside.weight)
            results = self._results(choice, before, after)
            if results.ships_start:
                config = self.config
                encoder = load_encoder(
                    config.model,
                    config.pooling,
                    query_prompt=config.query_prompt,
                    document_prompt=config.document_prompt,
                )
            usage = classic_usage(encoder.prompts)
            card = model_card(self.config, results, encoder.pooling, usage)
            save_model(encoder, run.model_folder, card)
            run.write_items(
                before=self.benchmark.items(before),
                after=self.benchmark.items(after),
                **self.benchmark.test_pairs(),
            )
            run.write_sample(self.benchmark.sample, before.vectors, after.vectors)
            write_results(run.results_path, results)
            self._show_results(run, results)
        return FinishedRun(run, agreed(self.accelerator, results))

    def _show_plan(self, run: Run) -> None:
        """What the training is going to do."""
        size, loop = self.config.batch_size, self.loop
        if self.config.accumulate > 1:
            self.progress.line(
                "note",
                f"an update accumulates {self.config.accumulate} batches of {size}: each anchor "
                f"meets the {size - 1} other sentences of its own batch only, and batch statistics "
                f"(whitening, decorrelation) are over {size} sentences",
            )
        pairs = self.config.views != "dropout"
        passes = len(loop.plan.views) if pairs else self.config.objective.all_passes
        self.progress.line(
            "train",
            f"{objective_name(self.config.objective)}: {loop.total_steps:,} updates of "
            f"{loop.sentences_per_step} {'pairs' if pairs else 'sentences'}, passes {passes}, from "
            f"step {loop.step}, into {run.folder}",
        )

    def _show_evaluation(self) -> None:
        """The newest evaluation, beside the start."""
        if not self.evaluations:
            return
        shown = ("pairs_loss", "pairs_mrr", "uniformity", "effective_rank", "labels_spearman")
        now, start = self.evaluations[-1], self.evaluations[0]
        cells = [f"{name} {now[name]:.4g} (was {start[name]:.4g})" for name in shown if name in now]
        self.progress.line("evaluation", f"step {now['step']:.0f}: {', '.join(cells)}")

    def _show_results(self, run: Run, results: RunResults) -> None:
        """Scores before and after, the verdict, and how to load the model."""
        states = {"start": results.start, f"result ({results.selected_by})": results.result}
        self.progress.table("before and after, x 100", table_rows("", states))
        self.progress.line("kept", results.kept)
        self.progress.line("verdict", results.verdict.text)
        if results.beside is not None:
            self.progress.line("BM25", results.beside.text)
        self.progress.line("took", f"{results.seconds:.0f} s; everything is in {run.folder}")
        self.progress.line("load it", f'SentenceTransformer("{run.model_folder}")')

    def _verdict(self, choice: Choice, before: Measured, after: Measured) -> Verdict:
        kept = None if choice.step else choice.reason
        if not self._pairs_judge_too:
            return self.benchmark.verdict(before, after, kept)
        groups = self.held_out.pairs.group_numbers()
        candidates = {
            int(evaluation["step"]): mean_scores(items[:1].numpy(), groups, items[1:, None].numpy())
            for evaluation, items in zip(self.evaluations, self._ranks, strict=True)
            if evaluation["step"] not in choice.collapsed
        }
        chosen = list(candidates).index(choice.step)
        return self.benchmark.verdict(before, after, kept, list(candidates.values()), chosen)

    def _results(self, choice: Choice, before: Measured, after: Measured) -> RunResults:
        verdict = self._verdict(choice, before, after)
        corpus = self.corpus
        return RunResults(
            isospace=isospace.__version__,
            config=self.config.to_dict(),
            origin=Origin.of(self.config.model),
            corpus=CorpusFacts(
                len(corpus.train_rows),
                corpus.digest,
                dict(corpus.counts),
                self.loop.config.max_length,
            ),
            pooling=self.encoder.pooling,
            steps=self.loop.total_steps,
            benchmark=self.benchmark.digest(),
            pairs=self.benchmark.pairs_digest(),
            start=before.scores,
            result=after.scores,
            labels=self.config.labels if choice.rule == "labels" else None,
            choice=choice,
            model_step=0 if verdict.kind is VerdictKind.KEEP_START else choice.step,
            verdict=verdict,
            beside=self.benchmark.beside(before, after),
            split=self.benchmark.split,
            evaluations=tuple(self.evaluations),
            seconds=self._seconds(),
            memory_mb=self._memory_mb(),
            environment={**environment(), "precision": arithmetic(self.accelerator)},
        )


def _story(step: Step, speed: float) -> str:
    """How the training goes, beside its bar."""
    terms = "  ".join(f"{name} {value:.4g}" for name, value in step.terms.items())
    return f"{terms}  {speed:.0f} sentences/s  {memory_gb():.1f} GB"
