"""Counts in words: one of each thing that is counted is named in the singular."""

from __future__ import annotations

import pytest

from isospace.statistics.counts import number_of

SINGULAR = {
    "columns": "column",
    "distinct labels": "distinct label",
    "distinct texts": "distinct text",
    "documents": "document",
    "examples": "example",
    "fields": "field",
    "files": "file",
    "groups": "group",
    "held-out sentences": "held-out sentence",
    "judged queries": "judged query",
    "lines": "line",
    "other labels": "other label",
    "pairs": "pair",
    "rows": "row",
    "sentences": "sentence",
    "single texts": "single text",
    "tab-separated fields": "tab-separated field",
    "texts": "text",
    "updates": "update",
    "usable sentences": "usable sentence",
    "values": "value",
}
"""What the sources count by name."""
OTHERS = {
    # units of budgets, and of groups
    "minutes": "minute",
    "tokens": "token",
    "epochs": "epoch",
    "modules": "module",
    "synsets": "synset",
    "groups by class": "group by class",
    "groups of documents": "group of documents",
    # what a corpus counts
    "txt files with lines": "txt file with lines",
    "txt files with paragraphs": "txt file with paragraphs",
    "control characters removed": "control character removed",
    "near duplicates": "near duplicate",
    "parts of long documents": "part of long documents",
    "unreadable files": "unreadable file",
    "related to what is held out": "related to what is held out",
    "too long": "too long",
    "code blocks left out": "code block left out",
    "synopses left out": "synopsis left out",
    "licences left out": "licence left out",
    "lists of references left out": "list of references left out",
    "authors and bug reports left out": "author and bug report left out",
    "navigation left out": "navigation left out",
    "front matter left out": "front matter left out",
    "sentences of evaluation pairs left out": "sentence of evaluation pairs left out",
    # endings that no rule of one letter serves
    "batches": "batch",
    "processes": "process",
    "boxes": "box",
    "classes": "class",
    "ties": "tie",
    "entries": "entry",
    "corpus pairs": "corpus pair",
    "cases": "case",
    "sources": "source",
}


@pytest.mark.parametrize("many", [*SINGULAR, *OTHERS])
def test_one_is_named_in_the_singular_and_more_as_given(many):
    one = (SINGULAR | OTHERS)[many]
    assert number_of(1, many) == f"1 {one}"
    assert number_of(1.0, many) == f"1 {one}"
    assert number_of(2, many) == f"2 {many}"
    assert number_of(0, many) == f"0 {many}"
