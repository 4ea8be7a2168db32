"""The English prose in the docstrings of the Python packages installed on this machine.

Tens of thousands of real technical sentences without a download, and a retrieval test that nobody
had to label: a docstring's summary and its next paragraph are about the same thing. Packages are
read as text, never imported.
"""

from __future__ import annotations

import ast
import gc
import importlib.metadata
import importlib.util
import inspect
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import near_duplicates
from isospace.corpus.groups import split_groups
from isospace.corpus.prose import is_prose, paragraphs, split_sentences

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
"""Packages that are read where they are installed, besides the standard library ("python")."""

DEV_PAIRS, TEST_PAIRS = 1000, 2000

Pair = tuple[str, str]

_EXAMPLES = re.compile(r"^\s*Examples?:*\s*$", re.MULTILINE)
_SIGNATURE = re.compile(r"[\w.]+\(.*\)")
_SKIPPED_FOLDERS = {"test", "tests", "testing", "site-packages", "dist-packages", "idlelib"}


@dataclass(frozen=True)
class Pairs:
    """Natural pairs: of a docstring's summary and next paragraph, of an anchor and its positive."""

    dev: list[Pair] = field(default_factory=list)
    """For choices, such as between checkpoints."""
    test: list[Pair] = field(default_factory=list)
    """For the numbers that are reported; the same as `dev` where there are too few to split."""
    dev_groups: list[str] = field(default_factory=list)
    """The group of each pair of `dev`; none of them is in `test` where there is a split."""
    test_groups: list[str] = field(default_factory=list)
    """The group of each pair of `test`."""
    unit: str = "groups"
    """What the groups are, in the plural."""
    relation: str = ""
    """Which relation of the documents they are."""

    @classmethod
    def of(
        cls,
        pairs: Sequence[Pair],
        groups: Sequence[str],
        dev: NDArray[np.int64],
        test: NDArray[np.int64],
        unit: str,
        relation: str = "",
    ) -> Pairs:
        """The pairs and their groups at the positions `dev` and `test`."""
        return cls(
            [pairs[i] for i in dev],
            [pairs[i] for i in test],
            [groups[i] for i in dev],
            [groups[i] for i in test],
            unit,
            relation,
        )

    @property
    def split(self) -> bool:
        """Whether other pairs choose than are reported."""
        return self.dev != self.test


def installed_packages() -> dict[str, str]:
    """The version of every package that `read_docstrings` can read here, by import name."""
    versions = {}
    for name, distribution in DISTRIBUTIONS.items():
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**versions, "python": platform.python_version()}


def read_docstrings(
    packages: Iterable[str], exclude: Sequence[str] = ()
) -> tuple[list[str], Pairs]:
    """Sentences and evaluation pairs of the packages (import names), read in parallel.

    The sentences are in file order, with repetitions, those of the pairs among them. No pair has,
    or nearly repeats, one of the texts in `exclude`.
    """
    files: list[str] = []
    names: list[str] = []
    for root in map(_root, packages):
        parent = root if root == _standard_library() else root.parent
        for file in _python_files(root):
            files.append(str(file))
            names.append(file.relative_to(parent).as_posix())
    # The children are plain interpreters: a fork of a process with threads can hang, and
    # multiprocessing's other ways run the user's script again where it has no main guard.
    workers = os.cpu_count() or 1
    shares = [files[i : i + 500] for i in range(0, len(files), 500)]
    with ThreadPoolExecutor(workers) as pool:
        modules = [module for share in pool.map(_extract_in_child, shares) for module in share]
    sentences = [sentence for in_module, _ in modules for sentence in in_module]
    named = zip(names, modules, strict=True)
    pairs = [(name, pair) for name, (_, in_module) in named for pair in in_module]
    return sentences, split_pairs(pairs, exclude)


def split_pairs(pairs: Iterable[tuple[str, Pair]], exclude: Sequence[str] = ()) -> Pairs:
    """Drops (nearly) repeated summaries or descriptions, and splits what is left by module.

    The order is by a hash of the text, so the packages are mixed and nothing depends on a random
    state.

    Args:
        pairs: the module of each pair, and the pair.
        exclude: texts that no pair may have or nearly repeat.
    """
    ordered = sorted(pairs, key=lambda named: blake2b(repr(named[::-1]).encode()).digest())
    for side in (0, 1):
        texts = [*exclude, *(pair[side] for _, pair in ordered)]
        repeats = near_duplicates(texts, np.arange(len(texts)), len(exclude))[len(exclude) :]
        ordered = [named for named, earlier in zip(ordered, repeats, strict=True) if earlier < 0]
    modules = [module for module, _ in ordered]
    chooses, judges = split_groups(modules, at_most=DEV_PAIRS)
    return Pairs.of([pair for _, pair in ordered], modules, chooses, judges[:TEST_PAIRS], "modules")


def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _root(package: str) -> Path:
    if package == "python":
        return _standard_library()
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No package {package}")
    return Path(spec.origin).parent


def _python_files(root: Path) -> Iterator[Path]:
    """The modules below a folder in a fixed order, without tests."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".py"))


def _extract_in_child(files: list[str]) -> list[tuple[list[str], list[Pair]]]:
    child = subprocess.run(
        [sys.executable, "-m", "isospace.corpus.docstrings"],
        input=json.dumps(files),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    return [(texts, [(a, b) for a, b in pairs]) for texts, pairs in json.loads(child.stdout)]


def extract(source: bytes) -> tuple[list[str], list[Pair]]:
    """Sentences and pairs of the docstrings of one module's source; none if it does not parse."""
    sentences: list[str] = []
    pairs: list[Pair] = []
    for docstring in _docstrings(source):
        for _, text in paragraphs(docstring):
            sentences += [sentence for sentence in split_sentences(text) if is_prose(sentence)]
        pair = natural_pair(docstring)
        if pair is not None:
            pairs.append(pair)
    return sentences, pairs


def _docstrings(source: bytes) -> Iterator[str]:
    """Docstrings, and the texts that calls like `add_docstr(torch.abs, "...")` attach."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
        elif isinstance(call := getattr(node, "value", None), ast.Call):
            function = call.func
            if "doc" in getattr(function, "id", getattr(function, "attr", "")):
                for leaf in ast.walk(call):
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                        yield inspect.cleandoc(leaf.value)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and the statements in it; expressions, most of a tree, are passed over."""
    yield node
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield from _statements(child)


def natural_pair(docstring: str) -> Pair | None:
    r"""(summary, next paragraph) where a docstring begins with these two and both are prose.

    >>> natural_pair("Sort the rows.\n\nEqual rows stay in the order in which they were given.")
    >>> pair = natural_pair(
    ...     "Return the rows in ascending order.\n\nNotes\n-----\n"
    ...     "Equal ones stay in the order in which they were given, whatever the algorithm."
    ... )
    >>> pair[1]
    'Equal ones stay in the order in which they were given, whatever the algorithm.'
    """
    head = _EXAMPLES.split(docstring, maxsplit=1)[0]
    texts = [text for indent, text in paragraphs(head) if indent == 0]
    if texts and _SIGNATURE.match(texts[0]):
        del texts[0]
    if len(texts) < 2:
        return None
    summary, description = texts[:2]
    fits = len(summary) <= 200 and 60 <= len(description) <= 1000
    repeats = summary.rstrip(".").casefold() in description.casefold()
    prose = all(is_prose(s) for text in (summary, description) for s in split_sentences(text))
    return (summary, description) if fits and prose and not repeats else None


def _main() -> None:
    """What `_extract_in_child` runs: the files as JSON in, what `extract` finds as JSON out."""
    gc.disable()  # syntax trees have no cycles, and the collector takes a sixth of the time
    warnings.simplefilter("ignore")  # SyntaxWarnings of other people's code
    json.dump([_extract_file(Path(file)) for file in json.load(sys.stdin)], sys.stdout)


def _extract_file(path: Path) -> tuple[list[str], list[Pair]]:
    try:
        return extract(path.read_bytes())
    except OSError:  # a link to nowhere, as editors leave, or a file that is not for everyone
        return [], []


if __name__ == "__main__":
    _main()
