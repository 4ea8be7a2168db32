"""What a busy machine costs: training and encoding beside one core that others use, and idle.

PyTorch's threads wait for each other at the end of every matrix product. By default OpenMP (libgomp
in PyTorch's wheels for Linux) lets them spin there: on a core that another program wants, they use
up the time slice of the thread that they wait for. The settings say how long they spin before they
sleep, or how many there are. (KMP_BLOCKTIME is for other OpenMP libraries; libgomp does not read
it.)
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
"""A thread less is what the number of threads would be if it followed the load at the start."""
Prepare = Callable[..., Any]


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Training and encoding, a line for each setting."""
    return [
        _table("training minilm", training_round, (options.corpus, UPDATES), UPDATES * BATCH),
        _table("encoding with minilm", encoding_round, (options.corpus, SENTENCES), SENTENCES),
    ]


def training_round(corpus: Path, updates: int) -> Any:
    """Updates of simcse, in the arithmetic that `isospace train` takes on this machine."""
    import training

    loop = training.own_loop("minilm", "simcse", {"head": "none"}, corpus, "auto")
    return training.updates(loop, updates)


def encoding_round(corpus: Path, sentences: int) -> Any:
    """Sentences through the encoder, as `isospace encode` does it."""
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
    """Rate, and ratio with its lowest and highest."""
    if result.failure or default.failure:
        return [result.failure, ""]
    ratio, low, high = result.ratio_to(default)
    return [f"{amount / result.median:.1f}", f"{ratio:.2f} ({low:.2f} to {high:.2f})"]


@contextmanager
def busy_core() -> Iterator[None]:
    """Something else that always wants a core; it ends with this process."""
    spin = f"import os\nwhile os.getppid() == {os.getpid()}:\n    sum(range(10**6))"
    with subprocess.Popen([sys.executable, "-c", spin]) as process:
        try:
            yield
        finally:
            process.kill()
