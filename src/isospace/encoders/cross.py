"""Cross-encoders: models that read two texts together and return one number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder

from isospace.encoders.loading import state_hash
from isospace.encoders.places import loading, resolve
from isospace.encoders.vector_sources import is_frozen_name
from isospace.errors import UserError, first_line


def is_cross_encoder(name: str) -> bool:
    """Return true if a folder or Hub model is a cross-encoder (a sequence classifier)."""
    path, local, revision = resolve(name)
    if Path(path).is_file() or is_frozen_name(path):  # word vectors or given vectors
        return False
    file = Path(path, "config.json")
    if not Path(path).is_dir():
        with suppress(EntryNotFoundError):
            file = Path(hf_hub_download(path, file.name, revision=revision, local_files_only=local))
    if not file.is_file():  # a sentence-transformers model may have it in a module's folder
        return False
    try:
        kinds = json.loads(file.read_text(encoding="utf-8")).get("architectures") or []
        return any(kind.endswith("ForSequenceClassification") for kind in kinds)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{file}: cannot be read as the configuration of a model ({first_line(error)})"
        ) from error


class PairScorer:
    """A cross-encoder that scores pairs of texts by one number each."""

    def __init__(self, name: str, device: str) -> None:
        place = resolve(name)
        with loading(f"{name}: {place.path} cannot be loaded"):
            self._model = CrossEncoder(place.path, device=device, **place.options)
        if self._model.config.num_labels != 1:
            raise UserError(
                f"{name}: returns {self._model.config.num_labels} numbers for a pair of texts. "
                "Give a cross-encoder that returns one score"
            )
        self.digest = state_hash(self._model)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return (pair,) float32 logits."""
        scores: NDArray[np.float32] = self._model.predict(
            list(pairs), activation_fn=torch.nn.Identity(), show_progress_bar=False
        )
        return scores.astype(np.float32)
