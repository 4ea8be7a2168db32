"""The life of a command that works in a folder: start or resume, signals, locks, full disks.

`train`, `adapt`, `compare` and `whiten` use it. A run is complete once it has results.json and a
model; until then it holds what is needed to continue it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from isospace.errors import Interrupted, Stopped, UserError
from isospace.evaluation.sts import sts_data
from isospace.system.files import locked, remove_torn
from isospace.system.signals import StopRequest, is_main_process, polite_stop
from isospace.training.checkpoint import random_state, set_random_state
from isospace.training.run import FinishedRun, Run, require_free

Config = TypeVar("Config")
"""Settings of a command that makes a run, with the fields `output` and `data`."""


@contextmanager
def stoppable(what_is_left: Callable[[], str]) -> Iterator[StopRequest]:
    """Turn signals in a block into `Interrupted`, and restore the random state after the block.

    `what_is_left` returns a text that says what the signal left behind, and how to continue.
    """
    callers_state = random_state()
    try:
        with polite_stop() as stop:
            yield stop
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {what_is_left()}") from error
    finally:
        set_random_state(callers_state)


@contextmanager
def working_in(folder: Path, how_to_resume: str, lock: str = ".lock") -> Iterator[None]:
    """Lock a folder during a block; a signal, a full disk or too little memory becomes `Stopped`.

    If several processes share the work, the first one holds the lock. It also removes files that
    killed processes left half-written.
    """
    busy = f"{folder}: another process is working there. Wait for it, or stop it"
    try:
        with locked(folder / lock, busy) if is_main_process() else nullcontext():
            if is_main_process():
                for written in {folder, (folder / lock).parent}:
                    remove_torn(written)
            yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {how_to_resume}") from error
    except OSError as error:  # a full disk
        raise Stopped(f"{error}; {how_to_resume}") from error
    except torch.OutOfMemoryError as error:
        raise Stopped(
            "out of memory. Start a new run with a smaller `max_length`; `isospace train` also "
            "takes a smaller `batch_size`, and `pass_tokens`. Or continue this run: "
            f"{how_to_resume}"
        ) from error


def start_or_resume(
    config: Config | None,
    resume: Path | str | None,
    read: Callable[[Run], Config],
    work: Callable[[Config, Run | None, StopRequest], FinishedRun],
) -> FinishedRun:
    """Make a new run, continue a stopped one, or return the results of a finished one."""
    run = None if resume is None else Run(Path(resume))
    with stoppable(lambda: "no run was begun" if run is None else run.how_to_resume) as stop:
        if config is not None and run is None:
            given = cast(Any, config)
            require_free(given.output)
            # In the settings, because a resumed run may find another environment.
            config = cast(Config, replace(given, data=sts_data(given.data)))
        elif config is None and run is not None:
            config = read(run)
            if (results := run.complete) is not None:
                return FinishedRun(run, results, earlier=True)
        else:
            raise UserError("give either the settings of a new run or the folder of a run")
        finished = work(config, run, stop)
        run = finished.run
        return finished
