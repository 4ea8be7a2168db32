"""Man pages: mandoc converts man(7) and mdoc(7) to HTML, which the reader of HTML reads.

SYNOPSIS, SEE ALSO and code examples are left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile

from isospace.corpus.formats import LICENCES, MANDOC, Draft, UnreadableDocument, decode
from isospace.corpus.formats.html import add_html

_SECTIONS = {
    "name": """NAME BEZEICHNUNG NOM NOMBRE NOME NAZWA NAAM NAMN NAVN JMÉNO NIMI AD İSİM НАЗВАНИЕ ИМЯ
        НАЗВА 名前 名称 名稱 이름""",
    "synopses": """SYNOPSIS SYNTAX ÜBERSICHT SYNOPSE SINOPSIS SINOPSE SINOSSI SINTASSI SKŁADNIA
        OVERZICHT SAMENVATTING SYNOPS ÖZET POUŽITÍ SYNTAXE YLEISKATSAUS СИНТАКСИС КОРОТКИЙ_ОПИС
        КОРОТКИЙ_ОГЛЯД ОБЗОР 書式 大纲 概述 总览 개요 요약 SYNOPSIS_AND_USAGE""",
    "lists of references": """SEE_ALSO SIEHE_AUCH VOIR_AUSSI VÉASE_TAMBIÉN VEJA_TAMBÉM VEDERE_ANCHE
        ZOBACZ_TAKŻE ZIE_OOK SE_ÄVEN SE_OGSÅ VIZ_TAKÉ KATSO_MYÖS AYRICA_BAKINIZ СМОТРИТЕ_ТАКЖЕ
        СМ._ТАКЖЕ ДИВ._ТАКОЖ 関連項目 参见 추가_참조""",
    "authors and bug reports": """AUTHOR AUTHORS AUTOR AUTOREN AUTEUR AUTEURS AUTORE AUTORI
        FORFATTER TEKIJÄ YAZAR АВТОР АВТОРЫ 著者 作者 저자 TRADUCTION ÜBERSETZUNG TŁUMACZENIE
        ПЕРЕВОД 翻訳 ÖVERSÄTTNING REPORTING_BUGS BUG_REPORTS CONTRIBUTORS FEHLER_MELDEN
        FEHLERBERICHTE KONTAKT_UND_FEHLERBERICHTE バグ報告 ИНФОРМАЦИЯ_ОБ_ОШИБКАХ COLOPHON
        この文書について""",
    LICENCES: "COPYRIGHT LICENSE LICENCE COPYING COPYRIGHT_AND_LICENSE 著作権 АВТОРСКИЕ_ПРАВА",
}
"""Kind of a section, the name of its count -> headings in several languages, with _ for blanks."""
_KIND = {
    name.replace("_", " "): kind for kind, names in _SECTIONS.items() for name in names.split()
}
_CODING = re.compile(r"-\*-.*\bcoding:\s*([\w-]+)")
_IS_PAGE = re.compile(r"^[.'][ \t]*(?:TH|SH|Sh|Dd)\b", re.MULTILINE)
_TITLE = re.compile(r'<td class="head-ltitle">(.*?)</td>')
_WITHOUT = re.compile(r'<table class="(?:head|foot|Nm)">.*?</table>', re.DOTALL)
_CODE = re.compile(r'<div class="Bd Bd-indent">(.*)</div>')  # a separate line
# A single line before indented text is a term, as DocBook and AsciiDoc write it.
_TERM = re.compile(
    r'<p class="Pp">((?:(?!</p>).){1,300}[^.:;,!?\s])</p>\s*<div class="Bd-indent">', re.DOTALL
)
# The bullet or number of an item.
_BULLET = re.compile(r"<dt[^>]*>(?:<[^>]*>)*(?:&#x\w+;|[*+o-]|\(?\w{1,2}[.)])(?:<[^>]*>)*</dt>")
_DASH = re.compile(r"\s+(?:--?|[–—])(?:\s+|$)")


def section_kind(heading: str) -> str | None:
    """Return the kind of a man page's section, or `None`; headings may be translated.

    >>> section_kind("Siehe auch"), section_kind("FEHLERBERICHTE"), section_kind("FEHLER")
    ('lists of references', 'authors and bug reports', None)
    """
    return _KIND.get(heading.upper().strip(" :"))


def read(content: bytes, encoding: str | None) -> Draft:
    """Read a man page; its title is the text of NAME, such as "ls - list directory contents"."""
    text = _decoded(content, encoding)
    draft = Draft()
    if not _IS_PAGE.search(text):
        raise UnreadableDocument("It is not a man page, or it only names another one.")
    html = _as_html(text)
    head = _TITLE.search(html)
    # Set a title, so that no section heading becomes the title.
    page = head[1] if head else "man page"
    draft.title = page = page.lower() if page.isupper() else page
    html = _BULLET.sub("", _WITHOUT.sub("", html))
    html = _TERM.sub(r'<div class="Bd-indent">\1: ', html)
    add_html(draft, _CODE.sub(r"<pre>\1</pre>", html))
    draft.end_list()
    sections, kind = draft.sections, None
    draft.sections = []
    for heading, level, paragraphs in sections:
        if level <= 1:
            kind = section_kind(heading)
        if kind is None:
            draft.sections.append((heading, level, paragraphs))
        elif kind != "name":
            draft.leave_out(kind, int(level <= 1))
        elif paragraphs and draft.title == page:
            draft.title = _DASH.sub(" - ", paragraphs[0], count=1).removesuffix(" - ")
            draft.sections.append(("", 0, paragraphs[1:]))
    return draft


def _decoded(content: bytes, encoding: str | None) -> str:
    """Decode a page by its "coding:" line, else as UTF-8, else as Latin-1, like man."""
    coding = _CODING.search(content[:300].decode("ascii", "replace"))
    if encoding is None and coding:
        encoding = coding[1]
    try:
        return decode(content, encoding)
    except UnreadableDocument:
        if encoding is not None:
            raise
        return decode(content, "latin-1")


def _as_html(page: str) -> str:
    program = shutil.which(MANDOC)
    if program is None:
        raise UnreadableDocument(
            f"Man pages need the program {MANDOC}; install it: apt install {MANDOC}"
        )
    command = [program, "-K", "utf-8", "-T", "html", "-O", "fragment"]
    # Run in an empty folder, because a page can make mandoc read files below its folder.
    with tempfile.TemporaryDirectory(prefix="isospace-") as folder:
        done = subprocess.run(
            command, cwd=folder, input=page.encode(), capture_output=True, timeout=60
        )
    if done.returncode < 0 or not done.stdout:
        raise UnreadableDocument(f"{MANDOC} cannot read it.")
    return done.stdout.decode("utf-8", "replace")
