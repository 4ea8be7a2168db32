"""Export of a run or a model: choice of the writer, the model card and the folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.parity import TOLERANCE
from isospace.encoders.pooling import PoolingName
from isospace.encoders.saving import CLASSIC_TOLERANCE, save_model
from isospace.errors import UserError
from isospace.export.hf import save_hf
from isospace.export.onnx import save_onnx
from isospace.system.files import expanded, require_new
from isospace.system.progress import Logged, Progress
from isospace.training.card import Usage, classic_usage, model_card, plain_card, usage_of
from isospace.training.run import Run, maker_of

Target = Literal["st", "onnx", "hf"]


@dataclass(frozen=True)
class Shipment:
    """A written export; `gap` is the largest 1 - cosine to the model's vectors, up to `limit`."""

    folder: Path
    gap: float
    limit: float


def export(
    model: str,
    to: Target,
    output: Path | None = None,
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
        output: the folder, new or empty; default: RUN/TARGET for a run, or MODEL-TARGET in the
            working directory.
        progress: shows the progress; default: the log.
        query_prompt: query prompt to store in the folder, as for `load_encoder`.
        document_prompt: document prompt to store in the folder, as for `load_encoder`.
        pooling: pooling of the vectors; default: the model's own.

    Raises:
        UserError: the model is missing, the folder has content, or the folder would give different
            vectors.
    """
    if to not in get_args(Target):
        raise UserError(f"`to` {to}: expected {', '.join(get_args(Target))}")
    run = maker_of(model)
    folder = run.folder / to if run else Path(f"{Path(model).resolve().name}-{to}")
    folder = folder if output is None else expanded(output)
    require_new(folder)
    encoder = load_encoder(model, pooling, None, query_prompt, document_prompt)
    if encoder.prompts.summary:
        file = "config_sentence_transformers.json" if to == "st" else "the card"
        line = f"{encoder.prompts.summary}; named in {file}, not built in"
        (progress or Logged()).line("prompts", line)
    card = partial(_card, model, run, encoder)
    limit = TOLERANCE
    if to == "st":
        usage = usage_of(encoder) if run else classic_usage(encoder.prompts)
        limit = CLASSIC_TOLERANCE
        gap = save_model(encoder, folder, card(usage), replace=False)
    elif to == "hf":
        gap = save_hf(encoder, folder, card)
    else:
        gap = save_onnx(encoder, folder, card)
    return Shipment(folder, gap, limit)


def _card(model: str, run: Run | None, encoder: Encoder, usage: Usage) -> str:
    if run is None or run.results is None:
        return plain_card(model, f"{encoder.dim} dimensions, pooling {encoder.pooling}", usage)
    return model_card(run.config, run.results, encoder.pooling, usage)
