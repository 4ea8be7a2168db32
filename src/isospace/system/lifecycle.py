"""The life of a command: signals, locks, full disks, and the state of the random generators."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isospace.errors import Interrupted, Stopped
from isospace.system.files import locked, remove_torn
from isospace.system.signals import StopRequest, is_main_process, polite_stop


@contextmanager
def stoppable(how_to_go_on: Callable[[], str]) -> Iterator[StopRequest]:
    """Turn signals and a full disk in a block into `Stopped`, and restore the random state."""
    with restored_random_state(), stopping(how_to_go_on), polite_stop() as stop:
        yield stop


@contextmanager
def stopping(how_to_go_on: Callable[[], str]) -> Iterator[None]:
    """Turn a signal, a full disk or another error of the system in a block into `Stopped`.

    `how_to_go_on` returns a text that says how to continue. This would be wrong for a lost
    connection, a closed pipe and a removed file, whose errors are not changed.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {how_to_go_on()}") from error
    except (ConnectionError, FileNotFoundError):
        raise
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise Stopped(f"{reason}; {how_to_go_on()}") from error


@contextmanager
def working_in(folder: Path, how_to_go_on: str, lock: str = ".lock") -> Iterator[None]:
    """Lock a folder during a block; a signal, a full disk or too little memory becomes `Stopped`.

    The first process holds the lock, and removes files that killed processes left half-written.
    """
    busy = f"{folder}: another process is working there. Wait for it, or stop it"
    with (
        stopping(lambda: how_to_go_on),
        locked(folder / lock, busy) if is_main_process() else nullcontext(),
    ):
        if is_main_process():
            for written in {folder, (folder / lock).parent}:
                remove_torn(written)
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise Stopped(
                "out of memory. Start a new run with a smaller `max_length`, or `isospace train` "
                f"with a smaller `batch_size`. Or free memory and continue: {how_to_go_on}"
            ) from error


def random_state() -> dict[str, Any]:
    """Return the state of all global random generators of this process.

    Only the current CUDA device counts, as another machine may have another number of devices.
    """
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
        "python": list(random.getstate()[1]),
        "gauss": random.getstate()[2],
        "numpy": [str(kind), list(map(int, keys)), int(position), int(has_gauss), float(gauss)],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned."""
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state(state["cuda"][0])
    if torch.backends.mps.is_available() and state["mps"]:
        torch.mps.set_rng_state(state["mps"][0])
    random.setstate((3, tuple(state["python"]), state["gauss"]))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), *rest))


@contextmanager
def restored_random_state(first: dict[str, Any] | None = None) -> Iterator[None]:
    """Restore the random state after a block; the block begins with the state `first`, if given."""
    outside = random_state()
    try:
        if first is not None:
            set_random_state(first)
        yield
    finally:
        set_random_state(outside)
