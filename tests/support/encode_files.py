"""600 texts, how to encode them by the toy model, and what is in a folder: for tests of encode."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch
from toy import sentences
from warm import SERVER

from isospace.system.progress import Silent
from isospace.vectors import encode as module
from isospace.vectors.encode import encode
from isospace.vectors.encode_config import EncodeConfig

ROWS = 600
TEXTS = [*sentences(ROWS - 4, seed=1), "", "   ", "😀 大きさ", "the cat " * 90]


class Watched(Silent):
    """A progress that keeps the lines and where the bar stood, and may act as the work begins."""

    def __init__(self, on_begin=lambda: None):
        self.lines, self.bars, self._on_begin = [], [], on_begin

    def line(self, label, text):
        self.lines.append(f"{label} {text}")

    @contextmanager
    def bar(self, label, total, done=0):
        self.bars.append(done)
        self._on_begin()

        def advance(amount, story=""):
            self.bars.append(self.bars[-1] + amount)

        yield advance


def run(config):
    return encode(config, Silent())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_windows(monkeypatch):
    """Encode in windows of 64 rows."""
    monkeypatch.setattr(EncodeConfig, "WINDOW", 64)


@pytest.fixture
def two_threads():
    """Compute with two threads: on busy cores they wait for each other, so few tests do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def warm_workers(monkeypatch):
    """Workers are forked from the tests' server, which has the libraries, where users' import them."""
    monkeypatch.setattr("isospace.system.pool.multiprocessing.get_context", lambda _: SERVER)


def encode_until_killed(config, shard, pids):
    """With one worker the kill comes before a shard gets its name, with two after the first shard."""
    torch.set_num_threads(1)
    EncodeConfig.WINDOW = 64
    rename = Path.replace

    def kill():
        pids.write_text(" ".join(str(child.pid) for child in psutil.Process().children()))
        os.kill(os.getpid(), signal.SIGKILL)

    def replace(self, target):
        if Path(target).name == shard:
            kill()
        return rename(self, target)

    if config.workers == 1:
        Path.replace = replace
    else:
        fork = multiprocessing.get_context("fork")  # of this process, which has no threads yet
        multiprocessing.get_context = lambda _: fork
        module.Shards.finish = lambda *_: kill()
    run(config)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def encode_config(small_windows, toy_model, text_file, tmp_path):
    return EncodeConfig(str(toy_model), (str(text_file),), tmp_path / "out", shard_size=128)
