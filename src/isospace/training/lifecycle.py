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
from isospace.system.launch import is_main_process
from isospace.system.quiet import saying_once
from isospace.system.signals import StopRequest, polite_stop
from isospace.training.checkpoint import random_state, set_random_state
from isospace.training.run import FinishedRun, Run, require_free

Config = TypeVar("Config")
"""Settings of a command that makes a run, with the fields `output` and `data`."""


@contextmanager
def stoppable(what_is_left: Callable[[], str]) -> Iterator[StopRequest]:
    """Let signals end a block, and put back the caller's random state at its end.

    A warning of `warn_once` is logged once within the block.

    Args:
        what_is_left: says what a signal left behind, and how to continue.

    Raises:
        Interrupted: a signal came.
    """
    callers_state = random_state()
    try:
        with saying_once(), polite_stop() as stop:
            yield stop
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {what_is_left()}") from error
    finally:
        set_random_state(callers_state)


@contextmanager
def working_in(folder: Path, how_to_resume: str, lock: str = ".lock") -> Iterator[None]:
    """Keep other processes off a folder, and say how to continue after whatever stops the work.

    Of processes that share the work the first holds the lock. It removes what killed processes left
    half written.

    Args:
        folder: in which the block writes.
        how_to_resume: what to tell a person whose work was stopped.
        lock: the lock file in the folder.

    Raises:
        UserError: another process holds the lock.
        Stopped: a signal (then `Interrupted`), a full disk, or too little memory.
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
            "out of memory. Start a new run with a smaller `batch_size`, with `pass_tokens` or "
            f"with `gradient_checkpointing`. Or continue this run: {how_to_resume}"
        ) from error


def start_or_resume(
    config: Config | None,
    resume: Path | str | None,
    read: Callable[[Run], Config],
    work: Callable[[Config, Run | None, StopRequest], FinishedRun],
) -> FinishedRun:
    """Make a new run, or continue one; a complete run gives its results.

    Args:
        config: the settings of a new run.
        resume: the folder of a run to continue, instead of `config`.
        read: reads the settings of that run; refuses a run of another command.
        work: makes the run of these settings, or continues the one that is given.

    Raises:
        UserError: bad input; refused before the work starts.
        Stopped: a signal (then `Interrupted`), a full disk, or a loss that diverged.
    """
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
