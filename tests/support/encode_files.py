"""600 texts, how to encode them by the toy model, and what is in a folder: for tests of encode."""

import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from toy import sentences

from isospace.system.progress import Silent
from isospace.vectors import encode as module

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
    return module.encode(config, Silent())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def column(folder, name="vector"):
    """A column of all shards of a folder, (row, width)."""
    parts = [pq.read_table(path, partitioning=None) for path in sorted(folder.glob("part-*"))]
    return np.concatenate([np.stack(part[name].to_numpy()) for part in parts])


def encode_until_killed(config, shard):
    """The kill comes before a shard gets its name."""
    torch.set_num_threads(1)
    module.SHARD_ROWS = 128
    rename = Path.replace

    def replace(self, target):
        if Path(target).name == shard:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    Path.replace = replace
    run(config)


def encode_until_removal(config):
    """The kill comes as the finished shards are removed."""
    remove = shutil.rmtree

    def rmtree(path, **options):
        if Path(path).name.startswith(f".{config.output.name}.parts"):
            Path(path, "manifest.json").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        remove(path, **options)

    shutil.rmtree = rmtree
    module.SHARD_ROWS = 128
    run(config)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path
