"""Losses of small vectors, measured on the pairs of a run or on files of the user."""

from __future__ import annotations

from collections.abc import Sequence

from isospace.config import CorpusConfig, EvaluateConfig, TrainConfig
from isospace.corpus.examples import evenly
from isospace.encoders.loading import as_encoder
from isospace.errors import UserError
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.compression import (
    FITTED_ON,
    CompressionResults,
    measure_forms,
)
from isospace.evaluation.own_data import load_own_files
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, cached
from isospace.evaluation.retrieval import JudgedQueries
from isospace.system.files import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.training.prepare import data_of, load_data
from isospace.training.run import run_of


def measure_compression(
    model: str,
    config: EvaluateConfig = EvaluateConfig(),  # noqa: B008 - frozen
    corpus: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[CompressionResults]:
    """Measure what every form of small vectors loses.

    The queries are those of `config.own`; else the test pairs of `corpus`; else those of the run
    that `model` names. There is a result for each file of `config.own`.
    """
    progress = progress or Logged()
    if config.own:
        return _on_own_files(model, config, progress)
    run = None if corpus else run_of(model)
    if run is None and not corpus:
        raise UserError(
            f"`compress`: {model} is no run of adapt or train, so there are no pairs to measure "
            "on. Name the folder of a run, or give documents (`corpus`) or a file of pairs (`own`)"
        )
    progress.line("reading", " ".join(corpus if run is None else run.config.text.corpus))
    described = "test pairs"
    if run is None:
        text = CorpusConfig(corpus=tuple(corpus))
        data = load_data(TrainConfig(text=text, model=model))
    else:
        data, same = data_of(run)
        described = "test pairs of the run"
        if not same:
            described = f"held-out pairs of the run's text{run.finished.trained_on}"
    pairs = data.benchmark.pairs
    lines = data.corpus.train_rows[evenly(len(data.corpus.train_rows), FITTED_ON)]
    results = measure_forms(
        _encode(model, config, progress),
        model,
        pairs,
        f"{len(pairs):,} {described}",
        [data.corpus[int(line)] for line in lines],
        hard_pairs(data.corpus, data.held_out) if data.benchmark.split else None,
    )
    return [results]


def _on_own_files(
    model: str, config: EvaluateConfig, progress: Progress
) -> list[CompressionResults]:
    """Measure on pairs or judged queries of the user, which also select the smallest form."""
    files = load_own_files(config)
    contents = []
    for data in files:
        if not isinstance(data.content, JudgedQueries) and type(data.content) is not TextPairs:
            raise UserError(
                f"{data.file}: `compress` measures searches. Give pairs of texts that belong "
                "together, or a folder in the layout of BEIR"
            )
        contents.append(data.content)
    encode = _encode(model, config, progress)
    results = []
    for data, content in zip(files, contents, strict=True):
        if isinstance(content, JudgedQueries):
            what, passages = "queries", content.documents
        else:
            what, passages = "pairs", tuple(dict.fromkeys(content.second))
        described = f"{len(content):,} {what} of {data.file}"
        results.append(measure_forms(encode, model, content, described, passages))
    return results


def _encode(model: str, config: EvaluateConfig, progress: Progress) -> PromptedEncoders:
    encoder = as_encoder(model, config)
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    return cached(encoder, cache_folder(), config.precision, progress=progress)
