"""Settings on the command line: the setting `its_field` is the option --its-field.

The help of a command: the everyday options with examples, or all options in groups.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from functools import partial
from io import StringIO
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError, in_words, no_such

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


COMMON = (PrintsJson, LoadsModels, EncoderSettings, CallsEndpoints)
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
Models = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")]
"""Models of a command, without an option's name."""


def parse(kind: type[Any], command: str, words: Sequence[str], default: Any = None) -> Any:
    """Return a command with the options in its words.

    Raises:
        UserError: tyro refuses the words. Its message, which fills a box, becomes one line.
    """
    refusal = StringIO()
    try:
        with redirect_stderr(refusal), _wide_terminal():
            parsed, unknown = tyro.cli(
                kind,
                prog=f"isospace {command}",
                args=_join_amounts(words),
                default=default,
                config=MARKERS,
                return_unknown_args=True,
            )
    except SystemExit as end:
        if not end.code:  # tyro has printed a completion for a shell
            raise
        # Before an unknown option, tyro may miss a value, and does not name the option.
        known = _known_options(kind, words)
        for word in words:
            if word.startswith("--") and _option_in(word).replace("--no-", "--") not in known:
                raise UserError(_unknown(kind, command, words, word)) from None
        reason = _in_plain_words(_reason(refusal.getvalue()), kind, words)
        raise UserError(f"{reason}. `isospace {command} --help` lists the options") from None
    if unknown:
        raise UserError(_unknown(kind, command, words, unknown[0]))
    return parsed


@contextmanager
def _wide_terminal() -> Iterator[None]:
    """Keep tyro from folding its messages, which would also break words such as paths."""
    given = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000000"
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if given is not None:
            os.environ["COLUMNS"] = given


_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def _reason(box: str) -> str:
    """Return the first part of a tyro box below its title as one line.

    A terminal may show the box in colour. One without box characters has a line of hyphens below
    the title too. A missing argument has a line of its own, and its help text, which is left out,
    is indented further.
    """
    found: list[str] = []
    for line in _COLOUR.sub("", box).splitlines()[1:]:
        line = line.strip("│").rstrip()
        drawn = re.fullmatch("[─╰╯-]{5,}", line.strip())
        if drawn and found:
            break
        if not (drawn or line.startswith(" " * 9)):
            found.append(f"{line.strip()};" if line.startswith(" " * 5) else line.strip())
    return " ".join(found).rstrip(".;")


_REFUSALS = (
    re.compile(r"Missing value for argument '(?P<option>.*)'"),
    re.compile(r"invalid choice '(?P<value>.*)' for argument '(?P<option>.*)'\. Expected"),
    re.compile(
        r"Error parsing (?P<option>\S+): no type matching (?P<type>\S+) .*\['(?P<value>.*?)'\]\."
    ),
    re.compile(r"Error parsing (?P<option>\S+): .*\b(?P<type>int|float)\b.*: '(?P<value>.*)'"),
)
"""Patterns of refusals by tyro that are not plain."""
_TYPES = {"int": "a whole number", "float": "a number"}


def _in_plain_words(reason: str, kind: type[Any], words: Sequence[str]) -> str:
    """Return a refusal by tyro as the option, the value, and the expected value."""
    from isospace.objectives import OBJECTIVES  # imports torch

    found = next(filter(None, (pattern.match(reason) for pattern in _REFUSALS)), None)
    if found is None:
        return reason
    parts = found.groupdict()
    option, *_ = names = parts["option"].split("/")  # such as -k/--k
    if "value" not in parts:
        return f"{option.removeprefix('config.')}: its value is missing"
    if "type" in parts:
        types = [one.strip("{}") for one in parts["type"].split("|") if one != "{None}"]
        expected = [_TYPES.get(one.lower(), one) for one in types]
    else:  # tyro lists them in an order that changes, with None
        kinds = (kind, *(OBJECTIVES[word] for word in words if word in OBJECTIVES))
        options = dict(pair for one in kinds for pair in _options(one))
        expected = list(_choices(options.get(names[-1])))
    return f"{option} {parts['value']}: expected {in_words(expected, 'or')}" if expected else reason


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the words of a choice."""
    for part in get_args(annotation):
        if get_origin(annotation) is Literal:
            yield str(part)
        else:
            yield from _choices(part)


def _join_amounts(words: Sequence[str]) -> list[str]:
    """Make one word of an amount and its unit: a user may type both without quotes."""
    found: list[str] = []
    for word in words:
        if word.startswith("--budget="):
            found += word.split("=", 1)
        elif re.fullmatch(r"--budget [^-]\S* [^-]\S*", " ".join([*found[-2:], word])):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _unknown(kind: type[Any], command: str, words: Sequence[str], word: str) -> str:
    """Return the message for a word that no option takes."""
    from isospace.objectives import OBJECTIVES  # imports torch

    option, known = _option_in(word), _known_options(kind, words)
    if _takes_objective(kind) and not word.startswith("-"):
        return no_such("objective", word, OBJECTIVES)
    if option in known:
        return f"{option}: write {known[option]}"
    what = "option" if option.startswith("-") else "argument"
    return no_such(what, option, known, f"isospace {command} --help")


def _option_in(word: str) -> str:
    """Return the option in a word such as --batch_size=8.

    >>> _option_in("--batch_size=8")
    '--batch-size'
    """
    return word.partition("=")[0].replace("_", "-")


def _known_options(kind: type[Any], words: Sequence[str]) -> dict[str, str]:
    """Return the options of a command, and how to write each.

    Options of a command with objectives are before the objective's name, its own are after it.
    """
    from isospace.objectives import OBJECTIVES  # imports torch

    alone = "its value alone, without the option's name"
    before, after = (f"it {where} the objective's name" for where in ("before", "after"))
    known: dict[str, str] = {}
    for option, annotation in _options(kind):
        named = tyro.conf.Positional not in getattr(annotation, "__metadata__", ())
        if named or option not in known:  # a command's texts may have an option too
            known[option] = before if named else alone
    if _takes_objective(kind):
        for name in set(words) & set(OBJECTIVES) or OBJECTIVES:
            known |= dict.fromkeys(dict(_options(OBJECTIVES[name])), after)
    return known


def _takes_objective(kind: type[Any]) -> bool:
    return any(one.name == "objective" for one in fields(kind))


def _options(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options of a dataclass, and of the dataclasses in it but objectives, with types."""
    types = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        if one.name == "objective":
            continue
        notes = getattr(types[one.name], "__metadata__", ())
        name = next(filter(None, (getattr(note, "name", None) for note in notes)), one.name)
        yield "--" + name.replace("_", "-"), types[one.name]
        for part in _dataclasses(types[one.name]):
            yield from _options(part)


def recipes_in(words: Sequence[str]) -> list[str]:
    """Return the recipes that the words of a command name, without a check of the other words."""
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--recipe", nargs="*", default=[])
    found: list[str] = scan.parse_known_args(words)[0].recipe
    return found


ALL = "--help-all"
HELP = ("-h", "--help", ALL)
"""The words that ask for help."""


@dataclass(frozen=True)
class Everyday:
    """Everyday part of a command with many options: the examples and options that --help shows."""

    examples: tuple[str, ...]
    options: str


EVERYDAY = {
    "adapt": Everyday(
        ("isospace adapt docs/", "isospace adapt docs/ --budget 30 minutes --output runs/docs"),
        "corpus model models budget max_drop other_text queries queries_only pairs columns output "
        "resume json",
    ),
    "ask": Everyday(
        (
            "isospace ask docs/ --llm 'http://localhost:11434/v1#NAME' -o queries.jsonl",
            "isospace adapt docs/ --queries queries.jsonl",
        ),
        "corpus llm count model like output api_key_env yes json",
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

_TITLES = {"config": "main", "text": "text", "reading": "reading", "whitening": "whitening"}
"""Field with nested settings -> title of their group."""


def show_help(kind: type[Any], command: str, summary: str, words: Sequence[str], base: Any) -> None:
    """Print the help of a command, a dataclass, and end the process.

    `summary` describes the command, and `words` follow it. The values of `base` are the defaults;
    `None`: those of the dataclass.
    """
    from isospace.objectives import OBJECTIVES  # imports torch, but not for a help text

    everyday = EVERYDAY.get(command)
    asked = [word for word in words if word not in HELP]
    description = [summary]
    if everyday is not None:
        description.append("\n".join(f"  {example}" for example in everyday.examples))
    of_objective = command == "train" and not set(words).isdisjoint(OBJECTIVES)
    common = {one.name for part in COMMON if issubclass(kind, part) for one in fields(part)}
    found = list(_fields(kind, base, common=common))
    if everyday is None or ALL in words or of_objective:
        found.sort(key=lambda one: one.group == "common")
        shown = _grouped(kind.__name__, found)
    else:
        asked = []
        first = {one.name: one for one in reversed(found)}
        shown = _dataclass(kind.__name__, [first[name] for name in everyday.options.split()])
        description.append(f"All options: isospace {command} {ALL}")
        if command == "train":
            description.append(
                "Objectives: isospace objectives; options of one: isospace train OBJECTIVE --help"
            )
    tyro.cli(
        shown,
        prog=f"isospace {command}",
        description="\n\n".join(description),
        args=[*asked, "--help"],
        config=(*MARKERS, tyro.conf.FlagCreatePairsOff),
    )


class _Field(NamedTuple):
    """A field of a help text."""

    group: str
    name: str
    annotation: Any
    field: Any


def _fields(
    kind: type[Any], base: Any, group: str = "", common: Collection[str] = ()
) -> Iterator[_Field]:
    types = get_type_hints(kind, include_extras=True)
    for one in sorted(fields(kind), key=lambda one: bool(one.kw_only)):  # as in the call of Python
        if base is not None:
            value = getattr(base, one.name)
        else:
            value = one.default if one.default_factory is MISSING else one.default_factory()
        annotation = types[one.name]
        if one.name in _TITLES and value is MISSING:
            yield from _fields(annotation, None, _TITLES[one.name])
            continue
        if one.name in _TITLES and is_dataclass(value):
            yield from _fields(type(value), value, _TITLES[one.name])
            continue
        if value is None or value == () or isinstance(value, bool):  # such a default says nothing
            annotation = Annotated[annotation, tyro.conf.arg(help_behavior_hint="")]
        shown: Any = field(metadata=one.metadata)
        if value is not MISSING:
            # A default factory works for mutable values too.
            shown = field(default_factory=partial(_same, value), metadata=one.metadata)
        yield _Field("common" if one.name in common else group, one.name, annotation, shown)


def _same(value: Any) -> Any:
    return value


def _dataclass(name: str, found: Sequence[_Field]) -> type[Any]:
    return make_dataclass(
        name, [(one.name, one.annotation, one.field) for one in found], kw_only=True
    )


def _grouped(name: str, found: Sequence[_Field]) -> type[Any]:
    """Return a dataclass with a dataclass for each group of fields."""
    parts = []
    for title in dict.fromkeys(one.group for one in found if one.group):
        part = _dataclass(title, [one for one in found if one.group == title])
        part.__doc__ = ""
        parts.append(_Field("", title, part, field(default_factory=part)))
    return _dataclass(name, [*(one for one in found if not one.group), *parts])
