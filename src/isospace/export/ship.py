"""Export of a run or a model: as a classic folder, for Hugging Face, or as an ONNX graph.

`transformers` has no pooling, so a folder for Hugging Face holds only the transformer. Its model
card has the code that turns hidden states into vectors.

An ONNX graph maps token ids and mask to the final vector. It includes pooling, whitening (a dense
layer) and normalisation, so nobody can pool its output wrongly. Batch size and length are dynamic,
down to one sentence of one token.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import (
    Dropout,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import MODEL_MAPPING, AutoModel, AutoTokenizer

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.parity import PROBES, TOLERANCE, require_parity, write_sums
from isospace.encoders.places import Place
from isospace.encoders.pooling import POOLINGS, PoolingName
from isospace.encoders.prompts import Side
from isospace.encoders.saving import (
    CLASSIC_TOLERANCE,
    require_known_modules,
    save_model,
    save_transformer,
)
from isospace.errors import UserError, first_line
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
from isospace.training.run import Run, maker_of

GRAPH = "model.onnx"
_INPUTS, _OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"
_LARGEST = 2**31 - 2**24
"""Maximal size of the weights in bytes: protobuf's limit, minus room for the graph."""


def save_onnx(encoder: Encoder, folder: Path, card: Callable[[Usage], str]) -> float:
    """Write an encoder as a new folder with model.onnx, tokenizer.json and README.md.

    The encoder is moved to the CPU. `card` returns the text of README.md for the usage of the
    folder. The result is the largest 1 - cosine between the vectors of encoder and graph.

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
                f"({type(encoder.transformer).__name__}) as a graph. Use `to` st or `to` hf"
            ) from error
        gap = max(_graph_gap(encoder, building, side) for side in encoder.prompts.sides)
        (building / "README.md").write_text(card(_graph_usage(encoder)), encoding="utf-8")
        write_sums(building)
    return gap


def encode_with_graph(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """Encode like users of the folder, with only tokenizer.json and ONNX Runtime.

    The texts must begin with the model's prompt, if it has one. The result is (text, dim) float32.
    """
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
        self.parts = nn.ModuleList(encoder.model)
        self.token_types = "token_type_ids" in encoder.tokenizer.model_input_names

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.token_types:
            features["token_type_ids"] = torch.zeros_like(input_ids)
        for part in self.parts:
            features = part(features)
        return features[_OUTPUT]


def _require_exportable(encoder: Encoder) -> None:
    require_one_way(encoder.prompts, encoder.source, "an ONNX graph")
    require_known_modules(encoder)
    if getattr(encoder.tokenizer, "backend_tokenizer", None) is None:
        raise UserError(
            f"{encoder.source}: its tokenizer ({type(encoder.tokenizer).__name__}) has no "
            "tokenizer.json, which an ONNX export needs. Use `to` st"
        )
    size = sum(weight.numel() * 4 for weight in encoder.model.parameters())
    if size > _LARGEST:
        raise UserError(
            f"{encoder.source}: the weights have {size / 1e9:.1f} GB, and one ONNX file holds at "
            "most 2.1 GB. Use `to` st"
        )


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
    """Return the largest 1 - cosine between the encoder's and the graph's vectors of a side."""
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


_HELD = (Transformer, WeightedLayerPooling, Pooling, Normalize, Dropout)
"""Modules that the folder or its model card can represent; only the first has weights."""


def save_hf(encoder: Encoder, folder: Path, card: Callable[[Usage], str]) -> float:
    """Write an encoder as a Hugging Face folder, new or empty, atomically.

    `card` returns the text of README.md for the usage of the folder. The result is the largest
    1 - cosine between the encoder's vectors and those of the folder with the card's pooling.

    Raises:
        UserError: the folder cannot represent a module after the transformer, `transformers` alone
            cannot load the folder, the vectors differ, or the folder has content.
    """
    require_one_way(encoder.prompts, encoder.source, "a Hugging Face folder")
    pooling = _pooling(encoder)
    with atomic_folder(folder) as building:
        save_transformer(encoder.model[0], building)
        usage = _hf_usage(encoder, pooling, _loader(encoder).__name__)
        (building / "README.md").write_text(card(usage), encoding="utf-8")
        write_sums(building)
        return _hf_gap(encoder, building)


def _pooling(encoder: Encoder) -> PoolingName:
    """Return the name of the encoder's pooling; refuse an encoder that cannot be exported."""
    lost = [type(module).__name__ for module in encoder.model if not isinstance(module, _HELD)]
    if not lost and encoder.pooling in POOLINGS:
        return encoder.pooling
    lost = lost or [f"the pooling {encoder.pooling}"]
    raise UserError(
        f"{encoder.source}: `to` hf would lose {', '.join(lost)}. Such a folder holds a "
        f"transformer, one of the poolings {', '.join(POOLINGS)}, and a closing normalisation. "
        "Use `to` st or `to` onnx, which hold every pooling and dense layers too"
    )


def _loader(encoder: Encoder) -> Any:
    """Return the class of `transformers` that loads the folder, mostly `AutoModel`.

    For T5, `AutoModel` loads encoder and decoder, and sentence encoders need `T5EncoderModel`.
    """
    own = type(encoder.transformer)
    general = MODEL_MAPPING.get(type(encoder.transformer.config), own)
    return AutoModel if general is own else own


def _hf_usage(encoder: Encoder, pooling: PoolingName, loader: str) -> Usage:
    rule, normalised = POOLINGS[pooling], any(isinstance(m, Normalize) for m in encoder.model)
    layers = " + ".join(f"out.hidden_states[{i}]" for i in rule.layers)
    states = f"({layers}) / {len(rule.layers)}" if len(rule.layers) > 1 else layers
    lines = [
        "import torch",
        f"from transformers import {', '.join(sorted((loader, 'AutoTokenizer')))}",
        "",
        'folder = "path/to/this/folder"',
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        f"model = {loader}.from_pretrained(folder).eval()",
        'texts = ["one sentence", "another sentence"]',
    ]
    if encoder.prompts.document:
        lines.append(f"texts = [{encoder.prompts.document!r} + text for text in texts]")
    cut = f", max_length={encoder.max_length}" if encoder.max_length else ""
    lines += [
        f'batch = tokenizer(texts, padding=True, truncation=True{cut}, return_tensors="pt")',
        "with torch.no_grad():",
        "    out = model(**batch, output_hidden_states=True)",
        f"states = {states}",
    ]
    if rule.tokens == "cls":
        lines.append("vectors = states[:, 0]")
    elif rule.tokens == "lasttoken":
        lines.append('mask = batch["attention_mask"]')
        lines.append("rows, ends = torch.arange(len(mask)), mask.cumsum(1).argmax(1)")
        lines.append("vectors = states[rows, ends] * mask[rows, ends].unsqueeze(-1)")
    else:
        lines.append('mask = batch["attention_mask"].unsqueeze(-1)')
        lines.append("vectors = (states * mask).sum(1) / mask.sum(1).clamp(min=1)")
    if normalised:
        lines.append("vectors = torch.nn.functional.normalize(vectors, dim=-1)")
    code = "\n".join(lines)
    unit = ", L2-normalised" if normalised else ""
    text = f"Pooling `{pooling}`: {rule.formula}{unit}.\n\n```python\n{code}\n```"
    if encoder.prompts.summary:
        text += f"\n\n{prompts_text(encoder.prompts)}"
    return Usage("transformers", text)


def _hf_gap(encoder: Encoder, folder: Path) -> float:
    """Return the largest 1 - cosine to the folder, loaded with `transformers` and pooled."""
    try:
        with TemporaryDirectory() as empty:
            vectors = {
                side: _vectors_of_folder(encoder, folder, empty, side)
                for side in encoder.prompts.sides
            }
    except Exception as error:  # a model with custom code can raise any error
        raise UserError(
            f"{encoder.source}: transformers alone cannot load the folder ({first_line(error)}). "
            "Nothing was written. Use `to` st"
        ) from error
    return max(
        require_parity(encoder.embed(PROBES, side=side), theirs, encoder.source, TOLERANCE)
        for side, theirs in vectors.items()
    )


def _vectors_of_folder(encoder: Encoder, folder: Path, cache: str, side: Side | None) -> np.ndarray:
    """Return the probes' vectors on a side by the folder's transformer, with an empty cache."""
    options = Place(str(folder), True).options | {"cache_dir": cache}
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options)
    model: Any = _loader(encoder).from_pretrained(folder, **options).eval()
    batch = tokenizer(
        [encoder.prompts.for_side(side) + text for text in PROBES],
        padding=True,
        truncation=encoder.max_length is not None,
        max_length=encoder.max_length,
        return_tensors="pt",
    )
    with torch.no_grad(), encoder.noise.at(0.0):
        states = model(**batch, output_hidden_states=True).hidden_states
        features = {
            "token_embeddings": states[-1],
            "all_layer_embeddings": states,
            "attention_mask": batch["attention_mask"],
        }
        for module in list(encoder.model)[1:]:
            features = module(features)
    vectors: np.ndarray = features["sentence_embedding"].numpy()
    return vectors


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
