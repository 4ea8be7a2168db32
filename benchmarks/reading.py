"""What it takes to read and clean a corpus of many paragraphs: seconds, and memory, by rows.

Rows have a title and a paragraph of two to five sentences, of words drawn as often as the corpus
has them, so that nothing repeats: no row is dropped, and all have to be kept apart. What a process
has of its own is told from the pages of files that it maps, which the system takes back at need.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from common import lines

SIZES = (100_000, 1_000_000)
MILLIONS = 10
"""Of rows, for which the two sizes speak."""
_WORDS_OF, _VOCABULARY = 20_000, 30_000


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a size, and what follows for more."""
    rows, own = [], []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "rows.jsonl"
            _write(text, size, lines(options.corpus, _WORDS_OF))
            seconds, anonymous, resident = _read(text, Path(folder) / "cache")
        own.append(anonymous)
        cells = [seconds, anonymous / 2**10, resident / 2**10]
        rows.append([f"{size:,}", *(f"{cell:,.0f}" for cell in cells)])
    a_row = (own[1] - own[0]) / (SIZES[1] - SIZES[0])  # kilobytes
    more = own[1] + a_row * (MILLIONS * 10**6 - SIZES[1])
    rows.append([f"{MILLIONS} million, by the difference", "", f"{more / 2**10:,.0f}", ""])
    title = (
        f"reading and cleaning rows of a title and a paragraph: {2**10 * a_row:,.0f} bytes a row"
    )
    columns = ["rows", "processor seconds", "own MB", "resident MB"]
    return [{"title": title, "columns": columns, "rows": rows}]


def _write(path: Path, size: int, texts: list[str]) -> None:
    draw = np.random.default_rng(0)
    counts = Counter(word for text in texts for word in re.findall(r"[a-z]{2,}", text.lower()))
    words, often = map(np.array, zip(*counts.most_common(_VOCABULARY), strict=True))
    below = np.cumsum(often / often.sum())
    with path.open("w", encoding="utf-8") as file:
        for number in range(size):
            lengths = draw.integers(6, 16, size=draw.integers(2, 6))
            drawn = words[np.searchsorted(below, draw.random(lengths.sum()))]
            sentences = [" ".join(of) for of in np.split(drawn, np.cumsum(lengths)[:-1])]
            text = " ".join(f"{sentence.capitalize()}." for sentence in sentences)
            title = f"{sentences[0].title()} {number}"
            file.write(json.dumps({"title": title, "text": text}) + "\n")


def _read(text: Path, cache: Path) -> tuple[float, int, int]:
    """Processor seconds of reading it; its highest own memory and its highest resident, in kB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([sys.executable, __file__, str(text), str(cache)])
    anonymous = resident = 0
    while process.poll() is None:
        known = _status(process.pid)
        anonymous = max(anonymous, known.get("RssAnon", 0))
        resident = max(resident, known.get("VmHWM", 0))
        time.sleep(0.2)
    if process.returncode:
        raise RuntimeError(f"reading {text} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, anonymous, resident


def _status(process: int) -> dict[str, int]:
    """What Linux says of a process, in kB; nothing of one that has ended."""
    try:
        said = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return {}
    return {key: int(kb) for key, kb in re.findall(r"^(\w+):\s+(\d+) kB$", said, re.MULTILINE)}


if __name__ == "__main__":
    from isospace.config import CorpusConfig
    from isospace.corpus.corpus import load_corpus

    _, rows_file, cache_folder = sys.argv
    corpus = load_corpus(CorpusConfig((rows_file,), title_column="title"), Path(cache_folder))
    print(corpus.summary, file=sys.stderr)
