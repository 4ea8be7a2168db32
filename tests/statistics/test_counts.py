"""Counts in words: one of each thing that is counted is named in the singular."""

from __future__ import annotations

import pytest

from isospace.statistics.counts import number_of


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("held-out sentences", "held-out sentence"),
        ("tab-separated fields", "tab-separated field"),
        ("control characters removed", "control character removed"),
        ("groups by class", "group by class"),
        ("parts of long documents", "part of long documents"),
        ("related to what is held out", "related to what is held out"),
        ("too long", "too long"),
        ("code blocks left out", "code block left out"),
        ("synopses left out", "synopsis left out"),
        ("licences left out", "licence left out"),
        ("lists of references left out", "list of references left out"),
        ("authors and bug reports left out", "author and bug report left out"),
        ("sentences of evaluation pairs left out", "sentence of evaluation pairs left out"),
        # endings that no rule of one letter serves
        *(pair.split() for pair in ("batches batch", "processes process", "boxes box", "ties tie")),
        *(pair.split() for pair in ("classes class", "entries entry", "cases case", "values value")),
    ],
)  # fmt: skip
def test_one_is_named_in_the_singular_and_more_as_given(many, one):
    assert number_of(1, many) == number_of(1.0, many) == f"1 {one}"
    assert number_of(2, many) == f"2 {many}"
    assert number_of(0, many) == f"0 {many}"
