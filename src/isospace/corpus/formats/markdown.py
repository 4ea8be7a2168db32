"""Markdown: CommonMark with tables, front matter and extensions of site generators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from isospace.corpus.formats.draft import Draft, decode
from isospace.corpus.formats.html import add_html

if TYPE_CHECKING:
    from markdown_it.token import Token

# YAML, or Hugo's TOML. After three hyphens, YAML has a key, or "{{" in a template; otherwise they
# are a rule between paragraphs.
_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n(?=(?:#[^\n]*\n)*(?:[\"']?[\w.-]+[\"']?:\s|\{)).*?^(?:---|\.\.\.)"
    r"|\+\+\+[ \t]*\n.*?^\+\+\+)[ \t]*$\n?",
    re.DOTALL | re.MULTILINE,
)
_TITLE = re.compile(
    r"^title(?::|[ \t]*=)[ \t]*(?:\"(.*)\"|'(.*)'|(?![ \t]*[>|][+-]?[ \t]*$)(.*?))"
    r"(?:[ \t]+#.*)?[ \t]*$",
    re.MULTILINE,
)
# MkDocs: `!!! note "Title"`. Docusaurus and MyST: `:::note`. GitHub: `[!NOTE]`.
_ADMONITION = re.compile(
    r"^(?:(?:!!!|\?\?\?\+?)[ \t]+[\w -]+?(?:[ \t]+\"(?P<title>[^\"]*)\")?[ \t]*$"
    r"|:{3,}.*$|\[!\w+\][ \t]*$)",
    re.MULTILINE,
)
_HEADING_ID = re.compile(r"[ \t]*\{[#.:][^}]*\}[ \t]*$")
_FOOTNOTE = re.compile(r"\A\[\^[^\]]+\]:")
_FOOTNOTE_MARK = re.compile(r"\[\^[^\]]+\]")
_FENCED_PROSE = re.compile(
    r"\{(?:admonition|note|warning|tip|hint|important|attention|caution|danger|seealso|"
    r"versionadded|versionchanged|deprecated|dropdown|card|tab-item)\}"
)
_FORMULA = re.compile(r"\s*\$\$.*\$\$\s*", re.DOTALL)
_OPTIONS = re.compile(r"\A(?::[\w-]+:.*\n)+")


def read_markdown(content: bytes, encoding: str | None) -> Draft:
    """Read Markdown; the title is from the front matter, else the first heading of level 1."""
    draft = Draft()
    text = decode(content, encoding)
    front = _FRONT_MATTER.match(text)
    if front:
        text = text[front.end() :]
        title = _TITLE.search(front[0])
        draft.title = next(filter(None, title.groups()), "") if title else ""
    _add_markdown(draft, text)
    return draft


def _add_markdown(draft: Draft, text: str) -> None:
    from markdown_it import MarkdownIt

    walk = _Walk(draft)
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        walk.token(token)


class _Walk:
    """Converter from the parser's tokens to paragraphs."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._items: list[list[str]] = []  # paragraphs of each open list item
        self._table = False
        self._heading = 0

    def token(self, token: Token) -> None:
        """Process the next token."""
        kind = token.type
        if kind in ("table_open", "table_close"):
            self._table = kind == "table_open"
            self._draft.leave_out("tables", int(self._table))
        elif kind == "heading_open":
            self._heading = int(token.tag[1:])
        elif kind == "list_item_open":
            self._end_item()
            self._items.append([])
        elif kind == "list_item_close":
            self._end_item()
            self._items.pop()
        elif kind in ("bullet_list_close", "ordered_list_close"):
            if not self._items:
                self._draft.end_list()
        elif kind in ("code_block", "fence"):
            self._code(token)
        elif kind == "html_block":
            self._end_item()
            add_html(self._draft, token.content)
        elif kind == "inline":
            self._text(token)

    def _code(self, token: Token) -> None:
        if _FENCED_PROSE.match(token.info):
            self._end_item()
            _add_markdown(self._draft, _OPTIONS.sub("", token.content))
        else:
            formula = token.info.strip() in ("math", "{math}")
            self._draft.leave_out("formulas" if formula else "code blocks")

    def _text(self, token: Token) -> None:
        if self._table:
            return
        words = _inline(token)
        if self._heading:
            self._draft.heading(_HEADING_ID.sub("", words), self._heading)
            self._heading = 0
        elif _FOOTNOTE.match(words):
            self._draft.leave_out("footnotes")
        elif _FORMULA.fullmatch(words):
            self._draft.leave_out("formulas")
        else:
            words = _ADMONITION.sub(lambda match: match["title"] or "", words)
            words = _FOOTNOTE_MARK.sub("", words)
            if self._items:
                self._items[-1].append(words)
            else:
                self._draft.paragraph(words)

    def _end_item(self) -> None:
        """Add the paragraphs of the innermost item to the draft as one text."""
        if self._items and self._items[-1]:
            self._draft.item("\n".join(self._items[-1]))
            self._items[-1] = []


def _inline(token: Token) -> str:
    """Return the words of a run of text; images and HTML tags have none."""
    words = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            words.append(child.content)
        elif child.type in ("softbreak", "hardbreak") or child.content[:3].lower() == "<br":
            words.append("\n")
    return "".join(words)
