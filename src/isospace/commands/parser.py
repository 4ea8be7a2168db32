"""Words of a command line to a command, and help texts.

A command is a dataclass. Its fields, and those of the dataclasses in it, are its options. argparse
finds the words of an option, and pydantic converts them to the type of its field.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import ValidationError

from isospace.commands.options import COMMON, EVERYDAY, as_options
from isospace.errors import UserError, in_words, no_such
from isospace.system.settings import Written, adapter, as_text, default_of, expected

ALL = "--help-all"
HELP = ("-h", "--help", ALL)
"""The words that ask for help."""
_COMMON = "common options"
_LIKE_OPTION = re.compile("--?[a-z]", re.IGNORECASE)
_WITHOUT_VALUE = re.compile("-[a-z]|--[^=]+", re.IGNORECASE)
"""Pattern of an option whose value, if it takes one, is the next word; -oVALUE is another."""
_VALUES = {int: "INT", float: "NUMBER", Path: "PATH"}
"""Type -> name of its values in a help text."""


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        path: names of the fields that lead to the setting, with dots between them.
        kinds: types of its words, with marks for pydantic; an amount has a number and a unit.
        many: true if any number of words may follow.
        text: help.
        default: default value; `MISSING` if a value is required.
        group: title of the group in a help text.
    """

    path: str
    kinds: tuple[Any, ...]
    many: bool
    text: str
    default: Any
    group: str
    written: Written

    @property
    def field(self) -> str:
        """Name of the field."""
        return self.path.rpartition(".")[2]

    @property
    def name(self) -> str:
        """The long name; for words without an option's name, what they stand for."""
        if self.written.positional:
            return self.written.value
        return "--" + (self.written.name or self.field).replace("_", "-")

    @property
    def is_flag(self) -> bool:
        """True if no word follows."""
        return self.kinds == (bool,)

    def read(self, words: Sequence[str]) -> Any:
        """Return the value of the words of an option; an amount is a number and a unit."""
        if self.many:
            return tuple(self._convert(self.kinds[0], word) for word in words)
        if len(self.kinds) == 1:
            return self._convert(self.kinds[0], words[0])
        amount, unit = words
        plural = f"{unit}s"  # 1 minute
        unit = plural if plural in get_args(self.kinds[1]) else unit
        return self._convert(self.kinds[0], amount), self._convert(self.kinds[1], unit)

    def _convert(self, kind: Any, word: str) -> Any:
        union = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if word == "None" and NoneType in get_args(union):
            return None
        try:
            return adapter(kind).validate_strings(word)
        except ValidationError as error:
            wanted = " or ".join(map(expected, error.errors(include_url=False)))
            wanted = wanted.replace("'", "")  # pydantic quotes choices
            raise UserError(f"{self.name} {word or '(empty)'}: expected {wanted}") from None

    def add_to(self, parser: Any) -> None:
        """Add the option to a parser, or to a group of a parser."""
        if self.is_flag:
            for name, value in ((self.name, True), (f"--no-{self.name[2:]}", False)):
                text = argparse.SUPPRESS if value == self.default else self._help
                parser.add_argument(
                    name, dest=self.path, action="store_const", const=value, help=text
                )
            return
        values = (self.written.value,) if self.written.value else map(_value_of_type, self.kinds)
        how: dict[str, Any] = {"help": self._help, "metavar": tuple(values)}
        how |= {"nargs": len(self.kinds)}
        if self.many:
            how |= {"nargs": "*", "action": "extend", "metavar": how["metavar"][0]}
        if self.written.positional:
            parser.add_argument(self.path, **how)
        else:
            names = filter(None, (self.written.short, self.name))
            parser.add_argument(*names, dest=self.path, **how)

    @property
    def _help(self) -> str:
        text = self.text.replace("%", "%%")
        if self.default is MISSING:
            return text if self.many else f"{text} (required)"
        if self.default in (None, (), "") or isinstance(self.default, bool):  # it says nothing
            return text
        return f"{text} (default: {as_text(self.default)})"


def _value_of_type(kind: Any) -> str:
    """Return the name of the values of a type in a help text.

    >>> _value_of_type(int | None), _value_of_type(float | Literal["auto"])
    ('INT', 'NUMBER|{auto}')
    """
    parts = get_args(kind)
    if get_origin(kind) is Annotated:
        return _value_of_type(parts[0])
    if get_origin(kind) is Literal:
        return f"{{{','.join(map(str, parts))}}}"
    if get_origin(kind) in (Union, UnionType):
        return "|".join(_value_of_type(part) for part in parts if part is not NoneType)
    return _VALUES.get(kind, "TEXT")


def options_of(kind: type[Any], base: Any = None) -> list[Option]:
    """Return the options of a dataclass, and of the dataclasses in it.

    The values of `base` are the defaults; `None`: those of the dataclass. An option of `kind`
    itself replaces one of the same name in a dataclass in it.
    """
    common = {one.name for part in COMMON if issubclass(kind, part) for one in fields(part)}
    found = list(_options(kind, base, "", "options", common))
    own = {one.name for one in found if one.path == one.field}
    return [one for one in found if one.path == one.field or one.name not in own]


def _options(
    kind: type[Any], base: Any, path: str, group: str, common: Collection[str] = ()
) -> Iterator[Option]:
    types = get_type_hints(kind, include_extras=True)
    texts: dict[str, str] = {}
    for parent in filter(is_dataclass, reversed(kind.__mro__)):
        texts |= _texts(parent)
    for one in sorted(fields(kind), key=lambda one: bool(one.kw_only)):  # as in the call of Python
        annotation, value, here = types[one.name], _value(one, base), f"{path}{one.name}"
        nested, written = _nested(annotation), _written(annotation)
        if nested is not None:
            title = "main options" if one.name == "config" else f"{one.name} options"
            yield from _options(nested, None if value is MISSING else value, f"{here}.", title)
        elif not written.hidden:
            title = _COMMON if one.name in common else group
            kinds, many = _kinds(annotation)
            yield Option(here, kinds, many, texts.get(one.name, ""), value, title, written)


def _value(one: Field[Any], base: Any) -> Any:
    """Return the value of a field in `base`, or its default; `MISSING` if it is required."""
    return default_of(one) if base is None else getattr(base, one.name)


def _written(annotation: Any) -> Written:
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Written)), Written())


def _nested(annotation: Any) -> type[Any] | None:
    """Return the dataclass of nested settings; `None` for the type of one setting."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    found = isinstance(kind, type) and is_dataclass(kind) and not _written(annotation).hidden
    return kind if found else None


def _kinds(annotation: Any) -> tuple[tuple[Any, ...], bool]:
    """Return the types of an option's words, and true if any number of words may follow."""
    kind = annotation
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    parts = get_args(kind) if get_origin(kind) is tuple else (annotation,)
    return tuple(part for part in parts if part is not ...), ... in parts


@functools.cache
def _texts(kind: type[Any]) -> Mapping[str, str]:
    """Return the help of each field of a dataclass, from the docstrings below the fields."""
    found = docstring_parser.parse_from_object(kind).params
    return {one.arg_name: as_options(" ".join((one.description or "").split())) for one in found}


def parse(kind: type[Any], command: str, words: Sequence[str], default: Any = None) -> Any:
    """Return a command with the options in its words, which are also those of an objective.

    Raises:
        UserError: an option is unknown, or has a wrong value; or a required one is missing.
    """
    options, objective = options_of(kind, default), None
    lists_all = f"isospace {command} {ALL if command in EVERYDAY else '--help'}"
    if _takes_objective(kind):
        place = _place_of_objective(kind, words)
        objective = default.objective
        if place < len(words):
            objective = _objective(words[place], objective)
            lists_all = f"isospace {command} {words[place]} --help"
        words = [*words[:place], *words[place + 1 :]]
        options += _options(type(objective), objective, "objective.", "options")
    try:
        values, unknown = _values(options, words)
    except UserError as error:
        raise UserError(f"{error}. `{lists_all}` lists the options") from None
    if unknown:
        raise UserError(_unknown(unknown[0], options, lists_all, objective is not None))
    if objective is not None:
        values["objective"] = _made(type(objective), objective, values, "objective.")
    return _made(kind, default, values)


def _values(options: Sequence[Option], words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return path -> value of the options that words set, and the words that no option takes."""
    parser = argparse.ArgumentParser(
        argument_default=argparse.SUPPRESS, add_help=False, allow_abbrev=False, exit_on_error=False
    )
    for option in options:
        if not option.written.positional:
            option.add_to(parser)
    amounts = {one.name: as_text(one.default) for one in options if len(one.kinds) == 2}
    words = list(_with_split_amounts(words, amounts))
    end = words.index("--") if "--" in words else len(words)
    try:
        found, left = parser.parse_known_args(words[:end])
    except argparse.ArgumentError as error:
        raise UserError(_wrong(error, amounts)) from None
    if unknown := list(filter(_LIKE_OPTION.match, left)):
        return {}, unknown
    left += words[end + 1 :]
    values = vars(found)
    for option in options:
        if option.written.positional and (left or option.many):
            count = len(left) if option.many else 1
            if count or option.default is MISSING:
                values[option.path] = left[:count]
            del left[:count]
        if option.path in values and not option.is_flag:
            values[option.path] = option.read(values[option.path])
    missing = [one.name for one in options if one.default is MISSING and one.path not in values]
    if missing:
        raise UserError(f"{in_words(missing, 'and')}: missing")
    return values, left


def _wrong(error: argparse.ArgumentError, amounts: Mapping[str, str]) -> str:
    """Return the message for an option with too few words; `amounts`: option -> example."""
    name = (error.argument_name or "").rpartition("/")[2]
    if name in amounts:
        return f"{name}: expected a number and a unit, such as {amounts[name]}"
    return f"{name}: {error.message}"


def _with_split_amounts(words: Sequence[str], amounts: Container[str]) -> Iterator[str]:
    """Give the words, and an amount that is one word as two, as in `--budget '6 minutes'`."""
    for before, word in pairwise(["", *words]):
        name, equals, value = word.partition("=")
        if equals and name in amounts:
            yield from (name, *value.split())
        elif before in amounts:
            yield from word.split()
        else:
            yield word


def _place_of_objective(kind: type[Any], words: Sequence[str]) -> int:
    """Return the place of an objective's name in the words, or their number if there is none."""
    from isospace.objectives import OBJECTIVES  # imports torch

    flags = {one.name for one in options_of(kind) if one.is_flag}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        flag = before.replace("--no-", "--") in flags
        if word in OBJECTIVES and (flag or not _WITHOUT_VALUE.fullmatch(before)):
            return place
    return len(words)


def _takes_objective(kind: type[Any]) -> bool:
    return any(one.name == "objective" for one in fields(kind))


def _objective(name: str, usual: Any) -> Any:
    """Return the usual objective, if it has this name, or else one with its own defaults."""
    from isospace.objectives import OBJECTIVES

    return usual if type(usual) is OBJECTIVES[name] else OBJECTIVES[name]()


def _made(kind: type[Any], base: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """Make a dataclass of the values of options, and of the other values of `base`."""
    types = get_type_hints(kind, include_extras=True)
    found = {}
    for one in fields(kind):
        here, value = f"{path}{one.name}", _value(one, base)
        if here in values:
            value = values[here]
        elif (nested := _nested(types[one.name])) is not None:
            value = _made(nested, None if value is MISSING else value, values, f"{here}.")
        found[one.name] = value
    return kind(**found)


def _unknown(word: str, options: Sequence[Option], lists_all: str, takes_objective: bool) -> str:
    """Return the message for a word that no option takes."""
    from isospace.objectives import OBJECTIVES

    if takes_objective and word in OBJECTIVES:
        return f"{word}: a training has one objective. `isospace compare` trains with several"
    if takes_objective and not word.startswith("-"):
        return no_such("objective", word, OBJECTIVES)
    option = word.partition("=")[0]
    if option in {f"--{one.field}" for one in options if one.written.positional}:
        return f"{option}: write its value alone, without the option's name"
    what = "option" if option.startswith("-") else "argument"
    return no_such(what, option, [one.name for one in options], lists_all)


def recipes_in(words: Sequence[str]) -> list[list[str]]:
    """Return the words after each --recipe, without a check of the other words of a command."""
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--recipe", nargs="*", action="append", default=[])
    found: list[list[str]] = scan.parse_known_args(words)[0].recipe
    return found


def help_text(
    kind: type[Any], command: str, summary: str, words: Sequence[str], base: Any = None
) -> str:
    """Return the help of a command: its everyday options, or all of them.

    `summary` describes the command, and `words` follow it. The values of `base` are the defaults;
    `None`: those of the dataclass.
    """
    everyday, options = EVERYDAY.get(command), options_of(kind, base)
    program, parts = f"isospace {command}", [summary]
    asked = [word for word in words if word not in HELP] if _takes_objective(kind) else []
    place = _place_of_objective(kind, asked)
    if place < len(asked):
        name = asked[place]
        objective = _objective(name, None if base is None else base.objective)
        options, program = options_of(type(objective), objective), f"{program} {name}"
        parts = [(inspect.getdoc(objective) or "").partition("\n")[0]]
    elif everyday is not None:
        parts.append("\n".join(f"  {example}" for example in everyday.examples))
        if ALL not in words:
            first = {one.field: one for one in reversed(options)}
            options = [replace(first[one], group="options") for one in everyday.options.split()]
            parts.append(f"All options: {program} {ALL}")
        if command == "train":
            parts.append(
                "Objectives: isospace objectives; options of one: isospace train OBJECTIVE --help"
            )
    named = []
    for one in options:
        if one.written.positional:
            words_of = f"{one.name}{' ...' * one.many}"
            named.append(f" {words_of}" if one.default is MISSING else f" [{words_of}]")
    parser = argparse.ArgumentParser(
        program,
        f"{program} [OPTIONS]{''.join(named)}",
        "\n\n".join(parts),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    groups: dict[str, Any] = {}
    for one in sorted(options, key=lambda one: one.group == _COMMON):
        title = "arguments" if one.written.positional else one.group
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        one.add_to(groups[title])
    return parser.format_help()
