"""The machine and the processes of a run: devices, memory, versions, and exchange of values."""

from __future__ import annotations

import atexit
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import accelerate
import psutil
import sentence_transformers
import torch
import torch.distributed as dist
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list

from isospace.errors import UserError

_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Processor flags that mean fast bf16 products (x86: the first two; Arm: the last)."""


Item = TypeVar("Item")
Result = TypeVar("Result")


def default_device() -> str:
    """Return the device for training and encoding: cuda, mps or cpu."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _cpuinfo(key: str) -> str:
    """Return the first value of a key in /proc/cpuinfo, or "" if it is missing."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(rf"^{key}\s*:(.*)", text, re.MULTILINE)
    return found[1].strip() if found else ""


def has_bf16() -> bool:
    """Return true if the processor or GPU for training multiplies bf16 in hardware."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    flags = f"{_cpuinfo('flags')} {_cpuinfo('Features')}"
    return bool(_BF16_FLAGS & set(flags.split()))


def device_name() -> str:
    """Return the name of the GPU or processor, for people."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def peak_memory_mb() -> float:
    """Return the peak memory in MB: the GPU's if there is a GPU, else this process's."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 1e6
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / 1e6
    import resource  # missing on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def environment() -> dict[str, str | int]:
    """Return versions and machine, for results.json."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence-transformers": sentence_transformers.__version__,
        "accelerate": accelerate.__version__,
        "device": default_device(),
        "processor": device_name(),
        "threads": torch.get_num_threads(),
    }


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], one_thread: bool = False
) -> Iterator[Result]:
    """Apply a function to items in parallel; give the results in the order of the items.

    The items share PyTorch's threads, because small matrix products are faster on one thread each.
    With `one_thread`, no item has more, so that sums round alike on any machine. Settings of a
    thread (autocast, inference mode) must be made in `work`.
    """
    threads = torch.get_num_threads()
    workers = max(1, min(threads, len(items)))
    each = 1 if one_thread else threads // workers
    if workers == 1 and each == threads:
        yield from map(work, items)
        return
    try:
        with ThreadPoolExecutor(
            workers, initializer=torch.set_num_threads, initargs=(each,)
        ) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(threads)  # the number for new threads is shared by all threads


STDIN_IS_OF_ONE = "`corpus` -: several processes cannot share standard input. Give a file"


def join_processes(precision: str = "no", **settings: Any) -> Accelerator:
    """Return an `Accelerator` on the device that training and encoding use.

    Later calls may ask for another `precision` (Accelerate's `mixed_precision`). Other processes
    wait up to a day, and not torch's 10 or 30 minutes, while the first cleans a corpus or scores.

    Raises:
        UserError: the launcher's configuration divides the weights between processes.
    """
    patient = InitProcessGroupKwargs(timeout=timedelta(days=1))
    for name in ("FSDP", "DEEPSPEED"):
        if os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() == "true":
            raise UserError(
                f"Accelerate's configuration asks for {name}, but every isospace process holds all "
                "weights. Launch without it; for encoders that do not fit, set `lora`"
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
    """Leave the group of processes at the end of the process, as a comparison's next run needs it.

    Leaving it at the end of a run could also deadlock: freeing the last reference to the group
    holds Python's lock, and waits for a thread that needs this lock.
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
