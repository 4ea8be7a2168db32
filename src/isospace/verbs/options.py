"""Settings as the command line writes them."""

from __future__ import annotations

import re

from isospace.system.processes import command

_SETTING = re.compile(r"`([a-z][a-z0-9_]*)`")


def as_options(text: str) -> str:
    """A text of the core, in which settings are `named_so`, with their options in place of them.

    >>> as_options("`batch_size` 1: expected 2 or more; `resume` runs/a")
    '--batch-size 1: expected 2 or more; isospace train --resume runs/a'
    """
    return _SETTING.sub(_option, text)


def _option(setting: re.Match[str]) -> str:
    option = "--" + setting[1].replace("_", "-")
    return f"{command()} train {option}" if setting[1] == "resume" else option
