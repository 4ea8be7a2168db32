"""Dataclasses as JSON files: written atomically, read with a check of every field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from isospace.errors import UserError
from isospace.system.files import write_text
from isospace.system.settings import adapter, to_dict

T = TypeVar("T")


def to_json(value: object) -> str:
    """Return a dataclass, or values of JSON's types, as JSON text; NaN and infinities are null."""
    kind: Any = type(value)
    try:
        return adapter(kind).dump_json(value, indent=2).decode()
    except PydanticSerializationError:  # half a surrogate pair, which JSON can escape
        return json.dumps(to_dict(value), indent=2)


def write(path: Path, value: object) -> None:
    """Write a dataclass as a JSON file."""
    write_text(path, json.dumps(to_dict(value), indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; refuse one that is unreadable or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged (not valid JSON: {error})") from error


def read(path: Path, kind: type[T], what: str) -> T:
    """Read a dataclass from a JSON file; `what` describes its content, for messages.

    A file must have the format number that is the default of the field `format`; 1 by default.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError("expected an object")
        found, known = content.get("format", 1), getattr(kind, "format", 1)
        if found != known:
            raise UserError(
                f"{path}: another version of isospace wrote these {what} (format {found}, this "
                f"version reads {known}). Use that version, or make them again with this one"
            )
        anything: Any = kind
        return adapter(anything).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = str(error)
    raise UserError(f"{path}: cannot be read as the {what}: {reason}. The file is damaged")
