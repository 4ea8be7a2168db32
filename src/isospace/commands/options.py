"""Settings on the command line: the setting `its_field` is the option --its-field."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import docstring_parser
import tyro
from tyro.constructors import PrimitiveConstructorSpec

from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError, did_you_mean, in_words, no_such

MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
"""Markers that leave the names of dataclasses out of the names of options."""


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


@dataclass(frozen=True, kw_only=True)
class Encodes(LoadsModels):
    """Options of commands that encode queries and documents."""

    pooling: PoolingName | None = None
    """How token vectors become one vector of the text. Default: the model's own pooling."""
    query_prompt: str | None = None
    """Put before every query, such as "query: "; "" for none. Default: the model's own query
    prompt."""
    document_prompt: str | None = None
    """Put before every document, in the same way. Default: the model's own document, passage or
    corpus prompt."""


COMMON = (PrintsJson, LoadsModels, Encodes, CallsEndpoints)
"""Classes whose options a help text shows after those of the command itself."""

_QUOTED = r"""(?<![^\s(\[{])(['"])(?:\\.|(?!\1).)*\1"""
_SETTING = re.compile(rf"{_QUOTED}|(?P<command>adapt )?`(?P<name>[a-z][a-z0-9_]*)`")
"""Pattern of a setting in backticks, or of a text in quotes, which is left as it is."""


def as_options(text: str) -> str:
    """Replace settings in a message, written `like_this`, by their options.

    `resume` becomes the whole command: of adapt if "adapt" precedes it, else of train. Text in
    quotes is not changed.

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


def write_help(kind: type[Any]) -> None:
    """Set the help text of each field in `kind`, and in its dataclasses, to its docstring.

    tyro reads these docstrings too, but would show the line breaks of the source, and the names of
    settings instead of options.
    """
    described: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if is_dataclass(parent):
            described |= _described(parent)
    types = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        text = " ".join(described.get(one.name, "").split())
        if text:
            one.metadata = MappingProxyType({**one.metadata, "help": as_options(text)})
        for part in _dataclasses(types[one.name]):
            write_help(part)


@functools.cache
def _described(kind: type[Any]) -> dict[str, str]:
    found = docstring_parser.parse_from_object(kind).params
    return {item.arg_name: inspect.cleandoc(item.description or "") for item in found}


def _dataclasses(annotation: Any) -> Iterator[type[Any]]:
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _dataclasses(part)


Corpora = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS")]
"""Texts of a command, without an option's name."""
Option = tuple[Sequence[str], Any, int]
"""Choices of an option, the reader of an amount, and the number of values."""
_MANY = 1_000_000
"""Number of values of an option that takes any number of values."""


def checked_words(kind: type[Any], command: str, words: Sequence[str]) -> list[str]:
    """Check the words after a command, and return them for tyro, with each amount as two words."""
    known = dict(_options(kind))
    names_objective = any(field.name == "objective" for field in fields(kind))
    found: list[str] = []
    rest = deque(words)
    values = 0  # number of values that the last option still takes
    while rest:
        word = rest.popleft()
        found.append(word)
        name, equals, value = word.partition("=")
        option = name.replace("_", "-")
        if not option.startswith("-") or option == "-":
            if names_objective and values != 1:
                known |= _options_of_objective(word, required=values == 0)
            values -= 1
            continue
        if not option.startswith("--"):
            values = int(re.fullmatch("-[a-z]", name) is not None and not equals)
            continue
        if option not in known:
            raise UserError(no_such("option", name, known, f"isospace {command} --help"))
        choices, amount, values = known[option]
        values = 0 if equals else values
        if not equals:
            value = rest[0] if rest else ""
        if choices and value not in choices and not value.startswith("-"):
            expected = [f"expected {in_words(choices, 'or')}", did_you_mean(value, choices)]
            raise UserError(f"{name} {value}: {'. '.join(filter(None, expected))}")
        if amount:
            given = _amount_words([value] if equals else [], rest)
            amount.instance_from_str(given)
            found[-1:] = [name, *given]
            values = 0
    return found


def _options_of_objective(word: str, required: bool) -> dict[str, Option]:
    """Return the options that the name of an objective brings; other objectives may share names."""
    from isospace.objectives import OBJECTIVES  # imports torch

    if word in OBJECTIVES:
        return dict(_options(OBJECTIVES[word]))
    if required:
        raise UserError(no_such("objective", word, OBJECTIVES))
    return {}


def _amount_words(first: Sequence[str], rest: deque[str]) -> list[str]:
    """Remove a number and a unit, in one word or two, from the words of a command."""
    given = [part for word in first for part in word.split()]
    while len(given) < 2 and rest and not rest[0].startswith("-"):
        given += rest.popleft().split()
    return given


def _options(kind: type[Any]) -> Iterator[tuple[str, Option]]:
    """Yield the name of every option with the option."""
    types = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        parts = list(_dataclasses(types[one.name]))
        for part in parts:
            yield from _options(part)
        if parts:
            continue
        annotation, notes = types[one.name], list[Any]()
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
        name = next(filter(None, (getattr(note, "name", None) for note in notes)), one.name)
        option = name.replace("_", "-")
        amounts = [note for note in notes if isinstance(note, PrimitiveConstructorSpec)]
        values = _MANY if get_origin(annotation) is tuple else int(annotation is not bool)
        yield f"--{option}", (_choices(annotation), amounts[0] if amounts else None, values)
        if annotation is bool:
            yield f"--no-{option}", ((), None, values)


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the words of a choice; empty for any other type."""
    parts = [annotation] if get_origin(annotation) is Literal else get_args(annotation)
    words = [part for part in parts if part is not NoneType]
    if all(get_origin(word) is Literal for word in words):
        return tuple(str(word) for literal in words for word in get_args(literal))
    return ()
