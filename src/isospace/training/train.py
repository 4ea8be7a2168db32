"""`isospace train`: fine-tune an encoder on a text, and test it before and after.

`prepare.py` loads everything, `fit.py` trains, `step.py` is one update. `adapt` ends alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE, BenchmarkResult, table_rows
from isospace.evaluation.other_text import other_text_scores, other_text_words
from isospace.evaluation.pairs import Encode, PromptedEncoders, cached, embed_with_bar
from isospace.statistics.gains import Scores
from isospace.statistics.selection import SelectedAmong
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.system.devices import broadcast, environment
from isospace.system.files import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.system.settings import to_dict
from isospace.system.signals import StopRequest
from isospace.training import checkpoint
from isospace.training.card import how_to_load, model_card, usage_of
from isospace.training.fit import Fit
from isospace.training.prepare import Data, base_encoder
from isospace.training.results import CorpusFacts, Origin, RunResults, TrainingFacts, write_results
from isospace.training.run import FinishedRun, Run, start_or_resume

BEFORE, AFTER = "before training, x 100", "before and after, x 100"
"""Titles of tables."""


def train(
    config: TrainConfig | None = None,
    resume: Path | str | None = None,
    progress: Progress | None = None,
) -> FinishedRun:
    """Fine-tune an encoder on a corpus, and test whether that helped.

    It writes the folder of the run: `output` of the settings, or a new folder in `runs`. Texts and
    tokens are kept in the cache (ISOSPACE_CACHE). The global random state is restored at the end.

    Args:
        config: the settings of a new run.
        resume: the folder of a run to continue, instead of `config`; if it is finished, its results
            are returned.
        progress: shows the progress; default: the log.

    Raises:
        UserError: bad input; refused before the work starts.
        Stopped: a signal (then `Interrupted`), a full disk, or a diverged loss.
    """

    def begin(config: TrainConfig, run: Run | None, stop: StopRequest) -> FinishedRun:
        return _trained(Fit(config, progress or Logged(), stop, run=run))

    return start_or_resume(config, resume, _settings, begin)


def _settings(run: Run) -> TrainConfig:
    if (run.folder / ADAPT_SETTINGS).is_file():
        raise UserError(f"{run.folder}: a run of adapt. Continue it with {run.to_resume[0]}")
    return run.config


def _trained(fit: Fit) -> FinishedRun:
    """Do one process's part of a run: start or resume, train, select, score, write."""
    benchmark, progress = fit.benchmark, fit.progress
    with fit.opened():
        progress.line(BASE, f"scoring the encoder ({benchmark.protocol}) ...")
        before = ModelScores.of_base_model(fit.encoder, fit.data, progress) if fit.main else None
        fit.accelerator.wait_for_everyone()
        if before is not None:
            progress.table(*before.table)
            progress.line("pairs", benchmark.detectable_gain(before.measured))
            progress.line("other text", fit.data.other_text.described)
        fit.train()
        results = None if before is None else _tested(fit, before)
        return FinishedRun(fit.run, broadcast(fit.accelerator, results))


def _tested(fit: Fit, before: ModelScores) -> RunResults:
    """Load the kept checkpoint, score it, make the verdict, and write the model."""
    run, choice, encoder, data = fit.run, fit.choice, fit.training.shipped, fit.data
    checkpoint.put_weights(run.kept_weights, encoder.model)
    after = before
    if choice.step:
        fit.progress.line("adapted", "scoring the trained encoder ...")
        embed = partial(embed_with_bar, encoder, fit.progress)
        encode = PromptedEncoders.of_prompts(encoder.prompts, embed)
        after = ModelScores.measure(encode, data, before.measured.with_bm25.weight)
    kept = None if choice.step else choice.reason
    tried = fit.evaluations.tried
    among = SelectedAmong.named(tried, choice.step) if tried else None
    verdict = fit.benchmark.verdict(before.measured, after.measured, kept, among)
    results = run_results(
        fit.config, data, fit.facts, choice.step, before, after, verdict, among=among
    )
    write_run(run, results, encoder, data, before, after)
    adapted = f"adapted ({results.selected_by}){results.not_shipped}"
    fit.progress.table(AFTER, results.before_and_after(adapted))
    fit.progress.line("kept", results.kept)
    fit.progress.line("took", f"{results.training.seconds:.0f} s; everything is in {run.folder}")
    show_verdict(run, results, fit.progress)
    return results


@dataclass(frozen=True)
class ModelScores:
    """Scores of one encoder on the test items."""

    measured: BenchmarkResult
    other_text: dict[str, Scores]

    @classmethod
    def measure(cls, encode: Encode, data: Data, bm25_weight: float) -> ModelScores:
        """Score an encoder."""
        measured = data.benchmark.measure(encode, bm25_weight)
        return cls(measured, data.other_text.measure(encode, measured=measured))

    @property
    def table(self) -> tuple[str, list[dict[str, str]]]:
        """Title and rows of the table that shows the scores of the base model."""
        return BEFORE, table_rows("", {BASE: self.measured.scores})

    @classmethod
    def of_base_model(cls, encoder: Encoder, data: Data, progress: Progress) -> ModelScores:
        """Score an untrained encoder; its vectors are kept in the cache."""
        encode = cached(encoder, cache_folder(), progress=progress)
        weight = data.benchmark.select_weight(encode, data.held_out)
        return cls.measure(encode, data, weight)


def run_results(
    config: TrainConfig,
    data: Data,
    training: TrainingFacts,
    step: int,
    before: ModelScores,
    after: ModelScores,
    verdict: Verdict,
    candidate: str = "",
    among: SelectedAmong | None = None,
) -> RunResults:
    """Collect the results of a run; `among` are the candidates if the test pairs selected."""
    benchmark, corpus = data.benchmark, data.corpus
    other_text = other_text_scores(before.other_text, after.other_text)
    return RunResults(
        isospace=version("isospace"),
        config=to_dict(config),
        origin=Origin.from_model(config.model),
        corpus=CorpusFacts(len(corpus.train_rows), corpus.digest, dict(corpus.counts)),
        training=training,
        benchmark=benchmark.digest(),
        pairs=benchmark.pairs_digest(),
        base=before.measured.scores,
        adapted=after.measured.scores,
        labels=config.labels if training.choice.rule == "labels" else None,
        model_step=0 if verdict.kind is VerdictKind.KEEP_BASE else step,
        verdict=verdict,
        with_bm25=benchmark.bm25_gains(before.measured, after.measured, among),
        other_text=other_text,
        split=benchmark.split,
        environment=environment(),
        candidate="" if verdict.kind is VerdictKind.KEEP_BASE else candidate,
    )


def show_verdict(run: Run, results: RunResults, progress: Progress, advice: str = "") -> None:
    """Show the last lines of a run: verdict, other text, which search to use, how to load it."""
    progress.line("verdict", results.verdict.text)
    if results.other_text_gains:
        progress.line("other text", other_text_words(results.other_text_gains))
    progress.line("use", results.recommendation)
    if advice:
        progress.line("advice", advice)
    progress.line("load it", how_to_load(run.model_folder))


def write_run(
    run: Run,
    results: RunResults,
    encoder: Encoder,
    data: Data,
    before: ModelScores,
    after: ModelScores,
) -> None:
    """Write the model (the base model if the verdict keeps it) and the items, then the results."""
    config, benchmark = run.config, data.benchmark
    if results.ships_base:
        encoder = base_encoder(config)
    card = model_card(config, results, encoder.pooling, usage_of(encoder))
    save_model(encoder, run.model_folder, card)
    run.write_items(
        before=benchmark.items(before.measured),
        after=benchmark.items(after.measured),
        **benchmark.test_pairs(),
        other_text_before=data.other_text.items(before.other_text),
        other_text_after=data.other_text.items(after.other_text),
    )
    run.write_sample(benchmark.sample, before.measured.vectors, after.measured.vectors)
    write_results(run.results_path, results)
