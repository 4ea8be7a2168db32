"""Imports: those of large libraries are put off, and isospace's own changes nothing of others."""

import os
import subprocess
import sys

import pytest

from isospace.cli import main
from isospace.system.imports import lazy_imports, wait_passively


def test_a_module_runs_when_it_is_used_and_not_when_it_is_imported_again(tmp_path, monkeypatch):
    (tmp_path / "heavy_module.py").write_text("import sys\nsys.heavy_runs += 1\nvalue = 3\n")
    (tmp_path / "user_of_heavy.py").write_text("import heavy_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "heavy_runs", 0, raising=False)
    with lazy_imports("heavy_module"):
        module = __import__("heavy_module")
        __import__("user_of_heavy")
    assert sys.heavy_runs == 0
    assert module.value == 3
    assert sys.heavy_runs == 1
    del sys.modules["heavy_module"], sys.modules["user_of_heavy"]


def test_threads_wait_passively_unless_the_user_has_set_a_policy(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_passively()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["--help"]) == 0
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


IMPORTS = """
import accelerate, altair, atexit, logging, os, peft, pydantic, scipy, sentence_transformers, signal
import sklearn, sys, types, torch, transformers, warnings

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
