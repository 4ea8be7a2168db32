"""Candidates that do the same work in turn, each in a process of its own.

A candidate is a module-level function that prepares everything and returns a callable; one call of
it is one round. The rounds of all candidates are interleaved, so that a machine that slows down
slows them all, and a ratio is taken within a round before the median is taken over rounds.
"""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

Round = Callable[[], float | None]
"""Does one round's work. Returns its seconds where it knows better than a stop-watch around it."""


@dataclass
class Result:
    """What one candidate did.

    Attributes:
        seconds: of each round.
        peak_mb: highest resident memory of its process, libraries included; of the GPU where there
            is one.
        failure: why there are no numbers.
        notes: other remarks of the candidate.
    """

    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    failure: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Median seconds of a round."""
        return median(self.seconds)

    def ratio_to(self, other: Result) -> tuple[float, float, float]:
        """How many times faster than another: median, lowest and highest over the rounds."""
        ratios = [b / a for a, b in zip(self.seconds, other.seconds, strict=True)]
        return median(ratios), min(ratios), max(ratios)


def contest(
    candidates: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]],
    rounds: int,
    warm_up: bool = True,
) -> dict[str, Result]:
    """Let all work in turn.

    Args:
        candidates: name -> (prepare, its arguments). `prepare` may return the round, or the round
            and a dictionary of notes.
        rounds: that count.
        warm_up: let all do one round before that does not count.
    """
    context = get_context("spawn")
    results = {name: Result() for name in candidates}
    workers = {}
    for name, (prepare, arguments) in candidates.items():
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, prepare, arguments), daemon=True)
        process.start()
        theirs.close()  # held here too, its end would never be seen
        workers[name] = (process, ours)
        _receive(ours, results[name])  # prepared, or failed
    for number in range(0 if warm_up else 1, rounds + 1):
        for name, (_, pipe) in workers.items():
            if results[name].failure:
                continue
            pipe.send("round")
            seconds = _receive(pipe, results[name])
            if number and seconds is not None:
                results[name].seconds.append(seconds)
            print(f"  round {number}: {name}: {seconds}", file=sys.stderr, flush=True)
    for process, pipe in workers.values():
        pipe.close()
        process.join(timeout=20)
    return results


def _receive(pipe: Connection, result: Result) -> float | None:
    try:
        message = pipe.recv()
    except EOFError:
        message = {"failure": "its process died"}
    result.failure = message.get("failure", "")
    result.peak_mb = message.get("peak_mb", result.peak_mb)
    result.notes |= message.get("notes", {})
    if result.failure:
        print(f"  failed: {result.failure}", file=sys.stderr, flush=True)
    seconds: float | None = message.get("seconds")
    return seconds


def _work(pipe: Connection, prepare: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        prepared = prepare(*arguments)
        work, notes = prepared if isinstance(prepared, tuple) else (prepared, {})
        pipe.send({"notes": notes})
        while True:
            pipe.recv()
            started = time.perf_counter()
            own = work()
            seconds = time.perf_counter() - started if own is None else own
            pipe.send({"seconds": seconds, "peak_mb": _peak_mb()})
    except EOFError:
        return
    except Exception as error:
        pipe.send({"failure": f"{type(error).__name__}: {error}".splitlines()[0]})


def _peak_mb() -> float:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated() / 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> str:
    """The machine and the software in one line."""
    import torch
    import transformers

    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if "model name" in line), "")
    bf16 = "with" if torch.cpu._is_avx512_bf16_supported() else "without"
    count = torch.get_num_threads()
    cores = "1 core" if count == 1 else f"{count} cores"
    processor = f"{cores} of {model or platform.machine()} ({bf16} AVX512-BF16)"
    if torch.cuda.is_available():
        processor = f"{torch.cuda.get_device_name()}, {processor}"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{processor}, Python {platform.python_version()}, {versions}"
