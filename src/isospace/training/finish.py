"""The end of a run: collect its results, write them and the model."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.saving import save_model
from isospace.evaluation.benchmark import BASE, BenchmarkResult, table_rows
from isospace.evaluation.other_text import other_text_scores, other_text_words
from isospace.evaluation.pairs import Encode, cached
from isospace.statistics.gains import Scores
from isospace.statistics.selection import SelectedAmong
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.system.devices import environment
from isospace.system.files import cache_folder
from isospace.system.progress import Progress
from isospace.training.card import how_to_load, model_card, usage_of
from isospace.training.prepare import Data, base_encoder
from isospace.training.results import CorpusFacts, Origin, RunResults, TrainingFacts, write_results
from isospace.training.run import Run

BEFORE, AFTER = "before training, x 100", "before and after, x 100"
"""Titles of tables."""


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
    """Collect the results of a run.

    `among` has the candidates among which the test pairs selected; `None` if other pairs did.
    """
    benchmark, corpus = data.benchmark, data.corpus
    other_text = other_text_scores(before.other_text, after.other_text)
    return RunResults(
        isospace=version("isospace"),
        config=config.to_dict(),
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
    """Write the model and the items, and then the results, which mark the run as finished.

    `encoder` is the result. If the verdict keeps the base model, that is written instead.
    """
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
