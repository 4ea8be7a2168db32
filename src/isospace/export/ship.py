"""Export of a run or a model: as a classic folder, or as an ONNX graph.

An ONNX graph maps token ids and mask to the final vector. It includes pooling, whitening (a dense
layer) and normalisation. Batch size and length are dynamic, down to one sentence of one token.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from isospace.encoders.encoder import PROBES, Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.saving import (
    CLASSIC_TOLERANCE,
    TOLERANCE,
    require_classic,
    require_parity,
    save_model,
)
from isospace.encoders.settings import EncoderSettings, Side
from isospace.encoders.tokenisation import Batch
from isospace.errors import UserError
from isospace.system.files import atomic_folder, expanded, require_new
from isospace.system.imports import require_extra
from isospace.system.progress import Logged, Progress
from isospace.training.card import (
    Usage,
    classic_usage,
    model_card,
    plain_card,
    prompts_text,
    usage_of,
)
from isospace.training.run import Run, run_of

GRAPH = "model.onnx"
_INPUTS, _OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"
_LARGEST = 2**31 - 2**24
"""Maximal size of the weights in bytes: protobuf's limit, minus room for the graph."""


def save_onnx(encoder: Encoder, folder: Path, card: Callable[[Usage], str]) -> float:
    """Write an encoder, moved to the CPU, as a new folder with an ONNX graph.

    `card` returns the text of README.md for the usage of the folder. The result is the largest
    1 - cosine between the vectors of encoder and graph.

    Raises:
        UserError: packages are missing, the encoder cannot be written as one graph, the graph
            gives different vectors, or the folder has content.
    """
    require_extra("`to` onnx", "onnx", "onnx", "onnxscript", "onnxruntime")
    _require_exportable(encoder)
    encoder.to("cpu")
    with atomic_folder(folder) as building:
        _write_tokenizer(encoder, building / "tokenizer.json")
        try:
            _write_graph(encoder, building / GRAPH)
        except torch.onnx.OnnxExporterError as error:  # its message has pages of internals
            raise UserError(
                f"{encoder.source}: torch.onnx cannot express this model "
                f"({type(encoder.transformer).__name__}) as a graph. Use `to` st"
            ) from error
        gap = max(_graph_gap(encoder, building, side) for side in encoder.prompts.sides)
        (building / "README.md").write_text(card(_graph_usage(encoder)), encoding="utf-8")
    return gap


def encode_with_graph(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """Encode texts (with their prompts) to (text, dim) float32, as users of the folder do."""
    import onnxruntime

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    session = onnxruntime.InferenceSession(folder / GRAPH, providers=["CPUExecutionProvider"])
    rows = tokenizer.encode_batch(list(texts))
    ids = np.array([row.ids for row in rows], dtype=np.int64)
    mask = np.array([row.attention_mask for row in rows], dtype=np.int64)
    vectors: np.ndarray = session.run(None, dict(zip(_INPUTS, (ids, mask), strict=True)))[0]
    return vectors


class _Graph(nn.Module):
    """The whole model as a function of two tensors."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = self.encoder.features(Batch(input_ids, attention_mask))
        for part in self.encoder.model:
            features = part(features)
        vectors: Tensor = features[_OUTPUT]
        return vectors


def _require_exportable(encoder: Encoder) -> None:
    require_one_way(encoder.prompts, encoder.source, "an ONNX graph")
    require_classic(encoder)
    if not encoder.is_transformer:
        raise UserError(f"{encoder.source}: not a transformer, as ONNX needs. Use `to` st")
    if getattr(encoder.tokenizer, "backend_tokenizer", None) is None:
        raise UserError(f"{encoder.source}: has no tokenizer.json, as ONNX needs. Use `to` st")
    size = sum(weight.numel() * 4 for weight in encoder.model.parameters())
    if size > _LARGEST:
        raise UserError(f"{encoder.source}: larger than one ONNX file, 2.1 GB. Use `to` st")


def _write_tokenizer(encoder: Encoder, path: Path) -> None:
    """Write a tokenizer.json with truncation and padding switched on."""
    original: Any = encoder.tokenizer
    tokenizer = Tokenizer.from_str(original.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    if encoder.max_length is not None:
        tokenizer.enable_truncation(encoder.max_length, direction=original.truncation_side)
    tokenizer.enable_padding(pad_id=original.pad_token_id, pad_token=original.pad_token)
    tokenizer.save(str(path))


def _write_graph(encoder: Encoder, path: Path) -> None:
    ids = torch.ones(3, 7, dtype=torch.int64)  # the export would fix sizes of 0 and 1
    shape = {0: "batch", 1: "length"}
    with encoder.noise.at(0.0), torch.no_grad(), _quiet():
        torch.onnx.export(
            _Graph(encoder).eval(),
            (ids, ids.clone()),
            path,
            input_names=_INPUTS,
            output_names=(_OUTPUT,),
            dynamic_shapes=(shape, shape),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' warnings about unused packages."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _graph_gap(encoder: Encoder, folder: Path, side: Side | None) -> float:
    texts = [encoder.prompts.for_side(side) + text for text in PROBES]
    exact = encode_with_graph(folder, texts)
    return require_parity(encoder.embed(PROBES, side=side), exact, encoder.source, TOLERANCE)


def _graph_usage(encoder: Encoder) -> Usage:
    texts = '["one sentence", "another sentence"]'
    if encoder.prompts.document:
        texts = f"[{encoder.prompts.document!r} + text for text in {texts}]"
    text = f"""`{GRAPH}` holds transformer, pooling ({encoder.pooling}) and all that follows.
In: `{_INPUTS[0]}` and `{_INPUTS[1]}` (batch, length; int64). Out: `{_OUTPUT}` (batch,
{encoder.dim}; float32).

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = "path/to/this/folder"
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")  # cuts and pads
session = onnxruntime.InferenceSession(folder + "/{GRAPH}")
rows = tokenizer.encode_batch({texts})
ids = np.array([row.ids for row in rows], dtype=np.int64)
mask = np.array([row.attention_mask for row in rows], dtype=np.int64)
(vectors,) = session.run(None, {{"{_INPUTS[0]}": ids, "{_INPUTS[1]}": mask}})
```"""
    if encoder.prompts.summary:
        text += f"\n\n{prompts_text(encoder.prompts)} The graph has none of them built in."
    return Usage("onnx", text)


Target = Literal["st", "onnx"]


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
    settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Shipment:
    """Export a run's result, or any model, as a classic folder or as an ONNX graph.

    The default `output` is RUN/TARGET for a run, or MODEL-TARGET in the working directory. The
    folder stores the pooling and the prompts of `settings`.

    Raises:
        UserError: the model is missing, the folder has content, or the folder would give different
            vectors.
    """
    if to not in get_args(Target):
        raise UserError(f"`to` {to}: expected {', '.join(get_args(Target))}")
    run = run_of(model)
    folder = run.folder / to if run else Path(f"{Path(model).resolve().name}-{to}")
    folder = folder if output is None else expanded(output)
    require_new(folder)
    encoder = load_encoder(model, settings)
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
    else:
        gap = save_onnx(encoder, folder, card)
    return Shipment(folder, gap, limit)


def _card(model: str, run: Run | None, encoder: Encoder, usage: Usage) -> str:
    if run is None or run.results is None:
        return plain_card(model, f"{encoder.dim} dimensions, pooling {encoder.pooling}", usage)
    return model_card(run.config, run.results, encoder.pooling, usage)
