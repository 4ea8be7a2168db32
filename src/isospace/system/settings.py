"""The one validator: dataclasses of settings whose values are checked when they are made.

A field's annotation says what it may hold: `PositiveFloat`, `Literal["a", "b"]`, `Annotated[int,
Field(ge=2)]`. Nothing is converted, except that a whole number is a number too: a truth value is no
number, "3" is text, and numbers are finite. A tuple that is marked `Strict(False)` may be given as
a list, as JSON has it. pydantic does the checking; what it refuses becomes a UserError that names
the field.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args

import pydantic
from pydantic import BeforeValidator, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import dataclass_transform

from isospace.errors import UserError, did_you_mean

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


PathOrText = Annotated[Path, BeforeValidator(with_home), Strict(False)]
"""A path, which Python users may also write as text."""
NameOrPath = Annotated[str, BeforeValidator(_as_text)]
"""Text that names something, or a path to it, kept as text."""

_CONFIG = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
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
"""What is expected instead, by pydantic's name of the error."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[T]) -> type[T]:
    """Make the class a frozen dataclass that refuses values which its annotations do not allow.

    What is refused, also by `dataclasses.replace`, is a UserError that names the field in
    backticks. Checks of several fields together go into `__post_init__`.
    """
    checked = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(cls)
    validate = checked.__init__

    @functools.wraps(validate)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            validate(self, *args, **kwargs)
        except ValidationError as error:
            raise UserError(_in_words(checked, error)) from None

    checked.__init__ = __init__  # type: ignore[method-assign]
    return cast(type[T], checked)


def refuse_idle(values: Any, needed: str, *names: str) -> None:
    """Refuse settings that have no effect as long as another one is not as `needed`.

    A setting that has its default is allowed. `needed` is the other setting as it would have to be,
    such as "`whitening` zca".

    Raises:
        UserError: naming the first setting.
    """
    for one in fields(values):
        value = getattr(values, one.name)
        if one.name in names and value != _default(one):
            raise UserError(
                f"`{one.name}` {as_text(value)}: has no effect without {needed}. Leave it out, or "
                f"set {needed}"
            )


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def as_text(value: Any) -> str:
    """Return a value of a setting as the command line writes it.

    >>> as_text(0.10), as_text(True), as_text((8, 4)), as_text("mlp")
    ('0.1', 'true', '8 4', 'mlp')
    """
    if isinstance(value, tuple):
        return " ".join(map(as_text, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_dict(value: Any) -> dict[str, Any]:
    """Settings in JSON's own types: for `kind` of settings, `kind(**to_dict(value)) == value`."""
    kind: Any = type(value)
    values: dict[str, Any] = adapter(kind).dump_python(value, mode="json")
    return values


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for a kind: the making takes a hundred times as long as a reading."""
    return TypeAdapter(kind)


def _in_words(kind: Any, error: ValidationError) -> str:
    """Every refused field with its value and what was expected.

    The place of an error begins with the field's name, or its position among the arguments. In a
    union there is an error for each member that was tried.
    """
    known: dict[str, FieldInfo] = kind.__pydantic_fields__
    refused: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        name = problem["loc"][0]
        if isinstance(name, int):
            name = list(known)[name]
        if name not in known:
            meant = did_you_mean(str(name), known) or f"The settings are {', '.join(known)}"
            refused[f"`{name}`"] = [f"no such setting. {meant}"]
            continue
        limits = {limit: _short(value) for limit, value in problem.get("ctx", {}).items()}
        words = "expected " + _EXPECTED.get(problem["type"], problem["msg"]).format(**limits)
        if problem["type"].endswith("_type") and NoneType in get_args(known[name].annotation):
            words += " or None (in JSON null)"
        refused.setdefault(f"`{name}` {problem['input']!r}", []).append(words)
    return "; ".join(f"{where}: {' or '.join(words)}" for where, words in refused.items())


def _short(limit: Any) -> Any:
    """0 and not 0.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit
