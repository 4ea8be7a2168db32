"""What isospace leaves of other libraries' settings and processes: all of them, as they were."""

from __future__ import annotations

import atexit
import subprocess
import sys

import pytest
import torch.distributed as dist
from accelerate.state import PartialState

from isospace.system import devices, signals
from isospace.system.devices import join_processes

IMPORTS = """
import accelerate, altair, atexit, logging, os, peft, pydantic, scipy, sentence_transformers, signal
import sklearn, sys, tyro, types, torch, transformers, warnings

sys.modules["jax"] = types.ModuleType("jax")

def state():
    loggers = logging.root.manager.loggerDict | {"root": logging.root}
    kept = {
        name: (log.level, list(log.handlers), log.propagate, log.disabled, list(log.filters))
        for name, log in loggers.items()
        if isinstance(log, logging.Logger) and not name.startswith("isospace")
    }
    return {
        "loggers": kept,
        "modules": {name: id(module) for name, module in sys.modules.items()},
        "exit handlers": atexit._ncallbacks(),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
        "paths": list(sys.path),
        "hooks": (sys.excepthook, sys.displayhook, sys.stdout, sys.stderr),
        "torch": (torch.get_num_threads(), torch.get_default_dtype(), torch.initial_seed()),
    }

before = state()
import isospace
for name in isospace.__all__:
    getattr(isospace, name)
after = state()
for part in ("loggers", "modules"):
    after[part] = {name: after[part].get(name) for name in before[part]}
assert "isospace.training.train" in sys.modules
changed = [part for part in before if before[part] != after[part]]
assert not changed, changed
"""


@pytest.mark.exhaustive
def test_importing_every_public_name_changes_nothing_of_others():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


@pytest.fixture
def alone(monkeypatch):
    """The environment of a launcher that has started one process; its exit handlers are listed."""
    for name, value in {
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost",
        "MASTER_PORT": "0", "ACCELERATE_USE_CPU": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    left = []
    monkeypatch.setattr(atexit, "register", left.append)
    yield left
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_group_that_was_made_here_is_left_at_the_end_and_no_other(alone, monkeypatch, tmp_path):
    def begin_group():
        place = f"file://{tmp_path}/group"
        dist.init_process_group("gloo", init_method=place, rank=0, world_size=1)

    begin_group()  # as a program that isospace is part of
    join_processes()
    assert alone == []
    dist.destroy_process_group()
    PartialState._reset_state()
    made = PartialState.__init__

    def joined(self, *args, **kwargs):
        """Make the group that Accelerate makes for launched devices."""
        if not dist.is_initialized():
            begin_group()
        made(self, *args, **kwargs)

    monkeypatch.setattr(PartialState, "__init__", joined)
    join_processes()
    assert alone == [devices._leave]
    devices._leave()
    assert not dist.is_initialized()
    devices._leave()  # where the host has left it meanwhile


def test_what_other_processes_leave_is_told_from_errors(monkeypatch):
    gone = RuntimeError("[third_party/gloo/pair.cc:553] Connection closed by peer")
    assert not signals.is_lost_peer_error(gone)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert signals.is_lost_peer_error(gone)
    assert not signals.is_lost_peer_error(RuntimeError("shapes do not match"))
