"""A program that has never heard of isospace."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer


def save_vectors(model: Path, texts: list[str], output: Path) -> None:
    """Load a model folder where isospace cannot be imported, and write its vectors."""
    assert "isospace" not in sys.modules
    sys.modules["isospace"] = None  # type: ignore[assignment]  # an import of it fails
    encoder = SentenceTransformer(str(model), device="cpu")
    np.save(output, encoder.encode(texts, show_progress_bar=False))
    assert not any(name.startswith("isospace.") for name in sys.modules)
