"""Keep other libraries quiet while they are called, and leave their settings as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_level(name: str, level: int) -> Iterator[None]:
    """Give a logger another level within the context."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def no_weight_bars() -> Iterator[None]:
    """Hide the bars of transformers, which reads or writes weights; a download keeps its bar."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging as transformers_logging

    shown, downloads = (
        transformers_logging.is_progress_bar_enabled(),
        not are_progress_bars_disabled(),
    )
    if not shown:
        yield
        return
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if downloads:  # which transformers disables too
        enable_progress_bars()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if not downloads:
            disable_progress_bars()
