"""Forms of stored vectors; light, because `--help` imports it."""

from __future__ import annotations

from typing import Literal

Numbers = Literal["float32", "float16", "int8", "binary"]
"""Type of the numbers of a stored vector."""

FormName = Literal[Numbers, "binary-rescored"]
"""How an index stores vectors. binary-rescored has bits, which find `RESCORED` passages, and int8
numbers, which rank these."""

FULL: FormName = "float32"
"""The form without loss, which the other forms are compared with."""

RESCORED = 40
"""Number of first passages by bits that are compared again by int8 numbers."""

_BYTES: dict[FormName, tuple[int, int]] = {
    "float32": (4, 0),
    "float16": (2, 0),
    "int8": (1, 0),
    "binary": (0, 1),
    "binary-rescored": (1, 1),
}
"""Form -> bytes for each number, and bits for each number."""

FORMS = tuple(_BYTES)
"""All forms, float32 first."""


def numbers_of(form: FormName) -> Numbers:
    """Return the type of the numbers that rank passages."""
    return "int8" if form == "binary-rescored" else form


def bytes_of(form: FormName, width: int) -> int:
    """Return the number of bytes for a vector of this width.

    >>> [bytes_of(form, 384) for form in FORMS]
    [1536, 768, 384, 48, 432]
    """
    numbers, bits = _BYTES[form]
    return numbers * width + -(-bits * width // 8)


def has_floats(form: FormName) -> bool:
    """Return true if the stored numbers are floats, which any vector index can search."""
    return form in ("float32", "float16")
