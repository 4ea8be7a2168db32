"""A fixed corpus of every format: what it becomes is recorded under the number of the cache's key.

Did you add a file? Then run `PYTHONPATH=src python tests/corpus/test_reading.py`, which records the
corpus. Otherwise the same files become something else, and corpora in caches are no longer what is
read: raise `READING` in `src/isospace/corpus/corpus.py` first.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fpdf import FPDF

from isospace.config import CorpusConfig
from isospace.corpus.corpus import READING, load_corpus, parser_versions
from isospace.corpus.formats import DOCUMENT_FORMATS, format_of
from isospace.corpus.streams import FORMATS
from isospace.system.files import hash_of

RECORD = Path(__file__).with_suffix(".json")
HERE = Path(__file__).parent
ENDINGS = {format: f".{format}" for format in FORMATS}

MODULE = '"""Moor a boat at the quay.\n\nThe boat is fastened by two ropes, or by three in a storm.\n"""\n'


def write_files(folder: Path) -> None:
    """Documents that other tools made, a PDF, rows of every format and a Python package.

    No man pages: what they become is mandoc's, whose version is in the cache's key.
    """
    for files in (HERE / "files", HERE / "formats" / "files"):
        to = folder / "documents" / files.parent.name
        shutil.copytree(files, to, ignore=shutil.ignore_patterns("*.[0-9]"))
    pdf = FPDF()
    pdf.set_font("Helvetica", size=20)
    pdf.add_page()
    pdf.multi_cell(0, text="Harbours", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Helvetica", size=11)
    for number in range(12):
        text = f"Harbour {number} has a quay and a crane. " * 3
        pdf.multi_cell(0, text=text, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(6)
    pdf.output(str(folder / "documents" / "harbours.pdf"))
    rows = [
        {
            "text": f"Boat {number} sails to port {number * number % 41}, and is back by {hour}.",
            "other": f"Port {number * number % 41} sees boat {number} come in before {hour}.",
            "label": ("entailment", "contradiction")[number % 2],
        }
        for number, hour in ((number, f"{number % 12} o'clock") for number in range(60))
    ]
    lines = [row["text"].replace("Boat", "Ship") for row in rows]
    (folder / "documents" / "lines.txt").write_text("\n".join(lines + lines[:5]) + "\n")
    for format, sign in (("csv", ","), ("tsv", "\t")):
        with (folder / f"rows.{format}").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=sign)
            writer.writeheader()
            writer.writerows(rows[: 30 if format == "csv" else 40])
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[20:50]))
    pq.write_table(pa.Table.from_pylist(rows[40:]), folder / "rows.parquet")
    package = folder / "src" / "boats"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE)


def corpora(folder: Path) -> dict[str, CorpusConfig]:
    """Settings by the name of what is read: documents and docstrings, rows, labelled pairs."""
    rows = tuple(str(folder / f"rows{ENDINGS[format]}") for format in FORMATS if format != "txt")
    documents = (str(folder / "documents"), f"docstrings:{folder / 'src'}")
    return {
        "documents": CorpusConfig(documents, held_out=40),
        "rows": CorpusConfig(rows, held_out=10, near_duplicates=False),
        "pairs": CorpusConfig(rows, columns=("text", "other"), label_column="label", held_out=10),
    }


def digest_of(folder: Path) -> str:
    """Return a hash of the one corpus that a cache has: its arrays by their values."""
    (built,) = (folder / "corpus").iterdir()
    parts: list[Any] = []
    for file in sorted(built.iterdir()):
        content: Any = file.read_bytes()
        if file.suffix in (".npy", ".npz"):
            loaded = np.load(file)
            arrays = {"": loaded} if file.suffix == ".npy" else dict(loaded)
            content = [(name, str(one.dtype), one.tolist()) for name, one in arrays.items()]
        parts.append((file.name, content))
    return hash_of(repr(parts).encode())


def digests(folder: Path) -> dict[str, str]:
    """Read every corpus; return what each became."""
    write_files(folder)
    found = {}
    for name, config in corpora(folder).items():
        cache = folder / "cache" / name
        load_corpus(config, cache)
        found[name] = digest_of(cache)
    return found


def test_what_is_read_is_what_was_recorded_under_this_number(tmp_path):
    recorded = json.loads(RECORD.read_text())
    if parser_versions() != recorded["versions"]:
        pytest.skip("recorded with other versions of the parsers, which the cache's key has too")
    found = {"reading": READING, "versions": parser_versions(), "digests": digests(tmp_path)}
    assert found == recorded, __doc__


def test_the_files_are_of_every_format(tmp_path):
    write_files(tmp_path)
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert {format_of(name) for name in names} >= {*DOCUMENT_FORMATS} - {"man"}
    assert {Path(name).suffix for name in names} >= set(ENDINGS.values())


def record() -> None:
    """Write the file that the test reads."""
    with tempfile.TemporaryDirectory() as folder:
        content = {
            "reading": READING, "versions": parser_versions(), "digests": digests(Path(folder)),
        }  # fmt: skip
    RECORD.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(record())
