"""Whether anything became slower than docs/results/speed.md says.

    python benchmarks/guard.py CORPUS STS_FOLDER [--parts train pairs encode operators ...]

Measures the parts anew, writes nothing, and compares ratios with the committed ones. A row is
slower where its whole interval over the rounds lies below the committed whole, twice in a row.
Exits with 1 then.
Ratios of a machine that has bf16 say nothing of one that has not: such a pair is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contest import machine
from speed import PARTS, RESULTS

RATIO = re.compile(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)")
GUARDED = ("train", "pairs", "layers", "encode", "operators")
"""Parts of several rounds: those of one have no interval."""


def main() -> int:
    """Measure, compare, and say what is slower."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("sts", type=Path)
    record = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))
    parts = [part for part in GUARDED if part in record]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    found = []
    for part in options.parts:
        committed, here = record[part]["machine"], machine()
        if _has_bf16(committed) != _has_bf16(here):
            parser.error(f"{part}: the page was made on {committed}; this is {here}")
        lines = slower(record[part]["tables"], PARTS[part](options))
        if lines:  # by chance, perhaps: rounds that follow each other share a moment
            again = slower(record[part]["tables"], PARTS[part](options))
            rows = {_row(line) for line in lines}
            found += [line for line in again if _row(line) in rows]
    for line in found:
        print(line)
    print(f"{len(found)} rows are slower than in docs/results/speed.md, beyond their rounds' noise")
    return int(bool(found))


def slower(committed: Sequence[dict[str, Any]], measured: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of tables whose ratio fell below everything that the committed rounds saw.

    Args:
        committed: tables of a part, as in speed.json.
        measured: the same tables, measured anew.

    Returns:
        A line each; a committed row that is missing or failed is one too.
    """
    now = dict(_ratios(measured))
    lines = []
    for row, (ratio, low, high) in _ratios(committed):
        if row not in now:
            lines.append(f"{row}: has no ratio any more ({ratio:g} before)")
        elif now[row][2] < low:
            new = "{:g} ({:g} to {:g})".format(*now[row])
            lines.append(f"{row}: {new}, before {ratio:g} ({low:g} to {high:g})")
    return lines


def _row(line: str) -> str:
    """The row that a line of `slower` is about."""
    return line.rpartition(": ")[0]


def _ratios(tables: Sequence[dict[str, Any]]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The name of a row, and its ratio with lowest and highest."""
    for table in tables:
        named = _named(table["columns"])
        for row in table["rows"]:
            name = " x ".join(row[:named])
            for found in filter(None, map(RATIO.fullmatch, row)):
                yield f"{table['title']}, {name}", tuple(map(float, found.groups()))


def _named(columns: Sequence[str]) -> int:
    """How many columns say what a row is of: those before the first that was measured."""
    return next(i for i, name in enumerate(columns) if i and ("second" in name or "ms" in name))


def _has_bf16(described: str) -> bool:
    return "with AVX512-BF16" in described


if __name__ == "__main__":
    sys.exit(main())
