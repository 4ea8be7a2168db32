"""Counts in words: one of each thing that is counted is named in the singular."""

from __future__ import annotations

import pytest

from isospace.statistics.counts import number_of


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("control characters removed", "control character removed"),
        ("related to what is held out", "related to what is held out"),
        ("licences left out", "licence left out"),
        ("lists of references left out", "list of references left out"),
        ("authors and bug reports left out", "author and bug report left out"),
        # endings that no rule of one letter serves
        *(pair.split() for pair in ("boxes box", "ties tie", "entries entry", "cases case")),
    ],
)
def test_one_is_named_in_the_singular_and_more_as_given(many, one):
    assert number_of(1, many) == f"1 {one}"
    assert number_of(2, many) == f"2 {many}"
