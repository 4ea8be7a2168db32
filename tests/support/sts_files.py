"""Small STS sets in SentEval's layout, shared by tests."""

from __future__ import annotations

from isospace.training.tiny import write_senteval

__all__ = ["write", "write_senteval"]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
