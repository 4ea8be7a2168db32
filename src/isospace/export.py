"""Write the model where others can load it: the classic sentence-transformers folder.

sentence-transformers 6 reads this layout as its own; versions 2 to 5 and the servers that follow
them know no other. Only sentence-transformers' own module types are written, so that the folder
loads without isospace and without `trust_remote_code`.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from isospace.encoder import Encoder
from isospace.errors import UserError
from isospace.files import sync_folder, sync_tree

_CLASSIC_TYPES = {
    "Dense",
    "Dropout",
    "LayerNorm",
    "Normalize",
    "Pooling",
    "Transformer",
    "WeightedLayerPooling",
}
_CLASSIC_POOLING = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

SAMPLE_TOLERANCE = 1e-6
"""Largest 1 - cosine between the vectors that were scored and those of the reloaded folder."""


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _save_transformer(encoder: Encoder, folder: Path) -> None:
    module: Any = encoder.model[0]
    module.model.save_pretrained(str(folder))
    encoder.tokenizer.save_pretrained(str(folder))
    _write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": module.max_seq_length, "do_lower_case": bool(module.do_lower_case)},
    )


def _save_part(module: Any, folder: Path) -> None:
    folder.mkdir()
    if isinstance(module, Pooling):
        modes = module.pooling_mode
        used = (modes,) if isinstance(modes, str) else tuple(modes)
        config: dict[str, Any] = {"word_embedding_dimension": module.embedding_dimension}
        config.update({key: mode in used for mode, key in _CLASSIC_POOLING.items()})
        config["include_prompt"] = module.include_prompt
        _write_json(folder / "config.json", config)
        return
    module.save(str(folder))
    path = folder / "config.json"
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
        if "embedding_dimension" in config:
            config["word_embedding_dimension"] = config.pop("embedding_dimension")
        _write_json(path, config)


def require_classic(encoder: Encoder) -> None:
    """Refuse an encoder that could not be saved for others.

    Raises:
        UserError: a module that cannot be loaded without further code.
    """
    names = [type(module).__name__ for module in encoder.model]
    foreign = [name for name in names if name not in _CLASSIC_TYPES]
    if foreign:
        raise UserError(
            f"{encoder.source}: modules {', '.join(foreign)} are not among those that every "
            f"sentence-transformers version can load ({', '.join(sorted(_CLASSIC_TYPES))})"
        )


def save_model(encoder: Encoder, folder: Path, card: str = "") -> None:
    """Write an encoder as a classic sentence-transformers folder, replacing an old one whole.

    Args:
        encoder: what to write.
        folder: e.g. `runs/x/model`.
        card: the text of README.md.

    Raises:
        UserError: a module that cannot be loaded without further code, or a reloaded folder that
            does not give the encoder's own vectors.
    """
    require_classic(encoder)
    parts = list(encoder.model)
    building = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        _save_transformer(encoder, building)
        modules = []
        for i, module in enumerate(parts):
            name = type(module).__name__
            path = f"{i}_{name}" if i else ""
            if i:
                _save_part(module, building / path)
            kind = f"sentence_transformers.models.{name}"
            modules.append({"idx": i, "name": str(i), "path": path, "type": kind})
        _write_json(building / "modules.json", modules)
        _write_json(
            building / "config_sentence_transformers.json",
            {
                "__version__": {"sentence_transformers": sentence_transformers.__version__},
                "prompts": encoder.model.prompts,
                "default_prompt_name": encoder.model.default_prompt_name,
                "similarity_fn_name": "cosine",
            },
        )
        (building / "README.md").write_text(card, encoding="utf-8")
        _check(encoder, building)
        sync_tree(building)
        shutil.rmtree(folder, ignore_errors=True)
        building.replace(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _check(encoder: Encoder, folder: Path) -> None:
    """Reload the folder without isospace's parts and compare vectors."""
    texts = ["A short sentence.", "Größe, 大きさ, حجم 😀", "one two three four " * 12, "x"]
    reloaded = SentenceTransformer(str(folder), device=str(encoder.device), local_files_only=True)
    ours = encoder.embed(texts)
    theirs = np.asarray(reloaded.encode(texts, show_progress_bar=False))
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    gap = float(np.max(1.0 - (ours * theirs).sum(1) / np.maximum(norms, 1e-12)))
    if not gap <= SAMPLE_TOLERANCE:
        raise UserError(
            f"the written folder gives other vectors than the encoder (1 - cosine = {gap:.2g}, "
            f"expected at most {SAMPLE_TOLERANCE:g}); {encoder.source} has a part that the folder "
            "cannot hold"
        )
