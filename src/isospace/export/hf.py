"""Export of an encoder as a Hugging Face folder: weights, tokenizer, and code for the pooling.

`transformers` has no pooling, so the folder holds only the transformer. Its model card has the code
that turns hidden states into vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import (
    Dropout,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from transformers import MODEL_MAPPING, AutoModel, AutoTokenizer

from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.parity import PROBES, TOLERANCE, require_parity, write_sums
from isospace.encoders.places import Place
from isospace.encoders.pooling import POOLINGS, PoolingName
from isospace.encoders.prompts import Side
from isospace.encoders.saving import save_transformer
from isospace.errors import UserError, first_line
from isospace.system.files import atomic_folder
from isospace.training.card import Usage, prompts_text

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
        usage = _usage(encoder, pooling, _loader(encoder).__name__)
        (building / "README.md").write_text(card(usage), encoding="utf-8")
        write_sums(building)
        return _check(encoder, building)


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


def _usage(encoder: Encoder, pooling: PoolingName, loader: str) -> Usage:
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


def _check(encoder: Encoder, folder: Path) -> float:
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
