"""Docstrings as documents: the English prose of installed Python packages, or of a folder.

Installed packages have tens of thousands of technical paragraphs, without a download. They give a
retrieval test without labels, since summary and next paragraph of a docstring have one subject.
Packages are read as text, never imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import numpy as np

from isospace.corpus.formats import LICENCES, Document, Section, paragraph_boilerplate
from isospace.corpus.groups import TEST_PAIRS, Pair, Pairs, near_duplicates, split_groups
from isospace.corpus.prose import docstring_sentences, prose_sentences
from isospace.corpus.relations import SUMMARY_NEXT
from isospace.corpus.sources import DOCSTRINGS
from isospace.errors import UserError
from isospace.system.consent import SAFE_PATH
from isospace.system.files import readable_hash

DISTRIBUTIONS = {
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "sympy": "sympy",
    "networkx": "networkx",
    "pandas": "pandas",
    "matplotlib": "matplotlib",
}
"""Import name -> distribution of the packages to read if installed. The standard library
("python") is read too."""


_OF_PAIRS, _LICENCES = "sentences of evaluation pairs left out", f"{LICENCES} left out"
_SKIPPED_FOLDERS = {"test", "tests", "testing", "site-packages", "dist-packages", "idlelib"}


def installed_packages() -> dict[str, str]:
    """Return import name -> version of the installed packages to read."""
    versions = {}
    for name, distribution in DISTRIBUTIONS.items():
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**versions, "python": platform.python_version()}


def versions_of(name: str) -> dict[str, str]:
    """Return package -> version, or for a folder file -> hash, to detect changes.

    Raises:
        UserError: the folder is missing or has no Python files.
    """
    if name == DOCSTRINGS:
        return installed_packages()
    return {module: readable_hash(path) for path, module in _files_of(name)}


def _files_of(name: str) -> list[tuple[Path, str]]:
    if name == DOCSTRINGS:
        return [file for package in installed_packages() for file in _installed_files(package)]
    folder = Path(name.partition(":")[2])
    files = list(_modules(folder, folder))
    if not files:
        raise UserError(
            f"{name}: no folder with Python files. Give one, such as the sources of a package"
        )
    return files


def _installed_files(package: str) -> Iterator[tuple[Path, str]]:
    if package == "python":
        library = Path(sysconfig.get_path("stdlib"))
        return _modules(library, library)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:  # a removal left the metadata of the package
        return iter(())
    root = Path(spec.origin).parent
    return _modules(root, root.parent)


def _modules(root: Path, above: Path) -> Iterator[tuple[Path, str]]:
    """Yield (path, path relative to `above`) of the modules below `root`, in a fixed order."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        paths = (Path(folder, file) for file in sorted(files) if file.endswith(".py"))
        for path in filter(Path.is_file, paths):  # skips broken links, which some editors leave
            yield path, path.relative_to(above).as_posix()


def read_docstrings(name: str) -> list[Document]:
    """Return the docstrings that have prose, in the order of the files; read files in parallel.

    Raises:
        UserError: the folder is missing or has no Python files.
    """
    files = _files_of(name)
    # The children are new interpreters. Forking a process with threads can hang, and the other
    # start methods of multiprocessing run a user's script again if it has no main guard.
    workers = os.cpu_count() or 1
    shares = [files[i : i + 500] for i in range(0, len(files), 500)]
    with ThreadPoolExecutor(workers) as pool:
        return [found for share in pool.map(_extract_in_child, shares) for found in share]


def without_references(
    documents: Sequence[Document], references: Sequence[str], counts: dict[str, int]
) -> Iterator[Document]:
    """Yield the documents without licences and without sentences that must not be trained on.

    Such sentences repeat, or nearly repeat, one of `references`: clean texts and their sentences.
    The other sentences of a docstring stay. `counts` receives the numbers of texts left out.
    """
    found = (text for one in documents for text in (*prose_sentences(one), *_of_pair(one)))
    texts = list(dict.fromkeys(found))
    rows = [*references, *texts]
    earlier = near_duplicates(rows, np.arange(len(rows)), len(references))[len(references) :]
    leaked = (earlier >= 0) & (earlier < len(references))
    barred = {texts[place] for place in np.flatnonzero(leaked).tolist()}
    counts |= {_OF_PAIRS: 0, _LICENCES: 0}
    for document in documents:
        parts = []
        for section in document.sections:
            written = list(map(docstring_sentences, section.paragraphs))
            counts[_OF_PAIRS] += sum(text in barred for text in chain.from_iterable(written))
            left = [" ".join(s for s in sentences if s not in barred) for sentences in written]
            kept = tuple(text for text in left if text and not paragraph_boilerplate(text))
            counts[_LICENCES] += sum(map(bool, left)) - len(kept)
            parts.append(replace(section, paragraphs=kept))
        pair = None if barred.intersection(_of_pair(document)) else document.summary_next
        yield replace(document, sections=tuple(parts), summary_next=pair)


def _of_pair(document: Document) -> list[str]:
    """Return the texts of a docstring's pair and their sentences; none without a pair."""
    texts = document.summary_next or ()
    return [part for text in texts for part in (text, *docstring_sentences(text))]


def split_pairs(pairs: Iterable[tuple[str, Pair]], exclude: Sequence[str] = ()) -> Pairs:
    """Split (module, pair) by module into validation and test pairs, without repetitions.

    Pairs are dropped if one of their texts repeats, or nearly repeats, a text of another pair or of
    `exclude`. The order is by a hash of the text, so packages are mixed and no random state is
    needed.
    """
    ordered = sorted(pairs, key=lambda named: blake2b(repr(named[::-1]).encode()).digest())
    for side in (0, 1):
        texts = [*exclude, *(pair[side] for _, pair in ordered)]
        repeats = near_duplicates(texts, np.arange(len(texts)), len(exclude))[len(exclude) :]
        ordered = [named for named, earlier in zip(ordered, repeats, strict=True) if earlier < 0]
    modules = [module for module, _ in ordered]
    validation, test = split_groups(modules)
    found = [pair for _, pair in ordered]
    return Pairs.at(found, modules, validation, test[:TEST_PAIRS], "modules", SUMMARY_NEXT)


def _extract_in_child(files: Sequence[tuple[Path, str]]) -> list[Document]:
    child = subprocess.run(
        [sys.executable, "-m", "isospace.corpus.prose"],
        input=json.dumps([(str(path), module) for path, module in files]),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
        env={**os.environ, **SAFE_PATH},
    )
    return [
        Document(
            title,
            tuple(Section(heading, level, tuple(texts)) for heading, level, texts in parts),
            group=group,
            summary_next=pair and tuple(pair),
            language=language,
        )
        for title, parts, _, group, pair, language in json.loads(child.stdout)
    ]
