"""HTML: the main content of a page, as Sphinx, MkDocs, Doxygen, Javadoc and others write it.

Tables of data are left out. A table with a long cell is read cell by cell, since newsletters,
forums and old manuals lay out their pages by tables. trafilatura is not used, because in a trial it
lost a definition list on two of six pages.
"""

from __future__ import annotations

import codecs
import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from isospace.corpus.formats import NAVIGATION, Draft, UnreadableDocument, decode, is_text
from isospace.corpus.lines import clean

_LEFT_OUT = {
    "nav": NAVIGATION,
    "header": NAVIGATION,
    "footer": NAVIGATION,
    "aside": NAVIGATION,
    "menu": NAVIGATION,
    "pre": "code blocks",
    "table": "tables",
    "math": "formulas",
}
_SILENT = frozenset(
    (
        "script style noscript template head svg canvas iframe object video audio img button "
        "select input textarea label legend datalist -comment link meta"
    ).split()
)
_NAVIGATION = (
    "[role=navigation], [role=search], [role=banner], [role=contentinfo], .related, .sphinxsidebar,"
    " .toctree-wrapper, #toc, .toc, .contents, .breadcrumb, .breadcrumbs, .navheader, .navfooter,"
    " .navigation, .nav-panel, .footer, .sub-title, .inherited-list, .genindex-jumpbox,"
    " .modindex-jumpbox, .sidebar:not(:has(> .sidebar-title)), .sidebar:has(nav),"
    " .sidebar:has(> .sidebar-title:first-child + ul:last-child),"
    " .sidebar:has(> .sidebar-title:first-child + ol:last-child)"
)
"""Selectors of navigation; a sidebar with a title of its own is text of a Sphinx page, if it has
more than one list."""
_MARKS = (
    ".headerlink, .anchor-link, .hash-link, a.mark, [aria-hidden=true], .linenos, sup.footnote-ref,"
    " [role=doc-noteref], a.footnote-reference, a.footnote-ref, a.citation-reference,"
    " .md-content__button"
)
_CODE = (
    ".highlight, .codehilite, .literal-block, div.fragment, .doctest, .sourceCode, .programlisting"
)
_WITHOUT = (
    (_MARKS, None),
    (".footnote, .footnotes, .citation", "footnotes"),
    (".inheritance, .type-signature, .member-signature, div.attr", "signatures"),
    (".summary-table, div.caption", "tables"),
    ("div.math, .math.display", "formulas"),
    (_CODE, "code blocks"),
    (_NAVIGATION, NAVIGATION),
)
"""(selector of elements to remove, name of their count), applied in this order."""
_BOX_TITLES = ".admonition-title, details > summary"
_BOXES = frozenset(
    "attention caution danger error hint important info note tip warning".split()
) | {"see also"}
"""Titles that only name the kind of a box; they are removed."""
_BLOCKS = frozenset(
    (
        "address article blockquote body caption center dd details div dl dt fieldset figcaption "
        "figure form h1 h2 h3 h4 h5 h6 hr html li main ol p section summary table td th ul"
    ).split()
)
_HEADING = re.compile("h[1-6]")
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_CHARSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
}
"""Declared charset -> charset that browsers use (WHATWG's Encoding Standard), as Python names."""
_XML_ENCODING = re.compile(rb"\A\s*<\?xml[^>]{0,100}encoding\s*=\s*[\"']([\w-]+)")


def read(content: bytes, encoding: str | None) -> Draft:
    """Read HTML; the title is the first h1 of the main content, else the page's title."""
    declared = _XML_ENCODING.search(content[:200]) or _CHARSET.search(content[:4096])
    text = decode(content, encoding or (_charset(declared[1].decode()) if declared else None))
    page = LexborHTMLParser(text)
    draft = Draft()
    body = page.body
    if body is None:
        raise UnreadableDocument("It is HTML without visible content.")
    page_title = page.css_first("head > title")
    articles = _outermost(body, "article")
    only = articles[0] if len(articles) == 1 else body  # several: the posts of a blog
    main = body.css_first("[role=main]") or body.css_first("main") or only
    if len(main.css("p, li, dd")) == 0:  # an empty frame, filled by a script
        main = body
    _Walk(draft, main).run()
    if not draft.title and page_title is not None:
        draft.title = clean(page_title.text())
    return draft


def _charset(label: str) -> str:
    """Return the encoding that browsers use for a declared charset."""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return label  # `decode` refuses it
    # The declaration was found in ASCII, so the page is not UTF-16.
    return "utf-8" if name.startswith("utf-16") else _CHARSETS.get(name, name)


def add_html(draft: Draft, fragment: str) -> None:
    """Add a fragment of HTML from a document of another format."""
    body = LexborHTMLParser(fragment).body
    if body is not None:
        _Walk(draft, body).run()


def closed(fragment: str) -> str:
    """Return a fragment of HTML whose elements all end in it, so that none takes in what follows.

    >>> closed("<iframe src='a' />")
    '<body><iframe src="a"></iframe></body>'
    """
    body = LexborHTMLParser(fragment).body
    return "" if body is None else body.html or ""


class _Walk:
    """Converter from a tree of nodes to paragraphs; a paragraph ends at the next block."""

    def __init__(self, draft: Draft, root: LexborNode) -> None:
        self._draft = draft
        self._root = root
        self._words: list[str] = []
        self._in_item = 0
        self._term = ""
        for css, what in _WITHOUT:
            for node in _outermost(root, css):
                if what:
                    draft.leave_out(what)
                node.decompose()
        for node in _outermost(root, _BOX_TITLES):
            if clean(node.text()).rstrip(" :").casefold() in _BOXES:
                node.decompose()

    def run(self) -> None:
        self._children(self._root)
        self._end()

    def _children(self, node: LexborNode) -> None:
        for child in list(node.iter(include_text=True)):
            self._visit(child)

    def _visit(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._words.append(node.text_content or "")
        elif tag == "br":
            self._words.append("\n")
        elif tag in _SILENT:
            pass
        elif what := self._what(node, tag):
            if clean(node.text()):
                self._draft.leave_out(what)
            self._words.append(" ")
        elif _HEADING.fullmatch(tag):
            self._end()
            self._children(node)
            self._draft.heading("".join(self._words), int(tag[1:]))
            self._words = []
        elif tag in _BLOCKS:
            self._block(node, tag)
        else:
            self._children(node)

    def _what(self, node: LexborNode, tag: str) -> str | None:
        """Return the name of the count if a node is left out; `None` if it is read."""
        if tag == "table" and any(is_text(cell.text()) for cell in node.css("td, th")):
            return None
        classes = (node.attributes.get("class") or "").split()
        if tag == "aside" and not {"admonition", "topic", "sidebar"}.isdisjoint(classes):
            return None
        return None if tag == "header" and node.css_first("h1") else _LEFT_OUT.get(tag)

    def _block(self, node: LexborNode, tag: str) -> None:
        self._end()
        item = tag in ("li", "dd")
        self._in_item += item
        self._children(node)
        if tag == "dt":
            name = node.css_first(".descname")  # of a function, as Sphinx writes it
            term = clean(name.text() if name else "".join(self._words)).rstrip(" :")
            if term not in self._term.split(", "):  # a function with several signatures
                self._term = f"{self._term}, {term}" if self._term else term
            self._words = []
        self._end()
        self._in_item -= item
        if tag == "dl":
            self._draft.item(self._term)  # a term without description
            self._term = ""
        if tag in ("ul", "ol", "dl") and not self._in_item:
            self._draft.end_list()

    def _end(self) -> None:
        """End a block: add the collected words as a paragraph or item."""
        text = clean("".join(self._words))
        self._words = []
        if not text:
            return
        if self._term:
            text = f"{self._term}: {text}"
            self._term = ""
        if self._in_item:
            self._draft.item(text)
        else:
            self._draft.paragraph(text)


def _outermost(root: LexborNode, css: str) -> list[LexborNode]:
    """Return the nodes below `root` that match a selector and are not inside another match."""
    found = {node.mem_id: node for node in root.css(css) if node.mem_id != root.mem_id}

    def inside(node: LexborNode) -> bool:
        above = node.parent
        while above is not None and above.mem_id != root.mem_id:
            if above.mem_id in found:
                return True
            above = above.parent
        return False

    return [node for node in found.values() if not inside(node)]
