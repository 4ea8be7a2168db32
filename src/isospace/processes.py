"""What the processes that share a run tell each other."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list


def agreed(accelerator: Accelerator, value: Any) -> Any:
    """The first process's value, in every process."""
    values = [value]
    if accelerator.num_processes > 1:
        broadcast_object_list(values)
    return values[0]


def anywhere(accelerator: Accelerator, *flags: bool) -> tuple[bool, ...]:
    """Whether each flag is set in any process, so that all do the same."""
    if accelerator.num_processes == 1:
        return flags
    counts = torch.tensor([float(flag) for flag in flags], device=accelerator.device)
    return tuple(accelerator.reduce(counts, "sum").gt(0).tolist())
