"""The formats of documents: a reader each, which imports its library when it is called."""

from __future__ import annotations

from collections.abc import Callable

from isospace.corpus.documents import DocumentFormat
from isospace.corpus.formats.draft import Draft
from isospace.corpus.formats.html import read_html
from isospace.corpus.formats.man import read_man
from isospace.corpus.formats.markdown import read_markdown
from isospace.corpus.formats.pdf import read_pdf
from isospace.corpus.formats.rst import read_rst
from isospace.corpus.formats.text import read_text
from isospace.corpus.formats.word import read_word

READERS: dict[DocumentFormat, Callable[[bytes, str | None], Draft]] = {
    "markdown": read_markdown,
    "html": read_html,
    "rst": read_rst,
    "man": read_man,
    "text": read_text,
    "pdf": read_pdf,
    "word": read_word,
}
"""From a file's content and the encoding that the user named."""
