"""Docstrings as documents: the English prose of installed Python packages, or of a folder of them.

Tens of thousands of real technical paragraphs without a download, and a retrieval test that nobody
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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import near_duplicates
from isospace.corpus.documents import Document, Section
from isospace.corpus.formats.boilerplate import LICENCES, paragraph_boilerplate
from isospace.corpus.groups import split_groups
from isospace.corpus.prose import docstring_sentences, is_prose, paragraphs, sections
from isospace.errors import UserError
from isospace.system.files import readable_hash
from isospace.system.trust import SAFE_PATH

SUMMARY_NEXT = "summary-next"
"""The relation of `Docstring.pair`."""
DOCSTRINGS = "docstrings"
"""Names the installed packages where files are named; "docstrings:FOLDER" names a folder's."""

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

_OF_PAIRS, _LICENCES = "sentences of evaluation pairs left out", f"{LICENCES} left out"

Pair = tuple[str, str]

_EXAMPLES = re.compile(r"^\s*Examples?:*\s*$", re.MULTILINE)
_PART_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
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
        return set(self.dev_groups).isdisjoint(self.test_groups)


class PythonFile(NamedTuple):
    """A module's source.

    Attributes:
        path: where it is.
        module: its path below the folder of its package's folder, such as "numpy/lib/npyio.py".
    """

    path: Path
    module: str


@dataclass(frozen=True)
class Docstring:
    """The prose of a docstring.

    Attributes:
        name: what it describes, such as "numpy.linalg.norm"; "" where that is not known.
        module: of the file that it stands in.
        sections: (heading, paragraphs), "" for no heading; a paragraph is its sentences.
        pair: what `natural_pair` finds.
    """

    name: str
    module: str
    sections: list[tuple[str, list[list[str]]]]
    pair: Pair | None

    @property
    def sentences(self) -> list[str]:
        """In order, with repetitions."""
        return [one for _, parts in self.sections for paragraph in parts for one in paragraph]


def is_docstrings(name: str) -> bool:
    """Whether this names docstrings, and no file or folder.

    >>> is_docstrings("docstrings"), is_docstrings("docstrings:src"), is_docstrings("docs")
    (True, True, False)
    """
    return name == DOCSTRINGS or name.startswith(f"{DOCSTRINGS}:")


def each_once(names: Iterable[str]) -> list[str]:
    """Keep the first of several names of one folder, or of its docstrings."""
    found: dict[tuple[bool, str], str] = {}
    for name in names:
        of_docstrings = is_docstrings(name)
        folder = name.partition(":")[2] if of_docstrings else name
        found.setdefault((of_docstrings, folder and os.path.realpath(folder)), name)
    return list(found.values())


def installed_packages() -> dict[str, str]:
    """The version of every package that can be read where it is installed, by import name."""
    versions = {}
    for name, distribution in DISTRIBUTIONS.items():
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**versions, "python": platform.python_version()}


def versions_of(name: str) -> dict[str, str]:
    """What is read of docstrings and may change: package or file -> its version or hash.

    Args:
        name: "docstrings" or "docstrings:FOLDER".

    Raises:
        UserError: the folder is not there, or has no Python files.
    """
    if name == DOCSTRINGS:
        return installed_packages()
    return {module: readable_hash(path) for path, module in _files_of(name)}


def _files_of(name: str) -> list[PythonFile]:
    if name == DOCSTRINGS:
        return [file for package in installed_packages() for file in _installed_files(package)]
    folder = Path(name.partition(":")[2])
    files = list(_modules(folder, folder))
    if not files:
        raise UserError(f"{name}: expected a folder with Python files, such as packages' sources")
    return files


def _installed_files(package: str) -> Iterator[PythonFile]:
    if package == "python":
        library = Path(sysconfig.get_path("stdlib"))
        return _modules(library, library)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No package {package}")
    root = Path(spec.origin).parent
    return _modules(root, root.parent)


def _modules(root: Path, above: Path) -> Iterator[PythonFile]:
    """The modules below a folder in a fixed order, without tests; named from the folder `above`."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        paths = (Path(folder, file) for file in sorted(files) if file.endswith(".py"))
        for path in filter(Path.is_file, paths):  # no link to nowhere, as editors leave
            yield PythonFile(path, path.relative_to(above).as_posix())


def read_docstrings(name: str) -> list[Docstring]:
    """The docstrings with prose in the order of the files, read in parallel.

    Args:
        name: "docstrings" or "docstrings:FOLDER".

    Raises:
        UserError: the folder is not there, or has no Python files.
    """
    files = _files_of(name)
    # The children are plain interpreters: a fork of a process with threads can hang, and
    # multiprocessing's other ways run the user's script again where it has no main guard.
    workers = os.cpu_count() or 1
    shares = [files[i : i + 500] for i in range(0, len(files), 500)]
    with ThreadPoolExecutor(workers) as pool:
        return [found for share in pool.map(_extract_in_child, shares) for found in share]


def documents(
    docstrings: Sequence[Docstring], references: Sequence[str], counts: dict[str, int]
) -> Iterator[Document]:
    """Each docstring as a document, the modules as their groups.

    Left out are licences, and the sentences that are, or nearly repeat, a text that must not be
    trained on: of a docstring whose summary and next paragraph judge, the others train.

    Args:
        docstrings: as they were read.
        references: clean texts that must not be trained on, and their sentences.
        counts: receives what was left out.
    """
    texts = list(dict.fromkeys(text for one in docstrings for text in _texts(one)))
    rows = [*references, *texts]
    earlier = near_duplicates(rows, np.arange(len(rows)), len(references))[len(references) :]
    leaked = (earlier >= 0) & (earlier < len(references))
    barred = {texts[place] for place in np.flatnonzero(leaked).tolist()}
    counts |= {_OF_PAIRS: 0, _LICENCES: 0}
    for one in docstrings:
        counts[_OF_PAIRS] += sum(sentence in barred for sentence in one.sentences)
        parts = []
        for heading, written in one.sections:
            texts = [" ".join(s for s in sentences if s not in barred) for sentences in written]
            kept = tuple(text for text in texts if text and not paragraph_boilerplate(text))
            counts[_LICENCES] += sum(map(bool, texts)) - len(kept)
            parts.append(Section(heading, 1 if heading else 0, kept))
        pair = None if one.pair is None or barred.intersection(_sides(one.pair)) else one.pair
        title = _in_words(one.name)
        yield Document(
            one.name, title, tuple(parts), group=one.module, summary_next=pair, language="en"
        )


def _texts(docstring: Docstring) -> list[str]:
    return [*docstring.sentences, *(() if docstring.pair is None else _sides(docstring.pair))]


def _sides(pair: Pair) -> list[str]:
    """Both texts and their sentences."""
    return [part for text in pair for part in (text, *docstring_sentences(text))]


def _in_words(name: str) -> str:
    """The last part of a name as words; "" for what the language itself names, such as __init__.

    >>> _in_words("numpy.array_equal"), _in_words("a.RidgeCV"), _in_words("a.B.__init__")
    ('array equal', 'Ridge CV', '')
    """
    last = name.rpartition(".")[2]
    return "" if last.startswith("__") else " ".join(_PART_OF_NAME.findall(last))


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
    found = [pair for _, pair in ordered]
    return Pairs.of(found, modules, chooses, judges[:TEST_PAIRS], "modules", SUMMARY_NEXT)


def _extract_in_child(files: Sequence[PythonFile]) -> list[Docstring]:
    child = subprocess.run(
        [sys.executable, "-m", "isospace.corpus.docstrings"],
        input=json.dumps([(str(path), module) for path, module in files]),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
        env={**os.environ, **SAFE_PATH},
    )
    found = json.loads(child.stdout)
    return [
        Docstring(name, module, list(map(tuple, prose)), pair and tuple(pair))
        for name, module, prose, pair in found
    ]


def extract(source: bytes, module: str) -> list[Docstring]:
    """The docstrings of one module's source that have prose; none if it does not parse.

    Args:
        source: its bytes.
        module: its path, as `PythonFile` has it.
    """
    found = []
    for name, docstring in _docstrings(source, module.removesuffix(".py").replace("/", ".")):
        prose = []
        for heading, parts in sections(docstring):
            sentences = [list(filter(is_prose, docstring_sentences(text))) for _, text in parts]
            if any(sentences):
                prose.append((heading, list(filter(None, sentences))))
        if prose:
            found.append(Docstring(name, module, prose, natural_pair(docstring)))
    return found


def _docstrings(source: bytes, module: str) -> list[tuple[str, str]]:
    try:
        return list(_in_tree(ast.parse(source), module))
    # RecursionError is of hundreds of elif, too, MemoryError of what overflows the parser's stack.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _in_tree(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """(name, docstring), and the texts that calls like `add_docstr(torch.abs, "...")` attach."""
    for name, node in _statements(tree, module):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, ast.get_docstring(node) or ""
        elif isinstance(call := getattr(node, "value", None), ast.Call):
            function = call.func
            if "doc" in getattr(function, "id", getattr(function, "attr", "")):
                for leaf in ast.walk(call):
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                        yield _documented(call), inspect.cleandoc(leaf.value)


def _documented(call: ast.Call) -> str:
    """What such a call documents by its arguments: `torch.abs`, or "numpy", "ndarray"."""
    parts = []
    for argument in call.args:
        if isinstance(argument, (ast.Attribute, ast.Name)):
            parts.append(ast.unparse(argument))
        elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            parts += [argument.value] if _NAME.fullmatch(argument.value) else []
    return ".".join(parts)


def _statements(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """(qualified name, node) of it and of the statements in it.

    Expressions, most of a tree, are passed over.
    """
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        name = f"{name}.{node.name}"
    yield name, node
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield from _statements(child, name)


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
    prose = all(is_prose(s) for text in (summary, description) for s in docstring_sentences(text))
    return (summary, description) if fits and prose and not repeats else None


def _main() -> None:
    """What `_extract_in_child` runs: the files as JSON in, what `extract` finds as JSON out."""
    gc.disable()  # syntax trees have no cycles, and the collector takes a sixth of the time
    warnings.simplefilter("ignore")  # SyntaxWarnings of other people's code
    found = [one for path, module in json.load(sys.stdin) for one in _extract_file(path, module)]
    json.dump([(one.name, one.module, one.sections, one.pair) for one in found], sys.stdout)


def _extract_file(path: str, module: str) -> list[Docstring]:
    try:
        return extract(Path(path).read_bytes(), module)
    except OSError:  # a file that is not for everyone
        return []


if __name__ == "__main__":
    _main()
