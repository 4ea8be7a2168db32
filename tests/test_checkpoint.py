from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from isospace import checkpoint
from isospace.errors import UserError
from isospace.files import atomic_path, write_text


def draw():
    return torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()


def test_random_state_continues_every_stream(tmp_path):
    draw()
    checkpoint.save(tmp_path / "a.pt", {"random": checkpoint.random_state()})
    expected = draw()
    draw()
    checkpoint.set_random_state(checkpoint.load(tmp_path / "a.pt")["random"])
    assert draw() == expected


def test_numpy_normal_cache_is_kept(tmp_path):
    np.random.randn()  # the second of a pair of normals waits
    checkpoint.save(tmp_path / "a.pt", {"random": checkpoint.random_state()})
    expected = np.random.randn(3).tolist()
    checkpoint.set_random_state(checkpoint.load(tmp_path / "a.pt")["random"])
    assert np.random.randn(3).tolist() == expected


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"step": 1})
    with pytest.raises(AttributeError, match="local object"):
        checkpoint.save(path, {"step": lambda: None})
    assert checkpoint.load(path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_atomic_path_replaces_only_after_success(tmp_path):
    path = tmp_path / "sub" / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("content", [None, b"", b"not a checkpoint"])
def test_unreadable_checkpoints_are_named(tmp_path, content):
    path = tmp_path / "last.pt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"last\.pt"):
        checkpoint.load(path)


def test_another_format_is_refused(tmp_path):
    torch.save({"format": 0}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="another version"):
        checkpoint.load(tmp_path / "a.pt")


def test_a_checkpoint_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    torch.save({"format": checkpoint.FORMAT, "x": Evil()}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="not a readable checkpoint"):
        checkpoint.load(tmp_path / "a.pt")
    assert not (tmp_path / "owned").exists()
