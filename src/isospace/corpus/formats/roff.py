"""The roff language under man pages: comments, conditions, strings, macros and escapes.

What moves the pen (sizes, motions, drawings) says nothing and is dropped; groff(7) has the list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

_CHARACTERS = {
    **{"bu": "•", "co": "©", "rg": "®", "tm": "™", "em": "—", "en": "–", "hy": "-", "mi": "-"},
    **{"lq": "“", "rq": "”", "oq": "‘", "cq": "’", "aq": "'", "dq": '"', "Bq": "„", "bq": "‚"},
    **{"Fo": "«", "Fc": "»", "fo": "‹", "fc": "›", "rs": "\\", "bs": "\\", "sl": "/", "ti": "~"},
    **{"ha": "^", "ga": "`", "aa": "´", "at": "@", "sh": "#", "ba": "|", "br": "|", "or": "|"},
    **{"bv": "|", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "<", "ra": ">", "Do": "$"},
    **{"ul": "_", "ru": "_", "en dash": "–", "**": "*", "pl": "+", "eq": "=", "mu": "×", "di": "÷"},
    **{"+-": "±", "<=": "≤", ">=": "≥", "!=": "≠", "==": "≡", "~~": "≈", "->": "→", "<-": "←"},
    **{"ua": "↑", "da": "↓", "rA": "⇒", "lA": "⇐", "if": "∞", "de": "°", "mc": "µ", "sc": "§"},
    **{"ps": "¶", "dg": "†", "dd": "‡", "14": "¼", "12": "½", "34": "¾", "S1": "¹", "S2": "²"},
    **{"S3": "³", "ct": "¢", "Po": "£", "Ye": "¥", "Eu": "€", "eu": "€", "ss": "ß", "AE": "Æ"},
    **{"ae": "æ", "OE": "Œ", "oe": "œ", "/O": "Ø", "/o": "ø", "/L": "Ł", "/l": "ł", "oA": "Å"},
    **{"oa": "å", "Sd": "ð", "-D": "Ð", "Tp": "þ", "TP": "Þ", ".i": "ı", "r!": "¡", "r?": "¿"},
    **{"fm": "′", "sd": "″", "sq": "□", "ci": "○", "lz": "◊", "OK": "✓", "pc": "·", "a~": "~"},
    **{"*a": "α", "*b": "β", "*l": "λ", "*m": "μ", "*p": "π", "*s": "σ", "*D": "Δ", "*S": "Σ"},
}
_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", ":": "\u0308", "~": "\u0303"} | {
    **{",": "\u0327", "v": "\u030c", "u": "\u0306", "-": "\u0304"}
}
_SINGLE = {"-": "-", "e": "\\", "\\": "\\", "E": "\\", " ": " ", "~": " ", "0": " ", "t": " "} | {
    **{"'": "'", "`": "`", ".": ".", "_": "_", "s": ""}
}
_NAME = r"(?:\[(?P<{0}long>[^\]]*)\]|\((?P<{0}two>..)|(?P<{0}one>.))"
_STRING = re.compile(r"\\\*" + _NAME.format(""))
_ESCAPE = re.compile(
    r"\\(?:"
    + r"[fFmMgkVnYO][+-]?(?:\[[^\]]*\]|\(..|.)"
    + r"|s(?:[+-]?(?:\[[^\]]*\]|'[^']*'|\([+-]?\d\d|[1-3]\d|\d))"
    + r"|[hvwblLDARZXSHBx](?P<delimiter>[^\w\s])(?:(?!(?P=delimiter)).)*(?P=delimiter)"
    + r"|o'(?P<over>[^']*)'"
    + r"|C'(?P<called>[^']*)'|N'(?P<code>\d+)'"
    + r"|\[(?P<long>[^\]]*)\]|\((?P<two>..)"
    + r"|(?P<single>.)|$)"
)
_COMMENT = re.compile(r'(?<!\\)((?:\\\\)*)\\["#].*')
_REQUEST = re.compile(r"[.'][ \t]*([^\s\\]+|\\[{}])?[ \t]*(.*)")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|[^ \t\\])+)')
_PARAMETER = re.compile(r"\\\\?\$(?:([1-9*@])|\[([1-9*@])\]|\(0([1-9]))")
_LONGEST = 1 << 20  # characters of a line with the strings that it names
_EXPANDED = 100_000  # calls of a page's own macros, which may call each other


class Roff:
    """A page's lines with conditions decided, and the page's own strings and macros expanded.

    Args:
        standard: names of the macros that a page cannot define anew.
    """

    def __init__(self, standard: frozenset[str]) -> None:
        self._standard = standard
        self._strings = {"R": "®", "Tm": "™", "lq": "“", "rq": "”", "S": ""}
        self._macros: dict[str, list[str]] = {}
        self._calls = 0
        self._last_condition: list[bool] = []  # for .el
        self._hidden = 0  # braces of a block whose condition is false

    def lines(self, text: str) -> Iterator[tuple[str, str]]:
        r"""(macro, rest of its line) or ("", text); escapes are still in them.

        >>> page = ".if t .B no\n.ds T one\n.de X\n.B \\\\$1\n..\n.X \\*T\nplain \\fItext"
        >>> list(Roff(frozenset({"B"})).lines(page))
        [('B', 'one'), ('', 'plain \\fItext')]
        """
        joined = text.replace("\\\n", "")
        yield from self._expand(joined.split("\n"))

    def _expand(self, lines: list[str]) -> Iterator[tuple[str, str]]:
        rest = iter(lines)
        for line in rest:
            yield from self._line(line, rest)

    def _line(self, line: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
        if self._hidden:
            self._hidden += line.count("\\{") - line.count("\\}")
            self._hidden = max(self._hidden, 0)
            return
        line = _COMMENT.sub(r"\1", line)
        request = _REQUEST.fullmatch(line) if line[:1] in (".", "'") else None
        if request is None:
            yield "", self._with_strings(line.replace("\\}", ""))
            return
        name, rest_of_line = request[1] or "", request[2]
        if name in ("if", "ie", "while"):
            yield from self._condition(name, rest_of_line, rest)
        elif name == "el":
            holds = not self._last_condition.pop() if self._last_condition else False
            yield from self._branch(holds, rest_of_line, rest)
        elif name in ("de", "de1", "am", "am1", "ig", "dei", "ami"):
            self._define(name, rest_of_line.split(), rest)
        elif name in ("ds", "ds1", "as", "as1"):
            self._define_string(name, rest_of_line)
        elif name in self._macros and name not in self._standard and self._calls < _EXPANDED:
            self._calls += 1
            body = self._macros.pop(name)  # what calls itself has no end
            yield from self._expand(_called(body, rest_of_line))
            self._macros.setdefault(name, body)
        elif name.strip("\\{}"):
            yield name, self._with_strings(rest_of_line.replace("\\}", ""))

    def _condition(self, name: str, line: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
        line = self._with_strings(line).replace("\\n(.g", "1").replace("\\n[.g]", "1")
        wanted = True
        while line.startswith("!"):
            wanted, line = not wanted, line[1:].lstrip()
        test = re.match(r"'([^']*)'([^']*)'|\"([^\"]*)\"([^\"]*)\"|[a-z](?=[ \t\\.]|$)", line)
        if test is None:
            test = re.match(r"\((?:[^\s]|\\ )*\)|\S+?(?=\\\{|\s|$)", line)
        condition = test[0] if test else ""
        if condition[:1] in ("'", '"') and condition.count(condition[0]) == 3:
            holds = condition[1:-1].split(condition[0])[0] == condition[1:-1].split(condition[0])[1]
        else:
            holds = condition in ("n", "1")  # a terminal, and groff; the rest is for printing
        holds = holds == wanted and name != "while"
        if name == "ie":
            self._last_condition.append(holds)
        yield from self._branch(holds, line[len(condition) :].lstrip(), rest)

    def _branch(self, holds: bool, line: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
        if not holds:
            self._hidden = max(line.count("\\{") - line.count("\\}"), 0)
            return
        line = line.removeprefix("\\{").lstrip()
        if line:
            yield from self._line(line, rest)

    def _define(self, kind: str, names: list[str], rest: Iterator[str]) -> None:
        end = "." + (names[1] if kind != "ig" and len(names) > 1 else "")
        if kind == "ig" and names:
            end = "." + names[0]
        body = []
        for line in rest:
            if re.fullmatch(r"[.']\s*" + re.escape(end.removeprefix(".") or ".") + r"\s*", line):
                break
            body.append(line)
        if kind.startswith("de") and names:
            self._macros[names[0]] = body

    def _define_string(self, kind: str, line: str) -> None:
        name, _, value = line.partition(" ")
        value = value.lstrip(" ").removeprefix('"').replace("\\\\", "\\")
        before = self._strings.get(name, "") if kind.startswith("as") else ""
        self._strings[name] = before + value

    def _with_strings(self, line: str) -> str:
        for _ in range(4):  # strings in strings
            if len(line) + sum(len(self._string(m)) for m in _STRING.finditer(line)) > _LONGEST:
                break
            line, found = _STRING.subn(self._string, line)
            if not found:
                break
        return line

    def _string(self, match: re.Match[str]) -> str:
        name = match["long"] or match["two"] or match["one"] or ""
        return self._strings.get(name.split(" ")[0], "")


def _called(body: list[str], line: str) -> list[str]:
    """The lines of a macro that is called with a line of arguments."""
    given = arguments(line)

    def value(match: re.Match[str]) -> str:
        which = match[1] or match[2] or match[3]
        if which in "*@":
            return " ".join(given)
        return given[int(which) - 1] if int(which) <= len(given) else ""

    return [_PARAMETER.sub(value, each).replace("\\\\", "\\") for each in body]


def arguments(line: str) -> list[str]:
    r"""A macro's arguments, with their escapes.

    >>> arguments('"two words" "a ""b"" c"')
    ['two words', 'a "b" c']
    """
    return [
        match[1].replace('""', '"') if match[1] is not None else match[2]
        for match in _ARGUMENT.finditer(line)
    ]


def plain(text: str) -> str:
    r"""The text with its escapes resolved.

    >>> plain(r"\fBls\fR \-l, caf\('e, \[u4E2D]\[bu] a\%b \s-1SMALL\s0 c:\e \h'1n'end")
    'ls -l, café, 中• ab SMALL c:\\ end'
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    found: Mapping[str, str | None] = match.groupdict()
    name = found["long"] or found["two"] or found["called"]
    if name:
        return _named(name)
    if found["code"]:
        return chr(int(found["code"])) if 32 <= int(found["code"]) < 0x110000 else ""
    if found["over"]:
        return _accented(plain(found["over"]))
    return _SINGLE.get(found["single"] or "", "")


def _named(name: str) -> str:
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    codes = re.fullmatch(r"u([0-9A-F]{4,6}(?:_[0-9A-F]{4,6})*)", name)
    if codes:
        values = [int(code, 16) for code in codes[1].split("_")]
        return "".join(chr(value) for value in values if value < 0x110000)
    if re.fullmatch(r"char\d{1,5}", name):
        return chr(int(name[4:]))
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    base, _, accent = name.partition(" ")
    return _named(base) if accent else ""


def _accented(both: str) -> str:
    """A letter and the accent that is struck over it."""
    letters = [character for character in both if character.isalnum()]
    marks = [_ACCENTS[character] for character in both if character in _ACCENTS]
    return unicodedata.normalize("NFC", "".join(letters[:1] + marks[:1]))
