"""600 texts, how to encode them by the toy model, and what is in a folder: for tests of encode."""

from __future__ import annotations

import pytest
import torch
from toy import sentences

from isospace.vectors import encode as module
from isospace.vectors.encode import EncodeConfig, encode

ROWS = 600
TEXTS = [*sentences(ROWS - 4, seed=1), "", "   ", "😀 大きさ", "the cat " * 90]


def run(config):
    seen = []
    last = encode(config, seen.append)
    assert last == seen[-1]
    return seen


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of 64 rows, and two threads, where the tests' subprocesses have one."""
    monkeypatch.setattr(module, "WINDOW", 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def encode_config(small_windows, toy_model, text_file, tmp_path):
    return EncodeConfig(str(toy_model), (str(text_file),), tmp_path / "out", shard_size=128)
