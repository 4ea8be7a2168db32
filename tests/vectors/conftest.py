"""The settings of a run of `encode` that takes a moment."""

import pytest

from isospace.config import EncodeConfig
from isospace.vectors import encode


@pytest.fixture
def config(toy_model, text_file, tmp_path, monkeypatch):
    """Shards of 128 of the 600 texts."""
    monkeypatch.setattr(encode, "SHARD_ROWS", 128)
    return EncodeConfig(str(toy_model), (str(text_file),), tmp_path / "out")
