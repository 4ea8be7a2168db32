"""Less output: other libraries are kept quiet, and our own warnings appear once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from isospace.system.launch import is_main_process

_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def saying_once() -> Iterator[None]:
    """Make `warn_once` log each text only once within the outermost context."""
    if _said.get() is not None:
        yield
        return
    token = _said.set(set())
    try:
        yield
    finally:
        _said.reset(token)


def warn_once(logger: logging.Logger, text: str) -> None:
    """Log a warning once, and only in the first of the processes that share the work."""
    said = _said.get()
    if not is_main_process() or (said is not None and text in said):
        return
    logger.warning("%s", text)
    if said is not None:
        said.add(text)


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
    """Hide progress bars for reading and writing weights; downloads keep their bars."""
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
    if downloads:  # transformers has disabled their bars too
        enable_progress_bars()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if not downloads:
            disable_progress_bars()
