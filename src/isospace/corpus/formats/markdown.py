"""Markdown: markdown-it converts it to HTML, which the reader of HTML reads.

It is CommonMark with tables, front matter and extensions of site generators.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from isospace.corpus.formats import Draft, decode
from isospace.corpus.formats.html import add_html, closed

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


def read(content: bytes, encoding: str | None) -> Draft:
    """Read Markdown; the title is from the front matter, else the first heading of level 1."""
    draft = Draft()
    text = decode(content, encoding)
    front = _FRONT_MATTER.match(text)
    if front:
        text = text[front.end() :]
        title = _TITLE.search(front[0])
        draft.title = next(filter(None, title.groups()), "") if title else ""
    add_html(draft, _as_html(text))
    return draft


def _as_html(text: str) -> str:
    """Return Markdown as HTML; formulas and footnotes get the classes that sites give them."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    for token in tokens:
        html = None
        if token.type == "fence" and _FENCED_PROSE.match(token.info):
            html = _as_html(_OPTIONS.sub("", token.content))
        elif token.info.strip() in ("math", "{math}") or _FORMULA.fullmatch(token.content):
            html = '<div class="math"></div>'
        elif token.type == "inline" and _FOOTNOTE.match(token.content):
            html = '<div class="footnote"></div>'
        elif token.type == "html_block":
            html = closed(token.content)
        if html is not None:
            token.type, token.content = "html_block", html
        for child in token.children or ():
            if child.type == "text":
                words = _ADMONITION.sub(lambda match: match["title"] or "", child.content)
                child.content = _HEADING_ID.sub("", _FOOTNOTE_MARK.sub("", words))
            elif child.type == "html_inline" and child.content[:3].lower() != "<br":
                child.content = ""
    return str(parser.renderer.render(tokens, parser.options, {}))
