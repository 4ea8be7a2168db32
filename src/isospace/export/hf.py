"""The encoder as a Hugging Face folder: weights and tokenizer, the pooling in words and code.

`transformers` knows no pooling, so the folder holds the transformer alone, and its card the lines
that turn hidden states into the vector.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import (
    Dropout,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from transformers import AutoModel, AutoTokenizer

from isospace.encoders.encoder import Encoder
from isospace.encoders.parity import PROBES, TOLERANCE, require_parity
from isospace.encoders.pooling import POOLINGS, PoolingName
from isospace.encoders.saving import new_folder, save_transformer
from isospace.errors import UserError
from isospace.training.card import Usage

_WITHOUT_WEIGHTS = (Transformer, WeightedLayerPooling, Pooling, Normalize, Dropout)


def save_hf(encoder: Encoder, folder: Path, card: Callable[[Usage], str]) -> float:
    """Write an encoder as a new Hugging Face folder, whole or not at all.

    Args:
        encoder: what to write.
        folder: where.
        card: makes the text of README.md from the way in which the folder is used.

    Returns:
        The largest 1 - cosine between the encoder's vectors and those that the folder gives with
        the card's pooling.

    Raises:
        UserError: a part after the transformer that the folder cannot hold, other vectors, or
            a folder in the way.
    """
    pooling = _pooling(encoder)
    with new_folder(folder) as building:
        save_transformer(encoder, building)
        (building / "README.md").write_text(card(_usage(encoder, pooling)), encoding="utf-8")
        return _check(encoder, pooling, building)


def _pooling(encoder: Encoder) -> PoolingName:
    lost = [type(part).__name__ for part in encoder.model if not isinstance(part, _WITHOUT_WEIGHTS)]
    if lost:
        raise UserError(
            f"{encoder.source}: `to` hf keeps the transformer alone and would lose "
            f"{', '.join(lost)}. Export it with `to` st or `to` onnx"
        )
    for name in POOLINGS:
        if name == encoder.pooling:
            return name
    raise UserError(
        f"{encoder.source}: `to` hf knows the poolings {', '.join(POOLINGS)}, not "
        f"{encoder.pooling}. Export it with `to` st or `to` onnx"
    )


def _normalised(encoder: Encoder) -> bool:
    return any(isinstance(part, Normalize) for part in encoder.model)


def _usage(encoder: Encoder, pooling: PoolingName) -> Usage:
    rule = POOLINGS[pooling]
    layers = " + ".join(f"out.hidden_states[{i}]" for i in rule.layers)
    states = f"({layers}) / {len(rule.layers)}" if len(rule.layers) > 1 else layers
    lines = [
        "import torch",
        "from transformers import AutoModel, AutoTokenizer",
        "",
        'folder = "path/to/this/folder"',
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        "model = AutoModel.from_pretrained(folder).eval()",
        'texts = ["one sentence", "another sentence"]',
    ]
    if encoder.prompt:
        lines.append(f"texts = [{encoder.prompt!r} + text for text in texts]")
    cut = f", max_length={encoder.max_length}" if encoder.max_length else ""
    lines += [
        f'batch = tokenizer(texts, padding=True, truncation=True{cut}, return_tensors="pt")',
        "with torch.no_grad():",
        "    out = model(**batch, output_hidden_states=True)",
        f"states = {states}",
    ]
    if rule.tokens == "cls":
        lines.append("vectors = states[:, 0]")
    else:
        lines.append('mask = batch["attention_mask"].unsqueeze(-1)')
        lines.append("vectors = (states * mask).sum(1) / mask.sum(1)")
    if _normalised(encoder):
        lines.append("vectors = torch.nn.functional.normalize(vectors, dim=-1)")
    code = "\n".join(lines)
    unit = ", L2-normalised" if _normalised(encoder) else ""
    return Usage(
        "transformers", f"Pooling `{pooling}`: {rule.formula}{unit}.\n\n```python\n{code}\n```"
    )


def _check(encoder: Encoder, pooling: PoolingName, folder: Path) -> float:
    """Reload the folder by `transformers` alone, pool by the formula, compare."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    batch = tokenizer(
        [encoder.prompt + text for text in PROBES],
        padding=True,
        truncation=encoder.max_length is not None,
        max_length=encoder.max_length,
        return_tensors="pt",
    )
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
        vectors = POOLINGS[pooling](states, batch["attention_mask"])
        if _normalised(encoder):
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return require_parity(encoder.embed(PROBES), vectors.numpy(), encoder.source, TOLERANCE)
