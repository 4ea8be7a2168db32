"""The prose in a docstring: paragraphs without code and markup, sentences, what is English.

The rules are for reStructuredText, NumPy, Google and Markdown styles as found in the wild.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)(?<!al\.)(?<!Eq\.)(?<!Fig\.)(?<!Ref\.)"
    r"(?<!\b[A-Z]\.)[\"')]*\s+(?=[A-Z\"'(])"
)


def docstring_sentences(text: str) -> list[str]:
    """Cuts English at full stops before capitals, except after common abbreviations.

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
    """Whether a string is an English sentence, by a simple rule.

    It begins with a capital, ends with a full stop, question or exclamation mark, has 5 to 60
    words, no character of code or markup, at least three plain words in four, and at least one
    function word in six.

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


def paragraphs(docstring: str) -> list[tuple[int, str]]:
    """(indentation, text) of the paragraphs of a docstring, each on one line without markup.

    Code, doctests, tables, headings, directives and the types of parameters are left out. The
    description of a parameter, an item of a list and the body of a note are paragraphs, too; their
    indentation is positive.
    """
    return [paragraph for _, parts in sections(docstring) for paragraph in parts]


def sections(docstring: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """(heading, paragraphs) of the sections of a docstring; the first has no heading.

    The paragraphs are as `paragraphs` gives them. Headings are underlined; "Returns:" on a line of
    its own begins a section without a heading.
    """
    found: list[tuple[str, list[tuple[int, list[str]]]]] = [("", [])]
    rest: int | None = None  # indentation of the lines that go on with the last paragraph
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
    """(indentation, line) without code, doctests, tables and directives."""
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
    """The text with roles, links, literals, emphasis and footnote marks reduced to their words."""
    plain = _MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), text)
    return " ".join(plain.split())


_LONG = 5_000
"""Characters from which a paragraph goes to sentencex in stretches: it takes time by the square of
how many sentences follow each other without a blank."""
_STRETCH = re.compile(rf"(?s).{{1,{_LONG}}}[。！？](?![」』）”’])|.+")


def document_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of a paragraph of running text in any language, by sentencex.

    Args:
        text: one paragraph.
        language: an ISO 639 code; for one that sentencex does not know it takes a related one.

    >>> document_sentences("Dr. Hill sets sys.path. It works!")
    ['Dr. Hill sets sys.path.', 'It works!']
    >>> document_sentences("名前はまだ無い。どこで生れたか。", "ja")
    ['名前はまだ無い。', 'どこで生れたか。']
    """
    import sentencex

    sentences: list[str] = []
    stretches = [text] if len(text) <= _LONG else _STRETCH.findall(text)
    for piece in chain.from_iterable(sentencex.segment(language, part) for part in stretches):
        # A full stop with no space after it is within a name: sys._path.
        if sentences and sentences[-1][-1:] in (".", "!", "?"):
            sentences[-1] += piece
        elif piece.strip():
            sentences.append(piece)
    return [sentence.strip() for sentence in sentences]
