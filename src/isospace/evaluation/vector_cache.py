"""Cache of vectors on disk, so that all runs from one base model encode the test texts once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import weights_hash
from isospace.encoders.pooling import Precision
from isospace.encoders.prompts import Side
from isospace.evaluation.pairs import PromptedEncoders, hash_texts
from isospace.system.cache import built_once, code_hashes
from isospace.system.progress import Progress, Silent

_CODE = ("encoders", "objectives", "losses", "views", "operators", "statistics", "system")
"""Packages of the code that encodes; the import contract checks that encoders import no other."""
_FILE = "vectors.npz"
"""Name of a cache file; npz has a checksum, npy has none."""


def cached(
    encoder: Encoder,
    cache: Path,
    precision: Precision = "float32",
    max_length: int | None = None,
    progress: Progress | None = None,
) -> PromptedEncoders:
    """Return an encoder that reads the vectors of earlier calls with the same weights and prompt.

    You can delete any file in `cache / "vectors"`. Do not change the weights while the returned
    encoder is in use.
    """
    settings = [precision] if max_length is None else [precision, str(max_length)]
    about = {side: (*fingerprint(encoder, side), *settings) for side in encoder.prompts.sides}

    def embed(texts: Sequence[str], side: Side | None) -> np.ndarray:
        name = hash_texts(texts, "\0".join(about[side]).encode())

        def build(folder: Path) -> None:
            vectors = embed_with_bar(
                encoder,
                progress or Silent(),
                texts,
                max_length=max_length,
                precision=precision,
                side=side,
            )
            np.savez(folder / _FILE, vectors=vectors)

        return built_once(cache / "vectors" / name, build, _read)

    return PromptedEncoders.of_prompts(encoder.prompts, embed)


def embed_with_bar(
    encoder: Encoder, progress: Progress, texts: Sequence[str], **settings: Any
) -> np.ndarray:
    """Return `encoder.embed(texts, **settings)`, and show a progress bar."""
    with progress.bar("encode", len(texts)) as advance:
        return encoder.embed(texts, on_batch=advance, **settings)


def _read(folder: Path) -> np.ndarray:
    with (folder / _FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        vectors: np.ndarray = arrays["vectors"]
        return vectors


def fingerprint(encoder: Encoder, side: Side | None) -> tuple[str, ...]:
    """Return what decides the vectors of a side: hashes of code and weights, versions, device."""
    libraries = (torch.__version__, transformers.__version__, sentence_transformers.__version__)
    # Both paths agree up to rounding only, and untrained adapters change the path.
    place = encoder.device.type, str(encoder.of_side(side).is_fast)
    return (*code_hashes(*_CODE), *libraries, *place, weights_hash(encoder, side))
