"""A command as a user types it, in this process."""

from __future__ import annotations

from typing import Any

import pytest

from isospace.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Return the exit status, and what was printed on standard output and on standard error."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, out, err
