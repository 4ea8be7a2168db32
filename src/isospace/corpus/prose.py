"""The English prose in docstrings: paragraphs without code and markup, cut into sentences.

The rules cover the styles of reStructuredText, NumPy, Google and Markdown as people use them.
`docstrings` runs this module as a program to read files, so the module imports nothing heavy.
"""

from __future__ import annotations

import ast
import gc
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path, PurePath

from isospace.corpus.formats import Document, Section

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

    A sentence begins with a capital and ends with a full stop, question or exclamation mark. It has
    5 to 60 words and no character of code or markup. At least 3 in 4 words are plain words, and at
    least 1 in 6 is a function word.

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

    A paragraph is on one line without markup. Code, doctests, tables, directives and the types of
    parameters are left out. A parameter's description, a list item and the body of a note are
    paragraphs with a positive indentation. The first section has no heading. An underlined line is
    a heading; a line such as "Returns:" begins a section without heading.
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
    """Replace roles, links, literals, emphasis and footnote marks by their words."""
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
        for heading, parts in sections(docstring):
            texts = (" ".join(filter(is_prose, docstring_sentences(text))) for _, text in parts)
            if paragraphs := tuple(filter(None, texts)):
                prose.append(Section(heading, int(bool(heading)), paragraphs))
        if prose:
            found.append(
                Document(
                    _in_words(name),
                    tuple(prose),
                    group=module,
                    summary_next=natural_pair(docstring),
                    language="en",
                )
            )
    return found


def prose_sentences(document: Document) -> list[str]:
    """Return the sentences of a document that `extract` made, in order and with repetitions."""
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


def _main() -> None:
    """Read (path, module) pairs as JSON from standard input; write the documents as JSON."""
    gc.disable()  # syntax trees have no cycles, and the collector would use a sixth of the time
    warnings.simplefilter("ignore")  # SyntaxWarnings of other people's code
    found: list[Document] = []
    for path, module in json.load(sys.stdin):
        with suppress(OSError):  # for example a file without read permission
            found += extract(Path(path).read_bytes(), module)
    json.dump([astuple(one) for one in found], sys.stdout)


if __name__ == "__main__":
    _main()
