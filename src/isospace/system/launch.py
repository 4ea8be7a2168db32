"""Processes that share one run, started by torchrun or accelerate."""

from __future__ import annotations

import os


def launched() -> bool:
    """Return true if a launcher started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Return true in the first of the processes that share the work, or if there is only one."""
    return os.environ.get("RANK", "0") == "0"


def is_lost_peer_error(error: Exception) -> bool:
    """Return true if the cause of an error is that another process of the same work has ended."""
    import torch.distributed as dist

    return launched() and (isinstance(error, dist.DistError) or "gloo" in str(error))
