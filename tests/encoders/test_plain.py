"""Plain Hugging Face models: a warning says what is assumed."""

from __future__ import annotations

import pytest
from toy import write_toy_model

import isospace
from isospace.export.ship import export

ASSUMED = "a plain Hugging Face model does not say how it makes vectors"


@pytest.fixture
def plain(tmp_path):
    """A model that no test before has loaded."""
    return write_toy_model(tmp_path / "plain")


def assumed(caplog):
    """The warnings of what is assumed, of which the last is forgotten."""
    found = [record.getMessage() for record in caplog.records if ASSUMED in record.getMessage()]
    caplog.clear()
    return found


def test_python_users_read_what_is_assumed_in_the_log(plain, tmp_path, caplog):
    isospace.load(str(plain))
    (said,) = assumed(caplog)
    assert said.startswith(f"{plain}: ")
    assert "pooling mean, texts cut to 64 tokens, no prompts of its own, no normalisation" in said
    assert "`pooling`" in said
    isospace.load(str(plain), pooling="cls")
    (said,) = assumed(caplog)
    assert "pooling cls" not in said
    export(str(plain), "st", tmp_path / "st", pooling="cls")
    caplog.clear()
    assert isospace.load(str(tmp_path / "st")).encoder.pooling == "cls"
    assert assumed(caplog) == []
