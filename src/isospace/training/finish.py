"""The end of a run: everything that it came to, and the model that it leaves."""

from __future__ import annotations

import isospace
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.evaluation.benchmark import Benchmark, Measured
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.system.devices import environment
from isospace.system.processes import arithmetic
from isospace.training.card import classic_usage, model_card
from isospace.training.fit import Fit
from isospace.training.origin import Origin
from isospace.training.results import CorpusFacts, RunResults, write_results
from isospace.training.run import Run
from isospace.training.selection import Choice


def start_of(config: TrainConfig) -> Encoder:
    """The encoder that training begins with."""
    return load_encoder(
        config.model,
        config.pooling,
        query_prompt=config.query_prompt,
        document_prompt=config.document_prompt,
    )


def run_results(
    fit: Fit,
    choice: Choice,
    before: Measured,
    after: Measured,
    verdict: Verdict,
    made: str = "",
) -> RunResults:
    """What a training came to.

    Args:
        fit: the training.
        choice: which of its states was kept.
        before: the start.
        after: the result.
        verdict: on the two.
        made: what else was done to the state that was kept, in words.
    """
    config, benchmark, corpus = fit.config, fit.benchmark, fit.corpus
    return RunResults(
        isospace=isospace.__version__,
        config=config.to_dict(),
        origin=Origin.of(config.model),
        corpus=CorpusFacts(
            len(corpus.train_rows),
            corpus.digest,
            dict(corpus.counts),
            fit.loop.config.max_length,
        ),
        pooling=fit.encoder.pooling,
        steps=fit.loop.total_steps,
        benchmark=benchmark.digest(),
        pairs=benchmark.pairs_digest(),
        start=before.scores,
        result=after.scores,
        labels=config.labels if choice.rule == "labels" else None,
        choice=choice,
        model_step=0 if verdict.kind is VerdictKind.KEEP_START else choice.step,
        verdict=verdict,
        beside=benchmark.beside(before, after),
        split=benchmark.split,
        evaluations=tuple(fit.evaluations),
        seconds=fit.seconds,
        memory_mb=fit.memory_mb,
        environment={**environment(), "precision": arithmetic(fit.accelerator)},
        made="" if verdict.kind is VerdictKind.KEEP_START else made,
    )


def write_run(
    run: Run,
    results: RunResults,
    encoder: Encoder,
    benchmark: Benchmark,
    before: Measured,
    after: Measured,
) -> None:
    """Write the model, the items and the results; these last, as they say that a run is finished.

    Args:
        run: its folder.
        results: what it came to.
        encoder: the result; the start is written in its place where that is to be kept.
        benchmark: what both were measured on.
        before: the start.
        after: the result.
    """
    config = run.config
    if results.ships_start:
        encoder = start_of(config)
    card = model_card(config, results, encoder.pooling, classic_usage(encoder.prompts))
    save_model(encoder, run.model_folder, card)
    run.write_items(
        before=benchmark.items(before), after=benchmark.items(after), **benchmark.test_pairs()
    )
    run.write_sample(benchmark.sample, before.vectors, after.vectors)
    write_results(run.results_path, results)
