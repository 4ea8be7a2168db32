"""Pairs of texts, with and without a score, and the user's files that hold them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.evaluation.correlation import FloatArray

Encode: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences -> array `(sentence, dim)`, one row a sentence, in order."""

_HEADER_NAMES = (
    {
        "a",
        "anchor",
        "first",
        "query",
        "question",
        "sentence1",
        "source",
        "summary",
        "text1",
        "title",
    },
    {"answer", "b", "body", "description", "document", "positive", "second", "sentence2", "text2"},
    {"gold", "label", "rating", "relatedness_score", "score", "similarity"},
)
"""A first row of csv or tsv is a header where each cell is one of its column's names."""


@dataclass(frozen=True)
class TextPairs:
    """Texts that belong together: `first[i]` and `second[i]`."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.first)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The pairs in order."""
        return zip(self.first, self.second, strict=True)


@dataclass(frozen=True)
class ScoredPairs(TextPairs):
    """Pairs with a similarity given by people: `gold[i]` belongs to `first[i]`, `second[i]`."""

    gold: FloatArray
    source: str
    """Where the scores come from, as a protocol names it: "SentEval files", a Hub copy, a file."""


def load_pairs(path: Path) -> TextPairs:
    """Read a file of two columns: two texts that belong together.

    The formats are csv (quoted), tsv (tabs, no quoting) and jsonl (arrays of two strings, or
    objects of two fields, taken in the order of the first line). A first row of csv or tsv whose
    cells are common column names (query, document, sentence1, sentence2, ...) is a header.

    Args:
        path: a `.csv`, `.tsv` or `.jsonl` file in UTF-8.

    Raises:
        UserError: naming file and line, for a missing file, another format, bytes that are not
            UTF-8, a wrong number of columns, an empty text, or fewer than two pairs.
    """
    rows = [
        (_text(path, line, first), _text(path, line, second))
        for line, (first, second) in _rows(path, 2, ())
    ]
    _require_two(path, len(rows))
    first, second = zip(*rows, strict=True)
    return TextPairs(path.name, first, second)


def load_scored_pairs(path: Path) -> ScoredPairs:
    """Read a file of three columns: sentence1, sentence2, score.

    The formats are those of `load_pairs`; objects of a jsonl file have the fields `sentence1`,
    `sentence2` and `score`. Scores may have any range: only their order counts.

    Raises:
        UserError: as `load_pairs`, and for a score that is no finite number.
    """
    names = ("sentence1", "sentence2", "score")
    rows = [
        (_text(path, line, first), _text(path, line, second), parse_score(path, line, score))
        for line, (first, second, score) in _rows(path, 3, names)
    ]
    _require_two(path, len(rows))
    first, second, gold = zip(*rows, strict=True)
    return ScoredPairs(path.name, first, second, np.array(gold, dtype=np.float64), "own file")


def read_lines(path: Path, expected: str) -> list[str]:
    r"""Lines of a UTF-8 file, cut at `\n` only, so that line numbers are those of an editor.

    Args:
        path: the file; a byte-order mark is dropped.
        expected: what should be there, for the message.

    Raises:
        UserError: where the file is missing or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); expected {expected}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: the bytes are not UTF-8; expected {expected}") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def parse_score(path: Path, line: int, cell: Any) -> float:
    """A gold score as a finite number.

    Raises:
        UserError: naming file, line and value.
    """
    try:
        score = float(cell)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score) or isinstance(cell, bool):
        raise UserError(f"{path}:{line}: the score {cell!r} is no number; expected one like 3.8")
    return score


def encode_distinct(
    encode: Encode, texts: Iterable[str]
) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Encode each distinct text once, in one call.

    Returns:
        The row of each text, and the embeddings `(distinct text, dim)`.
    """
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    embeddings = np.asarray(encode(list(rows)))
    if embeddings.ndim != 2 or len(embeddings) != len(rows):
        raise ValueError(
            f"encode gave an array of shape {embeddings.shape} for {len(rows)} texts; "
            f"expected ({len(rows)}, dim)"
        )
    return rows, embeddings


def _rows(path: Path, width: int, fields: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
    """Line number and cells of every row that is neither blank nor a header."""
    suffix = path.suffix.lower()
    expected = f"a csv, tsv or jsonl file of {width} columns"
    if suffix not in (".csv", ".tsv", ".jsonl"):
        raise UserError(f"{path}: the ending {suffix!r} is not known; expected {expected}")
    lines = read_lines(path, expected)
    if suffix == ".jsonl":
        rows = _json_rows(path, lines, fields)
    else:
        rows = _table_rows(path, lines, quoted=suffix == ".csv")
    for line, cells in rows:
        if len(cells) != width:
            raise UserError(
                f"{path}:{line}: {len(cells)} columns; expected {width}"
                + (f" ({', '.join(fields)})" if fields else "")
            )
        yield line, cells


def _table_rows(path: Path, lines: list[str], *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    if quoted:
        reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True)
    else:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    start = 1
    try:
        for cells in reader:
            is_header = start == 1 and _is_header(cells)
            if any(cell.strip() for cell in cells) and not is_header:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{start}: not a well-formed table row ({error})") from error


def _is_header(cells: Sequence[str]) -> bool:
    return 1 < len(cells) <= len(_HEADER_NAMES) and all(
        cell.strip().lower() in names for cell, names in zip(cells, _HEADER_NAMES, strict=False)
    )


def _json_rows(
    path: Path, lines: list[str], fields: Sequence[str]
) -> Iterator[tuple[int, list[Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{number}: not JSON ({error.msg})") from error
        if isinstance(row, dict):
            fields = fields or tuple(row)
            missing = [field for field in fields if field not in row]
            if missing:
                raise UserError(
                    f"{path}:{number}: no field {missing[0]!r}; expected {', '.join(fields)}"
                )
            yield number, [row[field] for field in fields]
        elif isinstance(row, list):
            yield number, row
        else:
            raise UserError(f"{path}:{number}: expected a JSON object or array, not {line[:40]!r}")


def _text(path: Path, line: int, cell: Any) -> str:
    if not isinstance(cell, str) or not cell.strip():
        raise UserError(f"{path}:{line}: expected a text, found {cell!r}")
    return " ".join(cell.split())


def _require_two(path: Path, pairs: int) -> None:
    if pairs < 2:
        raise UserError(f"{path}: {pairs} pairs; expected at least two")
