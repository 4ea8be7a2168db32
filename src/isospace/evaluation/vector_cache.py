"""What a start makes of the test texts, on disk: all runs from one start encode them once."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
import transformers

from isospace.encoders import encoder as encoder_module
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import weights_hash
from isospace.evaluation.pairs import Encode
from isospace.system.cache import built_once
from isospace.system.files import file_hash

_CODE = sorted(Path(encoder_module.__file__).parent.rglob("*.py"))
"""What turns texts into vectors; vectors of an earlier version are not mixed with its own."""


def cached(encoder: Encoder, cache: Path) -> Encode:
    """`encoder.embed`, with vectors that the same weights made of the same texts before.

    Args:
        encoder: with the weights that it keeps while the result is in use.
        cache: vectors are kept in `cache / "vectors"`; any of them can be deleted.
    """
    libraries = (torch.__version__, transformers.__version__, encoder.device.type)
    about = (*map(file_hash, _CODE), *libraries, weights_hash(encoder))

    def encode(texts: Sequence[str]) -> np.ndarray:
        name = blake2b("\0".join(about).encode(), digest_size=16)
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            name.update(f"{len(content)} ".encode() + content)

        def build(folder: Path) -> None:
            np.save(folder / "vectors.npy", encoder.embed(texts))

        found: np.ndarray = np.load(
            built_once(cache / "vectors" / name.hexdigest(), build) / "vectors.npy"
        )
        return found

    return encode
