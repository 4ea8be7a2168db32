"""A command run by several processes of this machine, which torch's launcher starts."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

from isospace.errors import Stopped
from isospace.system.consent import SAFE_PATH

_RUN_ID = "isospace"


def launched() -> bool:
    """Return true if a launcher (ours, torchrun, accelerate) started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Return true in the first of the processes that share the work, or if there is only one."""
    return os.environ.get("RANK", "0") == "0"


def is_lost_peer_error(error: Exception) -> bool:
    """Return true if the cause of an error is that another process of the same work has ended."""
    import torch.distributed as dist

    return launched() and (isinstance(error, dist.DistError) or "gloo" in str(error))


def launched_here() -> bool:
    """Return true if `launch` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") == _RUN_ID


def _heeded() -> list[str]:
    """Return the signals that this process does not ignore; `nohup` makes it ignore SIGHUP."""
    names = [name for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
    return [name for name in names if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN]


def launch(words: Sequence[str], processes: int) -> int:
    """Run `isospace WORDS` in several processes, which share the cores.

    Returns:
        The exit status: 0, or the largest exit status of the processes that failed.

    Raises:
        Stopped: a process was killed.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    each = max(1, (os.cpu_count() or 1) // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(each))
    os.environ.update(SAFE_PATH)
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=_RUN_ID,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        shutdown_timeout=600,  # enough for an update and its checkpoint
        signals_to_handle=",".join(_heeded()),
    )
    logging.disable(logging.CRITICAL)  # the process that failed shows the error itself
    try:
        elastic_launch(settings, sys.executable)("-m", "isospace", *words)
    except ChildFailedError as error:
        status = {rank: failure.exitcode for rank, failure in error.failures.items()}
        # The launcher itself ends the other processes by SIGTERM.
        killed = [rank for rank, code in status.items() if code < 0 and code != -signal.SIGTERM]
        if killed := killed or [rank for rank in status if max(status.values()) < 0]:
            name = signal.Signals(-status[killed[0]]).name
            raise Stopped(
                f"process {killed[0] + 1} of {processes} was killed by {name}, so all processes "
                "stopped. What was written is kept: run the same command again"
            ) from None
        return int(max(status.values()))
    except SignalException:  # the processes have stopped, and shown what to do
        return 1
    finally:
        logging.disable(logging.NOTSET)
    return 0
