"""docs/results/search.md: one file of sentences in an index, built and searched, timed.

    python benchmarks/searching.py CORPUS [--model minilm] [--queries 100]

Through the Python API. The queries are texts of the corpus, spread evenly over it. The ways to
search take turns, query by query, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from common import draw, lines
from contest import machine
from isospace.commands.console import Console
from isospace.search import SearchIndex
from isospace.search.database import SLICE

PAGE = Path(__file__).parent.parent / "docs" / "results" / "search.md"
K = 10
WARM = 3
"""Queries of each kind that are not timed."""


def main() -> None:
    """Build, search, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--queries", type=int, default=100)
    options = parser.parse_args()
    texts = [text for text in lines(options.corpus, 1 << 30) if text]
    with tempfile.TemporaryDirectory() as folder:
        index = SearchIndex.create(Path(folder) / "index", options.model)
        adding, refreshing = _build(index, texts)
        vectors = 4 * index.about.dim * len(texts)
        size = sum(path.stat().st_size for path in index.folder.rglob("*") if path.is_file())
        measured = index.approximate(len(index))
        places = np.linspace(0, len(texts) - 1, options.queries + WARM, dtype=np.int64)
        times = _search(index, [texts[place] for place in places], measured is not None)
    rows = [
        ("texts", f"{len(texts):,}"),
        ("model", f"{options.model}, {index.about.dim} dimensions"),
        ("encoding and writing them", f"{adding:,.0f} s, {len(texts) / adding:,.0f} texts/s"),
        ("indices of words and vectors, recall", f"{refreshing:.1f} s"),
        ("on disk", f"{size / 1e6:,.0f} MB (vectors alone: {vectors / 1e6:,.0f} MB)"),
        ("search", measured.text if measured else "exact"),
    ]
    table = "".join(f"| {name} | {value} |\n" for name, value in rows)
    software = f"{machine()}, lancedb {version('lancedb')}"
    page = f"Machine: {software}.\n\n| | |\n|---|---|\n{table}\n{_latencies(times)}"
    draw(PAGE, {"search": page})


def _build(index: SearchIndex, texts: list[str]) -> tuple[float, float]:
    """Seconds of encoding and writing, and of indexing."""
    start = time.perf_counter()
    with Console().bar("index", len(texts)) as advance:
        for first in range(0, len(texts), SLICE):
            part = texts[first : first + SLICE]
            ids = [str(number) for number in range(first, first + len(part))]
            index.add(part, ids, advance=advance)
    added = time.perf_counter()
    index.refresh()
    return added - start, time.perf_counter() - added


def _search(index: SearchIndex, queries: list[str], approximate: bool) -> dict[str, list[float]]:
    """Seconds of each query, by each way to search."""
    ways: dict[str, Callable[[str], Any]] = {
        "encoding the query, a part of each": lambda query: index.encoder.embed([query]),
        "exact": lambda query: index.search(query, K, exact=True),
        "hybrid, exact": lambda query: index.search(query, K, exact=True, hybrid=True),
    }
    if approximate:
        ways["approximate"] = lambda query: index.search(query, K)
        ways["hybrid, approximate"] = lambda query: index.search(query, K, hybrid=True)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for query in queries:
        for name, way in ways.items():
            start = time.perf_counter()
            way(query)
            times[name].append(time.perf_counter() - start)
    return {name: seconds[WARM:] for name, seconds in times.items()}


def _latencies(times: dict[str, list[float]]) -> str:
    head = f"| a query, {K} hits | median | 95th percentile |\n|---|---|---|\n"
    rows = [
        f"| {name} | {1e3 * np.median(seconds):.1f} ms | "
        f"{1e3 * np.percentile(seconds, 95):.1f} ms |\n"
        for name, seconds in times.items()
    ]
    count = len(next(iter(times.values())))
    return (
        f"{head}{''.join(rows)}\n{count} queries of each kind, after {WARM} that are not counted.\n"
    )


if __name__ == "__main__":
    main()
