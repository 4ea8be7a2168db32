"""Dataclasses as JSON files: written atomically, read with a check of every field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from isospace.errors import UserError
from isospace.system.files import write_text

T = TypeVar("T")


def to_json(value: object) -> str:
    """A dataclass as JSON text."""
    return TypeAdapter(type(value)).dump_json(value, indent=2).decode()


def write(path: Path, value: object) -> None:
    """Write a dataclass as a JSON file."""
    write_text(path, to_json(value) + "\n")


def read(
    path: Path,
    kind: type[T],
    what: str,
    newest: int,
    upgrade: Callable[[dict[str, Any]], dict[str, Any]],
) -> T:
    """Read a dataclass from a JSON file.

    Args:
        path: the file.
        kind: the dataclass, with a field `format`.
        what: the file's content in words, for messages.
        newest: the format that this version writes.
        upgrade: makes the content of an older format that of the newest.

    Raises:
        UserError: no such file, no JSON, a newer version's format, or a field that is not as
            expected.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError("expected an object")
        if content.get("format", 1) > newest:
            raise UserError(
                f"{path}: a newer isospace wrote these {what} (format {content['format']}, known "
                f"here: up to {newest}); update isospace"
            )
        return TypeAdapter(kind).validate_python(upgrade(content))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        reason = f"{field}: {first['msg']}"
    except KeyError as error:
        reason = f"{error.args[0]} is missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    raise UserError(f"{path}: cannot be read as the {what}: {reason}. The file is damaged")
