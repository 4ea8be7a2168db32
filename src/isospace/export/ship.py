"""Export of a run or a model: choice of the writer, the model card and the folder."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from isospace.corpus.prose import extract, prose_sentences
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.parity import TOLERANCE
from isospace.encoders.pooling import PoolingName
from isospace.encoders.saving import CLASSIC_TOLERANCE, save_model
from isospace.errors import UserError
from isospace.export.hf import save_hf
from isospace.export.onnx import Int8Loss, Sample, save_onnx
from isospace.system.files import expanded, require_writable
from isospace.system.progress import Logged, Progress
from isospace.training.card import Usage, classic_usage, model_card, plain_card
from isospace.training.query_map import usage_of
from isospace.training.run import Run, maker_of
from isospace.vectors.texts import open_texts

Target = Literal["st", "onnx", "hf"]

SAMPLE_SIZE = 500
"""Maximal number of sentences to measure the loss of quantisation."""

_PROSE = (
    "difflib", "ipaddress", "statistics", "configparser", "threading", "subprocess", "random",
    "inspect", "typing",
)  # fmt: skip
"""Modules of the standard library with much prose."""


@dataclass(frozen=True)
class Shipment:
    """The result of an export.

    Attributes:
        gap: largest 1 - cosine between the vectors of the model and of the folder.
        limit: largest allowed `gap`.
    """

    folder: Path
    gap: float
    limit: float
    loss: Int8Loss | None


def export(
    model: str,
    to: Target,
    output: Path | None = None,
    int8: bool = False,
    sample: Path | None = None,
    column: str | None = None,
    encoding: str | None = None,
    progress: Progress | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    pooling: PoolingName | None = None,
) -> Shipment:
    """Export a run's result, or any model.

    Args:
        model: a run's folder, a model folder, minilm, or a Hub name.
        to: "st" for the classic sentence-transformers folder, "onnx" for one graph, "hf" for a
            Hugging Face folder.
        output: the new folder; default: RUN/TARGET for a run, or MODEL-TARGET in the working
            directory.
        int8: with "onnx": also write a dynamically quantised graph.
        sample: a file or folder of sentences to measure the loss of int8; default: the run's
            held-out sentences, or prose of Python's documentation.
        column: column of the sentences in `sample`; default: text.
        encoding: encoding of `sample`; default: utf-8.
        progress: shows the progress; default: the log.
        query_prompt: query prompt to store in the folder, as for `load_encoder`.
        document_prompt: document prompt to store in the folder, as for `load_encoder`.
        pooling: pooling of the vectors; default: the model's own.

    Raises:
        UserError: the model is missing, the folder exists, the settings contradict each other, or
            the folder would give different vectors.
    """
    if to not in get_args(Target):
        raise UserError(f"`to` {to}: expected {', '.join(get_args(Target))}")
    if (int8 and to != "onnx") or (sample is not None and not int8):
        raise UserError("`int8` needs `to` onnx, and `sample` needs `int8`")
    if sample is None and (column or encoding):
        raise UserError(
            "`column` and `encoding` describe a `sample`. Give `sample` too, or leave them out"
        )
    run = maker_of(model)
    folder = run.folder / to if run else Path(f"{Path(model).resolve().name}-{to}")
    folder = folder if output is None else expanded(output)
    if folder.exists():
        raise UserError(f"{folder}: exists already. Remove it, or give another `output`")
    require_writable(folder)
    measured_on = _sample(run, sample, column or "text", encoding or "utf-8") if int8 else None
    encoder = load_encoder(model, pooling, None, query_prompt, document_prompt)
    if encoder.prompts.summary:
        files = {"st": "config_sentence_transformers.json", "hf": "config.json", "onnx": "the card"}
        line = f"{encoder.prompts.summary}; named in {files[to]}, not built in"
        (progress or Logged()).line("prompts", line)
    card = partial(_card, model, run, encoder)
    loss, limit = None, TOLERANCE
    if to == "st":
        usage = usage_of(encoder) if run else classic_usage(encoder.prompts)
        limit = CLASSIC_TOLERANCE
        gap = save_model(encoder, folder, card(usage), replace=False)
    elif to == "hf":
        gap = save_hf(encoder, folder, card)
    else:
        gap, loss = save_onnx(encoder, folder, card, measured_on, progress)
    return Shipment(folder, gap, limit, loss)


def _card(model: str, run: Run | None, encoder: Encoder, usage: Usage) -> str:
    if run is None or run.results is None:
        return plain_card(model, f"{encoder.dim} dimensions, pooling {encoder.pooling}", usage)
    return model_card(run.config, run.results, encoder.pooling, usage)


def _sample(run: Run | None, file: Path | None, column: str, encoding: str) -> Sample:
    """Return sentences from the user's files, the run, or Python's docstrings."""
    if file is not None:
        with open_texts([str(file)], column, None, encoding) as rows:
            texts = (row.text.strip() for row in rows)
            sentences = list(islice(filter(None, texts), SAMPLE_SIZE))
        if not sentences:
            raise UserError(f"`sample` {file}: only blank lines. Give at least one sentence")
        return Sample(sentences, file.name)
    if run is not None and run.sample is not None:
        return Sample(run.sample.sentences[:SAMPLE_SIZE], "held-out text of the run")
    library = Path(sysconfig.get_path("stdlib"))
    prose: dict[str, None] = {}
    for name in _PROSE:
        if len(prose) < SAMPLE_SIZE:
            module = f"{name}.py"
            found = extract((library / module).read_bytes(), module)
            prose |= dict.fromkeys(text for one in found for text in prose_sentences(one))
    return Sample(list(prose)[:SAMPLE_SIZE], "Python's docstrings")
