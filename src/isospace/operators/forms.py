"""Table of the forms of compressed vectors; light, because `--help` imports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Numbers = Literal["float32", "float16", "int8", "binary"]

FormName = Literal[
    "float32", "float16", "int8", "binary", "binary-both", "binary-rescored",
    "pca-256", "pca-128", "pca-64", "pca-256-int8", "pca-128-int8", "pca-64-int8",
]  # fmt: skip

RESCORED = 40
"""Number of first passages by bits that are compared again by int8 numbers."""


@dataclass(frozen=True)
class Form:
    """One way to store vectors.

    Attributes:
        numbers: type of the stored numbers.
        dim: number of principal components to keep; `None`: vectors keep their dimensions.
        bits: true if queries are compared by bits. If the numbers are not binary, bits only find
            the `RESCORED` passages that the numbers then rank, and are stored too.
    """

    numbers: Numbers
    dim: int | None = None
    bits: bool = False

    @property
    def rescored(self) -> bool:
        """True if numbers rank the passages that bits have found."""
        return self.bits and self.numbers != "binary"

    @property
    def fewest(self) -> int:
        """Least number of texts to fit the form on; 0 if nothing is fitted."""
        if self.dim is not None:
            return self.dim + 1
        return 2 if self.numbers == "int8" else 0

    @property
    def floats(self) -> bool:
        """True if the stored numbers are floats, which any vector index can search."""
        return self.numbers in ("float32", "float16")

    def bytes_of(self, width: int) -> int:
        """Return the number of bytes for a vector of this width in this form."""
        dim = self.dim or width
        size = {"float32": 4 * dim, "float16": 2 * dim, "int8": dim, "binary": -(-dim // 8)}
        return size[self.numbers] + (size["binary"] if self.rescored else 0)


FORMS: dict[FormName, Form] = {
    "float32": Form("float32"),
    "float16": Form("float16"),
    "int8": Form("int8"),
    "binary": Form("binary"),
    "binary-both": Form("binary", bits=True),
    "binary-rescored": Form("int8", bits=True),
    "pca-256": Form("float32", 256),
    "pca-128": Form("float32", 128),
    "pca-64": Form("float32", 64),
    "pca-256-int8": Form("int8", 256),
    "pca-128-int8": Form("int8", 128),
    "pca-64-int8": Form("int8", 64),
}
"""Name -> form. The form `binary` compares bits of passages with the numbers of a query."""
FULL: FormName = "float32"
"""The form without loss, which the other forms are compared with."""

FITTED_ON = 3_000
"""Largest number of texts that a form is fitted on."""


def form_named(name: str) -> FormName | None:
    """Return the name of a form if it is one; `None` for other words, such as a path."""
    return next((known for known in FORMS if known == name), None)


def forms_for(width: int, texts: int) -> list[FormName]:
    """Return the forms that suit vectors of this width and this number of texts to fit on."""
    return [
        name
        for name, form in FORMS.items()
        if (form.dim is None or form.dim < width) and texts >= form.fewest
    ]


def require_fit(name: FormName, width: int, texts: int) -> None:
    """Raise an error if a form does not suit this width or this number of texts to fit on.

    Raises:
        ValueError: the vectors are too narrow, or the texts too few.
    """
    form = FORMS[name]
    if form.dim is not None and form.dim >= width:
        raise ValueError(f"{name}: the vectors have {width} dimensions already")
    if texts < form.fewest:
        raise ValueError(f"{name}: needs {form.fewest:,} texts or more to fit on; got {texts:,}")
