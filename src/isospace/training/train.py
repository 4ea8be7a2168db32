"""`isospace train`: fine-tune an encoder on a text, and test it before and after.

`train` prepares everything (`prepare.py`) and trains with `fit.Fit`. `step.py` is one update.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from isospace.config import TrainConfig
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE
from isospace.evaluation.pairs import PromptedEncoders, embed_with_bar
from isospace.statistics.selection import SelectedAmong
from isospace.system.devices import broadcast
from isospace.system.progress import Logged, Progress
from isospace.system.signals import StopRequest
from isospace.training import checkpoint
from isospace.training.finish import (
    AFTER,
    ModelScores,
    run_results,
    show_verdict,
    write_run,
)
from isospace.training.fit import Fit
from isospace.training.results import RunResults
from isospace.training.run import FinishedRun, Run, start_or_resume


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
        resume: the folder of a run to continue, instead of `config`. A finished run returns its
            results.
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
        if fit.shortfall:
            progress.line("budget", fit.shortfall)
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
