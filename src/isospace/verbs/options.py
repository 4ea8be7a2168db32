"""Settings as the command line writes them: `its_field` of the core is --its-field here."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import docstring_parser


@dataclass(frozen=True, kw_only=True)
class LoadsModels:
    """What every verb has that loads models."""

    trust_remote_code: bool = False
    """Run code that comes with a model, in its folder or from the Hub; it can do all that you can.
    Name a model of the Hub by the revision whose code you have read: NAME@REVISION."""


@dataclass(frozen=True, kw_only=True)
class SharesWork(LoadsModels):
    """What every verb has whose work several processes can share."""

    nproc: int = 1
    """So many processes of this machine share the work, and each of its GPUs has one. Torchrun does
    the same on several machines."""


_QUOTED = r"""(?<![^\s(\[{])(['"])(?:\\.|(?!\1).)*\1"""
_SETTING = re.compile(rf"{_QUOTED}|(?P<verb>adapt )?`(?P<name>[a-z][a-z0-9_]*)`")
"""A setting as the core names it; or a text in quotes, as messages quote the user's own."""


def as_options(text: str) -> str:
    """A text of the core, in which settings are `named_so`, with their options in place of them.

    `resume`, which only a run has, becomes the whole command, of train or, where it says so, adapt.
    What stands in quotes stays.

    >>> as_options("`batch_size` 1: expected 2 or more; `resume` runs/a")
    '--batch-size 1: expected 2 or more; isospace train --resume runs/a'
    >>> as_options("filter '`output` = 1'")
    "filter '`output` = 1'"
    """
    return _SETTING.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    verb, name = found["verb"] or "", found["name"]
    if name is None:  # a text in quotes
        return found[0]
    option = "--" + name.replace("_", "-")
    if name != "resume":
        return verb + option
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    shared = f"--nproc {processes} " if processes > 1 else ""
    return f"isospace {verb or 'train '}{shared}{option}"


def write_help(kind: type[Any]) -> None:
    """Make the docstring under each field, in `kind` and the dataclasses in it, its help text.

    tyro reads these docstrings too, but would show the line breaks of the source, and settings as
    the core names them.
    """
    described: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if is_dataclass(parent):
            described |= _described(parent)
    types = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        text = " ".join(described.get(field.name, "").split())
        if text:
            field.metadata = MappingProxyType({**field.metadata, "help": as_options(text)})
        for part in _dataclasses(types[field.name]):
            write_help(part)


@functools.cache
def _described(kind: type[Any]) -> dict[str, str]:
    """Field of a dataclass itself -> the docstring under it."""
    found = docstring_parser.parse_from_object(kind).params
    return {item.arg_name: inspect.cleandoc(item.description or "") for item in found}


def _dataclasses(annotation: Any) -> Iterator[type[Any]]:
    """The dataclasses that an annotation names."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _dataclasses(part)
