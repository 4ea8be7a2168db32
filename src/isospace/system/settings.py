"""Dataclasses of settings whose values are checked when they are made.

pydantic checks the values; its errors become a UserError that names the field. Values are not
converted, except a whole number to a float: true is not a number, "3" is text, and numbers are
finite. A tuple marked `Strict(False)` may be given as a list, as in JSON.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args

import pydantic
from pydantic import BeforeValidator, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from typing_extensions import dataclass_transform

from isospace.errors import UserError, did_you_mean, in_words

T = TypeVar("T")

DropoutRate = Annotated[float, pydantic.Field(ge=0, lt=1)]
_BEFORE_HOME = re.compile(r"(?:[a-z]+:)*(?=~)")  # docstrings:~/src


def with_home(value: Any) -> Any:
    """Replace ~ by the home folder in a path or a name; return any other value as it is.

    >>> with_home("notes~"), with_home("docstrings:~/src") == f"docstrings:{Path.home()}/src"
    ('notes~', True)
    """
    if isinstance(value, Path):
        return Path(os.path.expanduser(value))
    if isinstance(value, str) and (before := _BEFORE_HOME.match(value)):
        return before[0] + os.path.expanduser(value[before.end() :])
    return value


def _as_text(value: Any) -> Any:
    return with_home(str(value) if isinstance(value, os.PathLike) else value)


def _path(value: Any) -> Any:
    if value == "":  # as a Path it would be the current folder
        raise PydanticCustomError("path_type", "a path")
    return with_home(value)


PathOrText = Annotated[Path, BeforeValidator(_path), Strict(False)]
"""A path, which Python users may also write as text; an empty text is refused."""
NameOrPath = Annotated[str, BeforeValidator(_as_text)]
"""Text that names something, or a path to it, kept as text."""


@dataclass(frozen=True)
class Written:
    """Mark in a setting's annotation: how the command line writes it, if not `--its-name VALUE`.

    `value` stands for the value in a help text, `name` is another name of the option, and `short` a
    second one, such as -o. A positional setting has no option's name, and a hidden one no option.
    """

    value: str = ""
    positional: bool = False
    name: str = ""
    short: str = ""
    hidden: bool = False


_CONFIG = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 4,300 digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "tuple_type": "a tuple (in JSON a list)",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "dataclass_exact_type": "a {class_name}",
}
"""Pydantic's name of an error -> the expected value, for messages."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[T]) -> type[T]:
    """Make the class a frozen dataclass that refuses values that its annotations do not allow.

    Checks of several fields together belong into `__post_init__`.
    """
    checked = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(cls)
    validate = checked.__init__

    @functools.wraps(validate)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            validate(self, *args, **kwargs)
        except ValidationError as error:
            raise UserError(_message(checked, error)) from None

    checked.__init__ = __init__  # type: ignore[method-assign]
    return cast(type[T], checked)


def refuse_idle(values: Any, needed: str, *names: str) -> None:
    """Refuse settings that differ from their defaults and have no effect without another setting.

    `needed` is the other setting with its value, such as "`whitening` zca".
    """
    for one in fields(values):
        value = getattr(values, one.name)
        if one.name in names and value != default_of(one):
            raise UserError(
                f"`{one.name}` {as_text(value)}: has no effect without {needed}. Leave it out, or "
                f"set {needed}"
            )


def default_of(one: Field[Any]) -> Any:
    """Return the default of a field; `MISSING` if it has none."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def as_text(value: Any) -> str:
    """Return a value of a setting as text for the command line.

    >>> as_text(0.10), as_text(True), as_text((8, 4)), as_text("mlp")
    ('0.1', 'true', '8 4', 'mlp')
    """
    if isinstance(value, tuple):
        return " ".join(map(as_text, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_dict(value: Any) -> dict[str, Any]:
    """Return settings in JSON's types; `kind(**to_dict(value)) == value` for their class `kind`."""
    kind: Any = type(value)
    return adapter(kind).dump_python(value, mode="json")


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type, made once: making one takes 100 times a reading."""
    return TypeAdapter(kind)


def _message(kind: Any, error: ValidationError) -> str:
    """Return the message for invalid values: each field, its value, and the expected value.

    An error's `loc` begins with the field's name or position. A union has an error for each member.
    """
    known: dict[str, FieldInfo] = kind.__pydantic_fields__
    refused: dict[str, list[str]] = {}
    unknown: list[str] = []
    for problem in error.errors(include_url=False):
        name = problem["loc"][0]
        if isinstance(name, int):
            name = [key for key, one in known.items() if not one.kw_only][name]
        if name not in known:
            unknown.append(str(name))
            continue
        words = f"expected {expected(problem)}"
        if problem["type"].endswith("_type") and NoneType in get_args(known[name].annotation):
            words += " or None (in JSON null)"
        refused.setdefault(f"`{name}` {problem['input']!r}", []).append(words)
    if unknown:
        meant = did_you_mean(unknown[0], known) if len(unknown) == 1 else ""
        meant = meant or f"The settings are {', '.join(known)}"
        names = in_words([f"`{name}`" for name in unknown], "and")
        refused[names] = [f"no such setting{'s' * (len(unknown) > 1)}. {meant}"]
    message = "; ".join(f"{where}: {' or '.join(words)}" for where, words in refused.items())
    return message.replace(" or expected ", " or ")


def expected(problem: Any) -> str:
    """Return the value that pydantic expected instead of the one of an error, in words."""
    limits = {limit: _short(value) for limit, value in problem.get("ctx", {}).items()}
    words: str = _EXPECTED.get(problem["type"], problem["msg"])
    return words.format(**limits)


def _short(limit: Any) -> Any:
    """Return a whole float as an int, so that messages have 0 and not 0.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit
