"""Docstrings as documents: the English prose of installed Python packages, or of a folder.

Installed packages have tens of thousands of technical paragraphs. They give a retrieval test
without labels, since summary and next paragraph of a docstring have one subject. Packages are read
as text, never imported. This module is also a program, a child that reads some of the files; so it
imports nothing heavy.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import inspect
import os
import pickle
import re
import subprocess
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path, PurePath

import numpy as np

from isospace.corpus.formats import Document, Section, paragraph_boilerplate
from isospace.corpus.groups import TEST_PAIRS, Pair, Pairs, near_duplicates, repeating, split_groups
from isospace.errors import UserError
from isospace.system.consent import SAFE_PATH

DOCSTRINGS = "docstrings"
"""Name for the docstrings of installed packages; "docstrings:FOLDER" reads a folder's modules."""
SUMMARY_NEXT = "summary-next"
"""The relation of a docstring's summary and next paragraph (`Document.summary_next`)."""
_OF_PAIRS = "sentences of evaluation pairs left out"

PACKAGES = ("torch", "numpy", "scipy", "sklearn", "sympy", "networkx", "pandas", "matplotlib")
"""Import names of the packages to read if installed. The standard library is read too."""
_SKIPPED_FOLDERS = {"test", "tests", "testing", "site-packages", "dist-packages", "idlelib"}


def is_docstrings(name: str) -> bool:
    """Return true if this names docstrings, and not a file or folder.

    >>> is_docstrings("docstrings"), is_docstrings("docstrings:src"), is_docstrings("docs")
    (True, True, False)
    """
    return name == DOCSTRINGS or name.startswith(f"{DOCSTRINGS}:")


def modules_of(name: str) -> list[tuple[Path, str]]:
    """Return path and name of the modules to read, in a fixed order; refuse a folder without."""
    if name == DOCSTRINGS:
        library = Path(sysconfig.get_path("stdlib"))
        specs = filter(None, map(importlib.util.find_spec, PACKAGES))
        packages = [Path(spec.origin).parent for spec in specs if spec.origin is not None]
        found = (_modules(package, package.parent) for package in packages)
        return [*chain.from_iterable(found), *_modules(library, library)]
    folder = Path(name.partition(":")[2])
    files = list(_modules(folder, folder))
    if not files:
        raise UserError(
            f"{name}: no folder with Python files. Give one, such as the sources of a package"
        )
    return files


def _modules(root: Path, above: Path) -> Iterator[tuple[Path, str]]:
    """Yield (path, path relative to `above`) of the modules below `root`, in a fixed order."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        paths = (Path(folder, file) for file in sorted(files) if file.endswith(".py"))
        for path in filter(Path.is_file, paths):  # skips broken links, which some editors leave
            yield path, path.relative_to(above).as_posix()


def read_docstrings(name: str) -> list[Document]:
    """Return the docstrings that have prose, in the order of the files, read in parallel."""
    files = modules_of(name)
    # The children are new interpreters. Forking a process with threads can hang, and the other
    # start methods of multiprocessing run a user's script again if it has no main guard.
    shares = [files[i : i + 500] for i in range(0, len(files), 500)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [found for share in pool.map(_extract_in_child, shares) for found in share]


def _extract_in_child(files: Sequence[tuple[Path, str]]) -> list[Document]:
    child = subprocess.run(
        [sys.executable, "-m", "isospace.corpus.docstrings"],
        input=pickle.dumps(files),
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, **SAFE_PATH},
    )
    found: list[Document] = pickle.loads(child.stdout)  # noqa: S301 (of our own child)
    return found


def _main() -> None:
    """Read (path, module) pairs from standard input; write their documents."""
    gc.disable()  # syntax trees have no cycles, and the collector would use a sixth of the time
    warnings.simplefilter("ignore")  # SyntaxWarnings of other people's code
    found: list[Document] = []
    for path, module in pickle.load(sys.stdin.buffer):  # noqa: S301 (of our own parent)
        with suppress(OSError):  # for example a file without read permission
            found += extract(path.read_bytes(), module)
    pickle.dump(found, sys.stdout.buffer)


def without_references(
    documents: Sequence[Document], references: Sequence[str], counts: dict[str, int]
) -> Iterator[Document]:
    """Yield the documents without sentences that (nearly) repeat one of `references`.

    `counts` receives the number of sentences left out.
    """
    found = (text for one in documents for text in (*prose_sentences(one), *_of_pair(one)))
    barred = repeating(found, references)
    counts[_OF_PAIRS] = 0
    for document in documents:
        parts = []
        for section in document.sections:
            kept = []
            for paragraph in section.paragraphs:
                sentences = docstring_sentences(paragraph)
                left = [sentence for sentence in sentences if sentence not in barred]
                counts[_OF_PAIRS] += len(sentences) - len(left)
                if left:
                    kept.append(" ".join(left))
            parts.append(replace(section, paragraphs=tuple(kept)))
        pair = None if barred.intersection(_of_pair(document)) else document.summary_next
        yield replace(document, sections=tuple(parts), summary_next=pair)


def _of_pair(document: Document) -> list[str]:
    """Return the texts of a docstring's pair and their sentences."""
    texts = document.summary_next or ()
    return [part for text in texts for part in (text, *docstring_sentences(text))]


def split_pairs(pairs: Iterable[tuple[str, Pair]], exclude: Sequence[str] = ()) -> Pairs:
    """Split (module, pair) by module into validation and test pairs.

    Pairs are dropped if one of their texts (nearly) repeats a text of another pair or of `exclude`.
    A hash of the text orders the pairs, which mixes packages without a random state.
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


_EXAMPLES = re.compile(r"^\s*Examples?:*\s*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_SIGNATURE = re.compile(r"[\w.]+\(.*\)")
_PART_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)(?<!al\.)(?<!Eq\.)(?<!Fig\.)(?<!Ref\.)"
    r"(?<!\b[A-Z]\.)[\"')]*\s+(?=[A-Z\"'(])"
)


def docstring_sentences(text: str) -> list[str]:
    """Split English at full stops before capitals, except after common abbreviations.

    >>> docstring_sentences("Use it, e.g. Adam. It works! (See below.)")
    ['Use it, e.g. Adam.', 'It works!', '(See below.)']
    """
    return _SENTENCE_END.split(text)


_FUNCTION_WORD = re.compile(
    r"\(?(?:a|all|also|an|and|any|are|as|at|be|been|being|but|by|can|do|does|each|for|from|has|have|"
    r"if|in|into|is|it|its|may|must|no|not|of|on|only|or|other|same|should|such|than|that|the|their|"
    r"then|there|these|they|this|to|used|was|were|when|where|which|while|will|with|would|you)[,.;:)]*",
    re.IGNORECASE,
)
_PLAIN_WORD = re.compile(r"[\"'(]*[A-Za-z]+(?:[-'/][A-Za-z]+)*[)\"']*[,;:.!?]*[)\"']*")
_CODE = re.compile(r"[\\{}<>=|@#^~$`\[\]*_]|::|\.\.|\w\(|https?:|\s--?\s*$")


def is_prose(sentence: str) -> bool:
    """Return true if a string is an English sentence, by simple rules.

    It has 5 to 60 words, of which 3 in 4 are plain and 1 in 6 a function word, and no character of
    code or markup.

    >>> is_prose("The result is a copy of the input.")
    True
    >>> is_prose("x : array_like, shape (n, m).")
    False
    """
    parts = sentence.split()
    if not (5 <= len(parts) <= 60 and sentence[0].isupper() and sentence[-1] in ".!?"):
        return False
    if _CODE.search(sentence) or sentence.count("(") != sentence.count(")"):
        return False
    plain = sum(_PLAIN_WORD.fullmatch(part) is not None for part in parts)
    functional = sum(_FUNCTION_WORD.fullmatch(part) is not None for part in parts)
    return plain >= 0.75 * len(parts) and functional >= len(parts) / 6


_TEXT_DIRECTIVES = r"note|warning|tip|hint|important|attention|caution|danger|seealso"
_DIRECTIVE = re.compile(rf"\.\.(?:\s+(?:{_TEXT_DIRECTIVES})::\s*(?P<text>.*)|\s.*)?")
_VERBATIM = (">>>", "...", "In [", "$ ", "|", "+-")
_FENCE = re.compile("`{3}")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+:_])\1{2,}[\s=\-+]*")
_MARKER = re.compile(
    r"(?:[-*+•]|\(?\w{1,2}[.)]|:\w[^:]*:)\s+"  # bullets, numbers, :param x:
    r"|\*{0,2}[\w.`]+\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s+(?=[A-Z])"  # x (int): The ...
)
_DECLARATION = re.compile(r"[\w.,*` ]+ : .*|[A-Z]\w+(?: \w+)?:+")  # x : int, or Returns:
_MARKUP = re.compile(
    r":[\w:]+:`~[\w.]*?(\w+)`"  # :class:`~a.b.C`
    r"|(?::[\w:]+:)?`([^`<]+?)\s*<[^`>]*>`_*"  # `text <target>`_
    r"|(?::[\w:]+:)?`+([^`]+)`+_*"  # :role:`text`, or `text` in any number of backticks
    r"|\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}"  # *text*, **text**
    r"|(?:\s+(?:in|of|on|by|from))?\s*\[\d+\]_"  # as shown in [1]_
)


def sections(docstring: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return (heading, paragraphs) of each section, with paragraphs as (indentation, text).

    Markup, code, doctests, tables, directives and types of parameters are left out. A parameter's
    description, a list item and the body of a note have a positive indentation. An underlined line
    is a heading; a line such as "Returns:" begins a section without heading.
    """
    found: list[tuple[str, list[tuple[int, list[str]]]]] = [("", [])]
    rest: int | None = None  # indentation of lines that continue the last paragraph
    for indent, text in _visible(docstring):
        parts = found[-1][1]
        marker = _MARKER.match(text)
        if marker:
            parts.append((indent + 1, [text[marker.end() :]]))
            rest = None
        elif not text:
            rest = -1
        elif _DECLARATION.fullmatch(text):
            if text.endswith(":"):
                found.append(("", []))
            rest = -1
        elif _UNDERLINE.fullmatch(text):
            heading = parts.pop()[1] if parts else []
            found.append((" ".join(heading) if rest != -1 else "", []))
            rest = -1
        elif parts and (indent == rest or (rest is None and indent >= parts[-1][0])):
            parts[-1][1].append(text)
            rest = indent
        else:
            parts.append((indent, [text]))
            rest = indent
    return [
        (_without_markup(heading), [(i, _without_markup(" ".join(lines))) for i, lines in parts])
        for heading, parts in found
    ]


def _visible(docstring: str) -> Iterator[tuple[int, str]]:
    """Yield (indentation, line) without code, doctests, tables and directives."""
    hidden: int | None = None  # lines indented deeper than this are code or a directive's body
    verbatim = fenced = False  # up to the next blank line; up to the closing fence
    for line in docstring.expandtabs().splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text and hidden is not None and indent <= hidden:
            hidden = None
        fence = _FENCE.match(text)
        if fence:
            fenced = not fenced
        verbatim = bool(text) and (verbatim or text.startswith(_VERBATIM))
        directive = _DIRECTIVE.fullmatch(text)
        if hidden is not None or verbatim or fenced or fence:
            text = ""
        elif directive:
            hidden = indent if directive["text"] is None else None
            yield indent, ""
            text = f"- {directive['text']}" if directive["text"] else ""  # as an item of a list
        yield indent, text
        if text.endswith("::"):
            hidden = indent


def _without_markup(text: str) -> str:
    plain = _MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), text)
    return " ".join(plain.split())


def extract(source: bytes, module: str) -> list[Document]:
    """Return a document for each docstring with prose; none if the source does not parse.

    Each paragraph holds its sentences of prose, joined; `docstring_sentences` splits them again.
    """
    try:
        docstrings = list(_docstrings(ast.parse(source), PurePath(module).stem))
    # RecursionError: for example hundreds of elif. MemoryError: the parser's stack overflowed.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    for name, docstring in docstrings:
        prose = []
        left_out: Counter[str] = Counter()
        for heading, parts in sections(docstring):
            paragraphs = []
            for _, part in parts:
                text = " ".join(filter(is_prose, docstring_sentences(part)))
                if what := paragraph_boilerplate(text):
                    left_out[what] += 1
                elif text:
                    paragraphs.append(text)
            if paragraphs:
                prose.append(Section(heading, int(bool(heading)), tuple(paragraphs)))
        if prose or left_out:
            title, pair = _in_words(name), natural_pair(docstring)
            found.append(Document(title, tuple(prose), dict(left_out), module, pair, "en"))
    return found


def prose_sentences(document: Document) -> list[str]:
    """Return the sentences of a document that `extract` made."""
    paragraphs = (text for section in document.sections for text in section.paragraphs)
    return [sentence for text in paragraphs for sentence in docstring_sentences(text)]


def _docstrings(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Yield (name, docstring), including calls like `add_docstr(torch.abs, "...")`."""
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield getattr(node, "name", module), ast.get_docstring(node) or ""
        elif isinstance(call := getattr(node, "value", None), ast.Call):
            function = call.func
            if "doc" in getattr(function, "id", getattr(function, "attr", "")):
                for leaf in ast.walk(call):
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                        yield _documented(call), inspect.cleandoc(leaf.value)


def _documented(call: ast.Call) -> str:
    """Return the name that an `add_docstr` call documents, such as "torch.abs"."""
    for argument in reversed(call.args):
        if isinstance(argument, (ast.Attribute, ast.Name)):
            return ast.unparse(argument)
        name = getattr(argument, "value", None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
    return ""


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements in it, not expressions, which are most of a tree."""
    yield node
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield from _statements(child)


def natural_pair(docstring: str) -> tuple[str, str] | None:
    r"""Return summary and next paragraph if a docstring begins with two paragraphs of prose.

    >>> natural_pair("Sort the rows.\n\nEqual rows stay in the order in which they were given.")
    >>> pair = natural_pair(
    ...     "Return the rows in ascending order.\n\nNotes\n-----\n"
    ...     "Equal ones stay in the order in which they were given, whatever the algorithm."
    ... )
    >>> pair[1]
    'Equal ones stay in the order in which they were given, whatever the algorithm.'
    """
    head = _EXAMPLES.split(docstring, maxsplit=1)[0]
    texts = [text for _, parts in sections(head) for indent, text in parts if indent == 0]
    if texts and _SIGNATURE.match(texts[0]):
        del texts[0]
    if len(texts) < 2:
        return None
    summary, description = texts[:2]
    fits = len(summary) <= 200 and 60 <= len(description) <= 1000
    repeats = summary.rstrip(".").casefold() in description.casefold()
    prose = all(is_prose(s) for text in (summary, description) for s in docstring_sentences(text))
    return (summary, description) if fits and prose and not repeats else None


def _in_words(name: str) -> str:
    """Return the last part of a name split into words; "" for names such as __init__.

    >>> _in_words("numpy.array_equal"), _in_words("a.RidgeCV"), _in_words("a.B.__init__")
    ('array equal', 'Ridge CV', '')
    """
    last = name.rpartition(".")[2]
    return "" if last.startswith("__") else " ".join(_PART_OF_NAME.findall(last))


if __name__ == "__main__":
    _main()
