from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isospace.config import TrainConfig
from isospace.encoders.prompts import Prompts
from isospace.errors import UserError
from isospace.system.files import atomic_path, write_text
from isospace.training import checkpoint
from isospace.training.evaluations import run_evaluation


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


def test_pythons_normal_cache_is_kept(tmp_path):
    random.gauss(0, 1)
    expected = random.getstate()
    checkpoint.save(tmp_path / "a.pt", {"random": checkpoint.random_state()})
    random.gauss(0, 1)
    checkpoint.set_random_state(checkpoint.load(tmp_path / "a.pt")["random"])
    assert random.getstate() == expected


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"step": 1})
    with pytest.raises(AttributeError, match="local object"):
        checkpoint.save(path, {"step": lambda: None})
    assert checkpoint.load(path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path):
    """The command line answers those in a sentence; torch's writer raises RuntimeError."""
    resource = pytest.importorskip("resource", reason="needs a limit on the size of files")
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"step": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a\.pt:"):
            checkpoint.save(path, {"weights": torch.zeros(1 << 18)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.load(path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


class Device:
    """A stand-in for the random states of torch.cuda or torch.mps: a generator a device."""

    def __init__(self, count: int, current: int = 0) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in range(count)]
        self.current = current

    def install(self, module, monkeypatch):
        for name in ("get_rng_state", "set_rng_state", "get_rng_state_all", "set_rng_state_all"):
            monkeypatch.setattr(module, name, getattr(self, name), raising=False)

    def get_rng_state(self):
        return self.generators[self.current].get_state()

    def set_rng_state(self, state):
        self.generators[self.current].set_state(state)

    def get_rng_state_all(self):
        return [generator.get_state() for generator in self.generators]

    def set_rng_state_all(self, states):
        for number, state in enumerate(states):
            self.generators[number].set_state(state)

    def draw(self):
        return torch.rand(3, generator=self.generators[self.current]).tolist()


@pytest.mark.parametrize("count", [1, 8])
def test_a_process_takes_its_own_device_along_however_many_it_sees(monkeypatch, count):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before, after = Device(4, current=2), Device(count)
    before.install(torch.cuda, monkeypatch)
    state = checkpoint.random_state()
    after.install(torch.cuda, monkeypatch)
    checkpoint.set_random_state(state)
    assert after.draw() == before.draw()


def test_mps_has_a_stream_too(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    mps = Device(1)
    mps.install(torch.mps, monkeypatch)
    state = checkpoint.random_state()
    expected = mps.draw()
    checkpoint.set_random_state(state)
    assert mps.draw() == expected


def test_a_look_leaves_every_stream_where_it_was(monkeypatch):
    mps = Device(1)
    mps.install(torch.mps, monkeypatch)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "manual_seed", mps.generators[0].manual_seed)
    held_out = SimpleNamespace(measure=lambda *_: {"drawn": torch.rand(1).item()})
    encoder, benchmark = (
        SimpleNamespace(noise=SimpleNamespace(rates=(0.1,)), prompts=Prompts()),
        SimpleNamespace(labels=None),
    )

    def evaluation():
        return run_evaluation(TrainConfig(), encoder, held_out, benchmark, "float32")

    state = checkpoint.random_state()
    expected = draw(), mps.draw()
    checkpoint.set_random_state(state)
    assert evaluation() == evaluation()
    assert (draw(), mps.draw()) == expected


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
    with pytest.raises(UserError, match=r"\.pt: "):
        checkpoint.load(tmp_path / "a.pt")
    assert not (tmp_path / "owned").exists()


def test_damaged_weights_and_those_of_another_model_are_named(tmp_path):
    path, model = tmp_path / "kept.safetensors", torch.nn.Linear(2, 2)
    checkpoint.save_weights(path, model)
    checkpoint.put_weights(path, model)
    with pytest.raises(UserError, match=r"kept\.safetensors: the weights of another model"):
        checkpoint.put_weights(path, torch.nn.Linear(3, 3))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"kept\.safetensors:"):
        checkpoint.load_weights(path)


class Payload:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_code_in_a_checkpoint_never_runs(tmp_path):
    torch.save({"format": checkpoint.FORMAT, "step": Payload(tmp_path / "ran")}, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt: "):
        checkpoint.load(tmp_path / "a.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["last.pt", "kept.safetensors"])
def test_a_bit_that_turned_in_the_numbers_is_found(tmp_path, name):
    """Neither format compares a checksum by itself."""
    path, model = tmp_path / name, torch.nn.Linear(30, 30)
    if name == "last.pt":
        checkpoint.save(path, {"weights": model.weight.detach()})
        load = checkpoint.load
    else:
        checkpoint.save_weights(path, model)
        load = checkpoint.load_weights
    load(path)
    content = bytearray(path.read_bytes())
    place = bytes(content).find(model.weight.detach().numpy().tobytes())
    content[place + 123] ^= 1 << 4
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: "):
        load(path)
