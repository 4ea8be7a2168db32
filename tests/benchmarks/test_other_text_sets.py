"""benchmarks/other_text_sets.py: what is carried is what it makes."""

from __future__ import annotations

import gzip
import hashlib
import importlib
from pathlib import Path

import pytest

from isospace.errors import UserError
from isospace.evaluation.other_text import CARRIED, DATA, carried

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

NOUNS = """  1 This software and database is being provided to you, the LICENSEE
00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which is known to have its own existence
04612026 06 n 02 yarmulke 0 skull_cap 0 001 @ 03000001 n 0000 | a small cap without a brim for men; \
"he wore a yarmulke"
00007846 03 n 02 Paris 0 City_of_Light 0 000 | the capital and the largest city of France
00014742 04 a 02 near(p) 0 close 1 000 | not far away; at no great distance
"""


@pytest.fixture
def sets(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("other_text_sets")


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_carried_has_the_hash_of_what_is_made(sets, name):
    path = DATA / f"{name}.jsonl.gz"
    assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == sets.HASHES[name]
    assert path.stat().st_size < 160_000


def test_only_packages_whose_licence_is_there_are_carried(sets):
    read = (DATA / "README.md").read_text("utf-8").lower()
    groups = (*carried("docstrings", "choose").groups, *carried("docstrings", "judge").groups)
    assert {group.split("/")[0] for group in groups} <= set(sets.PACKAGES)
    assert all(f"| {package} " in read for package in sets.PACKAGES)
    assert "wordnet 3.0 copyright 2006 by princeton university" in read


def test_synsets_of_several_words_that_are_no_names(sets):
    assert list(sets.synsets(NOUNS)) == [
        ("yarmulke, skull cap", "a small cap without a brim for men", "04612026-n"),
        ("near, close", "not far away; at no great distance", "00014742-a"),
    ]


def test_groups_go_whole_to_a_part(sets):
    rows = [(f"text {n}", f"answer {n}", str(n // 3)) for n in range(600)]
    parts = sets.parted(rows)
    assert [row[:3] for row in parts] == rows
    assert sum(part == "choose" for *_, part in parts) == 198
    assert len({(group, part) for *_, group, part in parts}) == 200


def test_what_is_not_as_pinned_is_refused(sets, tmp_path):
    rows = sets.sample([("a text", "another text", "x"), ("A text!", "a third", "y")], 5)
    assert len(rows) == 1  # the summaries nearly repeat each other
    with pytest.raises(
        UserError, match=r"set.gz: its lines have SHA-256 [0-9a-f]{64}. Expected 00"
    ):
        sets.write(tmp_path / "set.gz", sets.parted(rows), "00")
