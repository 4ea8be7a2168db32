"""Less output: our own warnings appear once, and other libraries are kept quiet."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from isospace.system.launch import is_main_process


@functools.cache
def warn_once(logger: logging.Logger, text: str) -> None:
    """Log a warning once, and only in the first of the processes that share the work."""
    if is_main_process():
        logger.warning("%s", text)


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
