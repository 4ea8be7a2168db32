"""Communication between the processes that share a run."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list

from isospace.errors import UserError
from isospace.system.devices import default_device

STDIN_IS_OF_ONE = "`corpus` -: several processes cannot share standard input. Give a file"


def join_processes(precision: str = "no", **settings: Any) -> Accelerator:
    """Return an `Accelerator` on the device that training and encoding use.

    Later calls may ask for another `precision` (Accelerate's `mixed_precision`). Other processes
    wait up to a day while the first process cleans a corpus or scores. Torch's default is 10
    minutes (NCCL) or 30 minutes (gloo).

    Raises:
        UserError: the launcher's configuration divides the weights between processes.
    """
    patient = InitProcessGroupKwargs(timeout=timedelta(days=1))
    for name in ("FSDP", "DEEPSPEED"):
        if os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() == "true":
            raise UserError(
                f"Accelerate's configuration asks for {name}, but every isospace process holds "
                "all weights. Launch without it. For encoders that do not fit, set `lora`, or use "
                "ObjectiveLoss in the trainer of sentence-transformers"
            )
    # Accelerate refuses a second precision in one process. Earlier accelerators keep their own.
    if AcceleratorState._shared_state.get("_mixed_precision", precision) != precision:
        AcceleratorState._shared_state = {}
    was_joined = _is_joined()
    # Without `cpu`, processes on a machine without GPUs do not find each other.
    made = Accelerator(
        cpu=default_device() == "cpu",
        mixed_precision=precision,
        kwargs_handlers=[patient],
        **settings,
    )
    if _is_joined() and not was_joined:  # the caller leaves a group that the caller made
        atexit.register(_leave)
    return made


def _is_joined() -> bool:
    return dist.is_available() and dist.is_initialized()


def _leave() -> None:
    """Leave the group of processes at the end of the process, and not at the end of a run.

    The next run of a comparison needs the group. Leaving it at the end of a run could also
    deadlock: freeing the group's last reference holds Python's lock, and waits for a thread that
    needs this lock.
    """
    if _is_joined():
        dist.destroy_process_group()


def arithmetic(accelerator: Accelerator) -> str:
    """Return the type of an accelerator's matrix products, for people."""
    return "bf16" if accelerator.mixed_precision == "bf16" else "float32"


def broadcast(accelerator: Accelerator, value: Any) -> Any:
    """Return the first process's value in every process."""
    values = [value]
    if accelerator.num_processes > 1:
        broadcast_object_list(values)
    return values[0]


def any_process(accelerator: Accelerator, *flags: bool) -> tuple[bool, ...]:
    """Return for each flag true if any process has set it; all processes get the same answer."""
    if accelerator.num_processes == 1:
        return flags
    counts = torch.tensor([float(flag) for flag in flags], device=accelerator.device)
    return tuple(accelerator.reduce(counts, "sum").gt(0).tolist())
