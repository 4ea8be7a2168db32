"""Options that several commands have, and options in messages and in short help texts.

The setting `its_field` is the option --its-field.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Annotated

from isospace.encoders.settings import EncoderSettings
from isospace.system.settings import Written


@dataclass(frozen=True, kw_only=True)
class PrintsJson:
    """The option of all commands."""

    json: bool = False
    """Print the result as JSON on standard output, and no progress."""


@dataclass(frozen=True, kw_only=True)
class LoadsModels(PrintsJson):
    """Options of commands that load models."""

    trust_remote_code: bool = False
    """Run code that comes with a model; it can do all that you can. Name a Hub model by the
    revision that you have read: NAME@REVISION."""


@dataclass(frozen=True, kw_only=True)
class CallsEndpoints:
    """Options of commands that may send text to an endpoint."""

    api_key_env: str | None = None
    """The environment variable that holds the key of an endpoint. Default: OPENAI_API_KEY for
    api.openai.com, and no key for any other host."""
    yes: bool = False
    """Send as much text to an endpoint as the command needs, without asking."""
    endpoint: str | None = None
    """The address of the endpoint that a run or an index was made over, such as
    https://HOST/v1#NAME. No text is sent to an endpoint that a file alone names."""


COMMON = (PrintsJson, LoadsModels, EncoderSettings, CallsEndpoints)
"""Classes whose options a help text shows after those of the command itself."""

_QUOTED = r"""(?<![^\s(\[{])(['"])(?:\\.|(?!\1).)*\1"""
_SETTING = re.compile(rf"{_QUOTED}|(?P<command>adapt )?`(?P<name>[a-z][a-z0-9_]*)`")
"""Pattern of a setting in backticks, or of a text in quotes, which is left as it is."""


def as_options(text: str) -> str:
    """Replace settings in a message, written `like_this`, by their options; not in quotes.

    `resume` becomes the whole command: of adapt if "adapt" precedes it, else of train.

    >>> as_options("`batch_size` 1: expected 2 or more; `resume` runs/a")
    '--batch-size 1: expected 2 or more; isospace train --resume runs/a'
    >>> as_options("filter '`output` = 1'")
    "filter '`output` = 1'"
    """
    return _SETTING.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    command, name = found["command"] or "", found["name"]
    if name is None:  # a text in quotes
        return found[0]
    option = "--" + name.replace("_", "-")
    if name != "resume":
        return command + option
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    launcher = f"torchrun --nproc-per-node {processes} --no-python " if processes > 1 else ""
    return f"{launcher}isospace {command or 'train '}{option}"


Corpora = Annotated[tuple[str, ...], Written("CORPUS", positional=True)]
"""Texts of a command, without an option's name."""
Models = Annotated[tuple[str, ...], Written("MODEL", positional=True)]
"""Models of a command, without an option's name."""


@dataclass(frozen=True)
class Everyday:
    """The examples and options that --help shows of a command with many options."""

    examples: tuple[str, ...]
    options: str


EVERYDAY = {
    "adapt": Everyday(
        ("isospace adapt docs/", "isospace adapt docs/ --budget 30 minutes --output runs/docs"),
        "corpus model models budget max_drop other_text queries queries_only pairs columns output "
        "resume json",
    ),
    "train": Everyday(
        (
            "isospace train --corpus notes.txt",
            "isospace train --corpus docs/ --recipe pairs --budget 10 minutes simcse",
        ),
        "corpus model recipe budget batch_size learning_rate pairs seed output resume json",
    ),
    "compare": Everyday(
        (
            "isospace compare simcse vicreg --corpus docs/ --output runs/which",
            "isospace compare --recipe simcse-bert-base whitenedcse-bert-base --corpus wiki.txt "
            "--output runs/papers",
        ),
        "candidates recipe corpus model seeds budget baselines verdict_on data jobs output json",
    ),
    "whiten": Everyday(
        (
            "isospace whiten minilm --corpus docs/ --output whitened",
            "isospace whiten minilm --corpus docs/ --by texts --power 0.5 --output whitened",
        ),
        "model corpus by power dim pairs other_text output json",
    ),
    "distill": Everyday(
        (
            "isospace distill runs/manuals -o twin",
            "isospace distill runs/manuals --queries-only -o queries",
        ),
        "model queries_only corpus title_column seed output json",
    ),
}
"""Command -> its everyday options, in the order of its help."""
