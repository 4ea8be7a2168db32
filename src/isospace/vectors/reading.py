"""How texts are read from files. Nothing heavy is imported: the command line shows it as help."""

from __future__ import annotations

from pydantic import PositiveInt

from isospace.config import CorpusConfig, Layout
from isospace.system.settings import settings


@settings
class Reading:
    """How files are read, beside their encoding and the columns of texts and ids."""

    title_column: str | None = None
    """Which column of jsonl, csv, tsv and parquet files holds a title, to be put before the text of
    its row, and before each passage of it."""
    delimiter: str | None = None
    """Sign between the fields of csv and tsv files; default: a comma, a tab; of a csv whose first
    line has no comma the semicolon, tab or | in it."""
    layout: Layout | None = None
    """How txt files are read: lines, each a text of its own, or paragraphs, a document with blank
    lines between them. None: as each file looks."""
    passage_words: PositiveInt | None = CorpusConfig.passage_words
    """Documents, and the long rows of an index, are cut to passages of at most so many words, at
    the ends of sentences; short paragraphs are joined. In scripts without spaces a character is a
    word. None: every paragraph of a document is as long as it is, and so is every row."""
    language: str | None = None
    """ISO code of the language of what is cut, by which sentences are told; default: as each
    paragraph looks."""
    strict: bool = False
    """Refuse a document that cannot be read, and in a folder any file; else it is named and left
    out."""


AS_IT_LOOKS = Reading()
AS_LINES = Reading(layout="lines")
"""A txt file has a text a line, whatever it looks like."""
