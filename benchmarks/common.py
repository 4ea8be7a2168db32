"""What several benchmarks share: sentences, STS-B dev as a file, and pages with drawn parts."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path

from isospace.evaluation.sts import load_sts
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
    dev = load_sts(sts, ["STSBenchmark"])["STSBenchmark"].subsets["dev"]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(zip(dev.first, dev.second, dev.gold, strict=True))


def draw(path: Path, parts: Mapping[str, str]) -> None:
    """Put texts between their markers in a page; what stands around them stays as it is."""
    page = path.read_text(encoding="utf-8") if path.is_file() else ""
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->\n"
        if begin not in page:
            page += begin + end
        before, rest = page.split(begin)
        page = before + begin + f"{text.rstrip()}\n" + end + rest.split(end)[1]
    write_text(path, page)
