"""Measure training and encoding on an idle machine, and while another program uses one core.

PyTorch's threads wait for each other at the end of every matrix product. By default OpenMP (libgomp
in PyTorch's wheels for Linux) lets a waiting thread spin. On a core that another program uses, it
then takes the time of the thread for which it waits. The settings limit how long threads spin
before they sleep, or the number of threads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from common import BATCH
from contest import Result, contest

UPDATES, SENTENCES, ROUNDS = 3, 500, 5
"""Of a round of training, and of encoding; counted rounds of each setting."""
DEFAULT = "PyTorch's default"
UNSET = dict.fromkeys(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"))
SETTINGS: dict[str, dict[str, str | None]] = {
    name: {**UNSET, **variables}
    for name, variables in {
        DEFAULT: {},
        "OMP_WAIT_POLICY=PASSIVE (`isospace`)": {"OMP_WAIT_POLICY": "PASSIVE"},
        "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
        "GOMP_SPINCOUNT=30000": {"GOMP_SPINCOUNT": "30000"},
        "a thread less": {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) - 1))},
    }.items()
}
Prepare = Callable[..., Any]


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the tables of training and encoding, a row for each setting."""
    return [
        _table("training minilm", training_round, (options.corpus, UPDATES), UPDATES * BATCH),
        _table("encoding with minilm", encoding_round, (options.corpus, SENTENCES), SENTENCES),
    ]


def training_round(corpus: Path, updates: int) -> Any:
    """Train `simcse` for some updates, in the arithmetic of `isospace train` on this machine."""
    import training

    loop = training.own_loop("minilm", "simcse", {"head": "none"}, corpus, "auto")
    return training.updates(loop, updates)


def encoding_round(corpus: Path, sentences: int) -> Any:
    """Encode sentences as `isospace encode` does."""
    import encoding

    return encoding.ours("float32", corpus, sentences)


def _table(title: str, prepare: Prepare, arguments: tuple[Any, ...], amount: int) -> dict[str, Any]:
    candidates = {name: (prepare, arguments) for name in SETTINGS}
    columns, rows = [""], {name: [name] for name in SETTINGS}
    for label, beside in (("idle", nullcontext()), ("beside one busy core", busy_core())):
        with beside:
            results = contest(candidates, ROUNDS, environments=SETTINGS)
        columns += [f"{label}, sentences a second", "times the default"]
        for name, result in results.items():
            rows[name] += _cells(result, results[DEFAULT], amount)
    return {"title": title, "columns": columns, "rows": list(rows.values())}


def _cells(result: Result, default: Result, amount: int) -> list[str]:
    """Return the rate, and the median ratio with the lowest and highest."""
    if result.failure or default.failure:
        return [result.failure, ""]
    ratio, low, high = result.ratio_to(default)
    return [f"{amount / result.median:.1f}", f"{ratio:.2f} ({low:.2f} to {high:.2f})"]


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep a core busy by another process, which ends with this one."""
    spin = f"import os\nwhile os.getppid() == {os.getpid()}:\n    sum(range(10**6))"
    with subprocess.Popen([sys.executable, "-c", spin]) as process:
        try:
            yield
        finally:
            process.kill()
