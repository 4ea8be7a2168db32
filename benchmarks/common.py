"""What several benchmarks share: sentences, STS-B dev as a file, and pages with drawn parts."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

from isospace.evaluation.sts import load_sts
from isospace.statistics.gains import Gain
from isospace.system.files import write_text

BATCH, LENGTH = 64, 32
"""The papers': sentences, and tokens of each."""


def lines(corpus: Path, count: int) -> list[str]:
    """The first lines of a text file."""
    opener = gzip.open if corpus.suffix == ".gz" else open
    with opener(corpus, "rt", encoding="utf-8") as file:
        return [line.strip() for line, _ in zip(file, range(count), strict=False)]


def write_dev_file(sts: Path, path: Path) -> None:
    """STS-B dev alone: a run that is given the whole folder also scores the test sets each time."""
    dev = load_sts(sts)["STSBenchmark"].subsets["dev"]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(zip(dev.first, dev.second, dev.gold, strict=True))


def draw(path: Path, parts: Mapping[str, str]) -> None:
    """Put texts between their markers in a page; the rest of the page does not change."""
    page = path.read_text(encoding="utf-8") if path.is_file() else ""
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->\n"
        if begin not in page:
            page += begin + end
        before, rest = page.split(begin)
        page = before + begin + f"{text.rstrip()}\n" + end + rest.split(end)[1]
    write_text(path, page)


def points(found: Gain) -> list[float]:
    """Return a gain and the ends of its interval, in points."""
    # A small loss is rounded to -0.0, and adding 0.0 gives 0.0.
    return [round(100 * value, 3) + 0.0 for value in (found.mean, found.low, found.high)]


def gain_cell(found: Sequence[float]) -> str:
    """Return a gain with its interval, (mean, low, high) in points, as a cell of a table."""
    mean, low, high = found
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def mean_gain(found: Sequence[Sequence[float]]) -> str:
    """Return the mean of independent gains as a cell; squares of half-widths add."""
    mean = sum(value for value, _, _ in found) / len(found)
    half = sum(((high - low) / 2) ** 2 for _, low, high in found) ** 0.5 / len(found)
    return gain_cell((mean, mean - half, mean + half))
