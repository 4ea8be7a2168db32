"""Losses of small vectors, measured on the pairs of a run and kept in the folder of the run."""

from __future__ import annotations

from collections.abc import Sequence

from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.examples import evenly
from isospace.encoders.loading import as_encoder
from isospace.errors import UserError
from isospace.evaluation.compression import (
    FITTED_ON,
    FORMAT,
    CompressionResults,
    measure_forms,
)
from isospace.evaluation.evaluate_config import EvaluateConfig
from isospace.evaluation.held_out import hard_pairs
from isospace.evaluation.other_text import CARRIED, carried
from isospace.evaluation.own_data import load_own_files
from isospace.evaluation.pairs import PromptedEncoders, TextPairs
from isospace.evaluation.ranking import JudgedQueries
from isospace.evaluation.vector_cache import cached
from isospace.operators.forms import FORMS
from isospace.system import typed_json
from isospace.system.cache import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.training.prepare import data_of, load_data
from isospace.training.run import maker_of, run_of

FILE = "compression.json"


def measure_compression(
    model: str,
    config: EvaluateConfig = EvaluateConfig(),  # noqa: B008 - frozen
    corpus: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[CompressionResults]:
    """Measure what every form of small vectors loses.

    The queries are those of `config.own`; else the test pairs of `corpus`; else those of the run
    that `model` names. There is a result for each file of `config.own`. `keep_measured` writes the
    results into the run.

    Raises:
        UserError: no queries, or input that cannot be read.
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
            described = "held-out pairs of the run's text as it is now"
    pairs = data.benchmark.pairs
    lines = data.corpus.train_rows[evenly(len(data.corpus.train_rows), FITTED_ON)]
    results = measure_forms(
        _encode(model, config, progress),
        model,
        pairs,
        f"{len(pairs):,} {described}",
        [data.corpus[int(line)] for line in lines],
        hard_pairs(data.corpus, data.held_out) if data.benchmark.split else None,
        data.other_text.test_pairs,
    )
    return [results]


def keep_measured(model: str, results: CompressionResults) -> None:
    """Write the results into the folder of the run that a model's name means."""
    run = run_of(model)
    if run is not None:
        typed_json.write(run.folder / FILE, results)


def measured(model: str) -> CompressionResults | None:
    """Return what `keep_measured` wrote for the run that made a model; `None` if nothing.

    Raises:
        UserError: compression.json is damaged, or another version's.
    """
    run = maker_of(model)
    if run is None or not (run.folder / FILE).is_file():
        return None
    return typed_json.read(run.folder / FILE, CompressionResults, "results of compression", FORMAT)


def loss_sentence(model: str, form: str) -> str:
    """Return a sentence on what a model loses by a form, or that it was not measured.

    `form` is a name in `FORMS`, or a description of vectors that are compressed already.
    """
    known = next((name for name in FORMS if name == form), None)
    if known is None:
        return f"as {form}"
    results = measured(model)
    if results is not None:
        return f"{results.loss(known)} Measured on {results.tested_on}."
    return (
        f"what {form} loses was not measured for this model; `isospace evaluate RUN --compress` "
        "measures it"
    )


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
    other_text = {name: carried(name, "test") for name in CARRIED}
    results = []
    for data, content in zip(files, contents, strict=True):
        if isinstance(content, JudgedQueries):
            what, passages = "queries", content.documents
        else:
            what, passages = "pairs", tuple(dict.fromkeys(content.second))
        described = f"{len(content):,} {what} of {data.file}"
        results.append(
            measure_forms(encode, model, content, described, passages, other_text=other_text)
        )
    return results


def _encode(model: str, config: EvaluateConfig, progress: Progress) -> PromptedEncoders:
    prompts = config.query_prompt, config.document_prompt
    encoder = as_encoder(model, config.pooling, None, *prompts)
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    return cached(encoder, cache_folder(), config.precision, progress=progress)
