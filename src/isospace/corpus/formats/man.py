"""Man pages: what the macros of man(7) and mdoc(7) say, without groff or mandoc.

No maintained wheel reads them. SYNOPSIS and examples of code are left out; SEE ALSO gives links.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from isospace.corpus.documents import UnreadableDocument
from isospace.corpus.formats import mdoc
from isospace.corpus.formats.boilerplate import LICENCES
from isospace.corpus.formats.draft import Draft, decode, one_line
from isospace.corpus.formats.roff import Roff, arguments, plain

_SECTIONS = {
    "name": """NAME BEZEICHNUNG NOM NOMBRE NOME NAZWA NAAM NAMN NAVN JMÉNO NIMI AD İSİM НАЗВАНИЕ ИМЯ
        НАЗВА 名前 名称 名稱 이름""",
    "synopsis": """SYNOPSIS SYNTAX ÜBERSICHT SYNOPSE SINOPSIS SINOPSE SINOSSI SINTASSI SKŁADNIA
        OVERZICHT SAMENVATTING SYNOPS ÖZET POUŽITÍ SYNTAXE YLEISKATSAUS СИНТАКСИС КОРОТКИЙ_ОПИС
        КОРОТКИЙ_ОГЛЯД ОБЗОР 書式 大纲 概述 总览 개요 요약 SYNOPSIS_AND_USAGE""",
    "see also": """SEE_ALSO SIEHE_AUCH VOIR_AUSSI VÉASE_TAMBIÉN VEJA_TAMBÉM VEDERE_ANCHE
        ZOBACZ_TAKŻE ZIE_OOK SE_ÄVEN SE_OGSÅ VIZ_TAKÉ KATSO_MYÖS AYRICA_BAKINIZ СМОТРИТЕ_ТАКЖЕ
        СМ._ТАКЖЕ ДИВ._ТАКОЖ 関連項目 参见 추가_참조""",
    "authors": """AUTHOR AUTHORS AUTOR AUTOREN AUTEUR AUTEURS AUTORE AUTORI FORFATTER TEKIJÄ YAZAR
        АВТОР АВТОРЫ 著者 作者 저자 TRADUCTION ÜBERSETZUNG TŁUMACZENIE ПЕРЕВОД 翻訳 ÖVERSÄTTNING
        REPORTING_BUGS BUG_REPORTS CONTRIBUTORS FEHLER_MELDEN FEHLERBERICHTE
        KONTAKT_UND_FEHLERBERICHTE バグ報告 ИНФОРМАЦИЯ_ОБ_ОШИБКАХ COLOPHON この文書について""",
    "licences": "COPYRIGHT LICENSE LICENCE COPYING COPYRIGHT_AND_LICENSE 著作権 АВТОРСКИЕ_ПРАВА",
}
_KIND = {
    name.replace("_", " "): kind for kind, names in _SECTIONS.items() for name in names.split()
}
LEFT_OUT = {
    "synopsis": "synopses",
    "see also": "lists of references",
    "authors": "authors and bug reports",
    "licences": LICENCES,
}
"""Kinds of sections that are no prose, and what they are counted as."""
_REFERENCE = re.compile(r"([\w.:+@\[][\w.:+@\[-]*)\s?\((\d\w{0,8})\)")
_CODING = re.compile(r"-\*-.*\bcoding:\s*([\w-]+)")
_BULLET = re.compile(r"[•*+o·–—-]|\(?\w{1,2}[.)]|")
_END = re.compile(r"[.:;,!?…]\W*$")
_LONGEST_TERM = 120
_SKIPPED = {"TS": ("TE", "tables"), "EQ": ("EN", "formulas"), "PS": ("PE", "drawings")}

_ALTERNATING = frozenset({"BR", "BI", "IB", "IR", "RB", "RI"})
_FONTS = frozenset({"B", "I", "SM", "SB", "R", "CW"})
_CODE = {"nf": "fi", "EX": "EE", "Vb": "Ve"}
_SILENT = frozenset({"MT", "OP", "SY", "YS", "br"})


def section_kind(heading: str) -> str | None:
    """What a man page's section is for: "name", "synopsis", "see also", "authors", "licences".

    None is any other; the headings of translated pages are known.

    >>> section_kind("Siehe auch"), section_kind("FEHLERBERICHTE"), section_kind("FEHLER")
    ('see also', 'authors', None)
    """
    return _KIND.get(heading.upper().strip(" :"))


def references(text: str) -> list[str]:
    """The pages that a text names, such as "ls(1)"."""
    return [f"{name}({section})" for name, section in _REFERENCE.findall(text)]


def read_man(content: bytes, encoding: str | None) -> Draft:
    """The title is the text of NAME: "ls - list directory contents"."""
    coding = _CODING.search(content[:300].decode("ascii", "replace"))
    if encoding is None and coding:
        encoding = coding[1]
    try:
        text = decode(content, encoding)
    except UnreadableDocument:
        if encoding is not None:
            raise
        text = decode(content, "latin-1")  # as man itself does
    if not re.search(r"^[.'][ \t]*(?:TH|SH|Sh|Dd|so)\b", text, re.MULTILINE):
        raise UnreadableDocument("It is no man page: neither .TH nor .Dd nor .so is in it.")
    page = Page()
    for name, rest in Roff(_STANDARD).lines(text):
        page.line(name, rest)
    return page.finish()


class Page:
    """What the macros of a page have said so far."""

    def __init__(self) -> None:
        self.draft = Draft()
        self._words: list[str] = []
        self._kind: str | None = None  # of the section
        self._sections = 0
        self._page = ""  # ls(1), of the page's first macro
        self._code = ""  # the macro that ends what is left out
        self._skipping = ""  # the macro that ends a table
        self._skipped = ""  # what a table is counted as
        self._item = False
        self._term = ""
        self._term_next = False  # the next text is the tag of a paragraph
        self._heading_level = 0  # the next text is a heading
        self._mdoc = mdoc.Mdoc(self)

    def line(self, name: str, rest: str) -> None:
        """One line: a macro with the rest of its line, or text."""
        if self._skipping:
            self.draft.leave_out(self._skipped, 0, rest)
            self._skipping = "" if name == self._skipping else self._skipping
        elif name in _SKIPPED:
            self._skipping, self._skipped = _SKIPPED[name]
            self.draft.leave_out(self._skipped)
        elif not name:
            self._text_line(rest)
        elif name in mdoc.MACROS and (self._mdoc.begun or name == "Dd"):
            self._mdoc.line(name, [plain(word) for word in arguments(rest)])
        else:
            self._macro(name, arguments(rest))

    def finish(self) -> Draft:
        """The page at its end."""
        self.end()
        if not self.draft.title:
            self.draft.title = self._page
        return self.draft

    def _text_line(self, text: str) -> None:
        if not text.strip():
            self.end()
        else:
            self.text(plain(text), glue=text.endswith("\\c"))

    def text(self, text: str, glue: bool = False) -> None:
        """Words of the running text; `glue` is for no space after them."""
        if self._code and self._kind not in ("name", "see also"):
            self.draft.leave_out("code blocks", 0, text)
            return
        if self._heading_level:
            level, self._heading_level = self._heading_level, 0
            self.section(text, level)
            return
        self._words.append(text if glue else text + "\n")
        if self._term_next and not glue:
            self._term_next = False
            self.term("".join(self._words))
            self._words = []

    def term(self, text: str) -> None:
        """What the next paragraph describes; several terms may stand before one."""
        text = one_line(text)
        if text and not _BULLET.fullmatch(text):
            self._term = f"{self._term}, {text}" if self._term else text
        self._item = True

    def begin_item(self) -> None:
        """An item of a list, whose text follows."""
        self.end()
        self._item = True

    def end(self) -> None:
        """A paragraph ends."""
        text = one_line("".join(self._words)).replace("``", '"').replace("''", '"')
        self._words = []
        self._term_next = False
        if not text:
            return
        if self._kind == "name":
            self._name(text)
        elif self._kind in LEFT_OUT:
            self.draft.leave_out(LEFT_OUT[self._kind], 0, text)
            if self._kind == "see also":
                for page in references(text):
                    self.draft.link(page)
        elif self._item:
            self.draft.item(f"{self._term}: {text}" if self._term else text)
            self._term = ""
        else:
            self.draft.paragraph(text)

    def _name(self, text: str) -> None:
        if self.draft.title in ("", self._page) and len(text) <= 300:
            title = re.sub(r"\s+(?:--?|[–—])\s+", " - ", text, count=1)
            self.draft.title = title.removesuffix(" -")  # docutils writes it where nothing follows
        else:
            self.draft.paragraph(text)

    def end_list(self) -> None:
        """What follows is no item."""
        self.end()
        if self._term and self._kind not in LEFT_OUT:  # a term without a text
            self.draft.item(self._term)
        self._term = ""
        self._item = False

    def section(self, heading: str, level: int) -> None:
        """A section begins; what it is for is known by its heading."""
        self.end_list()
        heading = one_line(heading)
        if level == 1:
            self._sections += 1
            self._kind = section_kind(heading)
            if self._kind in LEFT_OUT:
                self.draft.leave_out(LEFT_OUT[self._kind])
        if self._kind is None:
            if not self.draft.title:
                self.draft.title = self._page
            self.draft.heading(heading, level)

    def named(self, page: str) -> None:
        """The page's own name, such as "ls(1)"."""
        self._page = self._page or page

    def code(self, end: str) -> None:
        """Up to the macro `end` stands code."""
        if not self._code and self._kind not in ("name", "see also", "synopsis"):
            self.draft.leave_out("code blocks")
        self._code = end

    def end_code(self) -> None:
        """The code ends."""
        self._code = ""

    def _macro(self, name: str, args: list[str]) -> None:
        words = [plain(arg) for arg in args]
        if name in _ALTERNATING:
            self.text("".join(words), glue=bool(args) and args[-1].endswith("\\c"))
        elif name in _FONTS:
            if words:
                self.text(" ".join(words), glue=args[-1].endswith("\\c"))
        elif name in _CODE:
            self.code(_CODE[name])
        elif self._code and name in _CODE.values():
            self.end_code()
        else:
            action = _ACTIONS.get(name)
            if action:
                action(self, words)

    def _title_line(self, words: list[str]) -> None:
        if len(words) > 1:
            self.named(f"{words[0].lower() if words[0].isupper() else words[0]}({words[1]})")

    def _heading(self, words: list[str], level: int) -> None:
        self.end_code()
        if words:
            self.section(" ".join(words), level)
        else:
            self.end_list()
            self._heading_level = level

    def _tagged(self, words: list[str]) -> None:
        self.end()
        self._item = True
        self._term_next = True

    def _further_in(self, words: list[str]) -> None:
        """`.RS`: a line that stands alone before it is a term, as DocBook and AsciiDoc write it."""
        text = one_line("".join(self._words))
        term = 0 < len(text) <= _LONGEST_TERM and not _END.search(text) and not self._term
        if term and self._kind is None:
            self._words = []
            self.term(text)
        else:
            self.end()

    def _indented(self, words: list[str]) -> None:
        self.begin_item()
        if words:
            self.term(words[0])

    def _address(self, words: list[str]) -> None:
        if words:
            self.draft.link(words[0])

    def _address_end(self, words: list[str]) -> None:
        if words and self._words:
            self._words[-1] = self._words[-1].rstrip("\n") + words[0] + "\n"

    def _reference(self, words: list[str]) -> None:
        if len(words) > 1:
            self.text(f"{words[0]}({words[1]}){''.join(words[2:3])}")

    def _other_file(self, words: list[str]) -> None:
        """The page is another's: `.so man1/gzip.1`."""
        match = re.fullmatch(r"(?:.*/)?([^/]+)\.(\d\w*)(?:\.gz)?", words[0]) if words else None
        if match:
            self.draft.link(f"{match[1]}({match[2]})")


_ACTIONS: dict[str, Callable[[Page, list[str]], None]] = {
    "TH": Page._title_line,
    "SH": lambda page, words: page._heading(words, 1),
    "SS": lambda page, words: page._heading(words, 2),
    "TP": Page._tagged,
    "TQ": Page._tagged,
    "IP": Page._indented,
    "RS": Page._further_in,
    "UR": Page._address,
    "UE": Page._address_end,
    "ME": Page._address_end,
    "MR": Page._reference,
    "so": Page._other_file,
    **dict.fromkeys(("sp", "RE"), lambda page, words: page.end()),
    **dict.fromkeys(("PP", "P", "LP", "HP"), lambda page, words: page.end_list()),
}
_STANDARD = frozenset(
    {*_ALTERNATING, *_FONTS, *_CODE, *_CODE.values(), *_SILENT, *_ACTIONS, *_SKIPPED, *mdoc.MACROS}
) - {"PS"}
"""What no page defines anew; a PS of its own is code more often than a picture."""
