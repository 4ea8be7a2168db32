"""The settings of a run of `encode` that takes a moment."""

import pytest

from isospace.config import EncodeConfig


@pytest.fixture
def config(toy_model, text_file, tmp_path, monkeypatch):
    """Shards of 128 of the 600 texts, encoded in windows of 64 rows."""
    monkeypatch.setattr(EncodeConfig, "WINDOW", 64)
    return EncodeConfig(str(toy_model), (str(text_file),), tmp_path / "out", shard_size=128)
