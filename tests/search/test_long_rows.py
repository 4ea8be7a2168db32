"""Rows that are longer than a passage: their ids, and what becomes of them when they change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from row_files import write_rows
from search_index import index_files, texts_of
from toy import sentences

from isospace.search import Changes, files, index as module
from isospace.system.progress import Silent
from isospace.vectors.encode_config import Reading

WORDS = 20
WHOLE, CUT = Reading(passage_words=None), Reading(passage_words=WORDS)
SHORT = "The cat sleeps."


def long(passages: int, seed: int = 1) -> str:
    """A text of so many passages: sentences of which no two fit into one."""
    words = " ".join(sentences(40, seed)).replace(".", "").split()
    size = WORDS - 5
    parts = [words[start : start + size] for start in range(0, passages * size, size)]
    return " ".join(f"{' '.join(part).capitalize()}." for part in parts)


@pytest.fixture
def indexed(toy_model, tmp_path, monkeypatch):
    """Index a file of these rows by these options; what changed."""
    monkeypatch.chdir(tmp_path)

    def index(*rows, name="t.jsonl", reading=CUT, id_column=None, **options) -> Changes:
        write_rows(Path(name), rows)
        model = None if Path("index").exists() else str(toy_model)
        reading = replace(reading, id_column=id_column)
        options = {"progress": Silent(), "reading": reading, **options}
        return index_files(name, "index", model, **options).changes

    return index


@pytest.mark.parametrize("column", [None, "id"])
def test_a_long_row_is_found_by_its_passages(indexed, column):
    rows = [{"id": "a", "text": SHORT}, {"id": "b", "text": long(3)}, {"id": "", "text": long(2)}]
    assert indexed(*rows, id_column=column) == Changes(added=6)
    found = texts_of("index")
    a, b = ("a", "b") if column else ("t.jsonl:1", "t.jsonl:2")
    ids = [a, f"{b}#1", f"{b}#2", f"{b}#3", "t.jsonl:3#1", "t.jsonl:3#2"]
    assert sorted(found) == sorted(ids)
    assert found[a] == SHORT
    assert " ".join(found[f"{b}#{n}"] for n in (1, 2, 3)) == long(3)
    assert all(len(text.split()) <= WORDS for text in found.values())
    assert indexed(*rows, id_column=column) == Changes(unchanged=6)


@pytest.mark.parametrize(("column", "slice_"), [(None, 2), ("id", 2), ("id", module.SLICE)])
def test_a_row_that_changes_loses_all_its_old_passages(indexed, monkeypatch, column, slice_):
    """From any number of passages to any other, within a slice or over several."""
    monkeypatch.setattr(files, "SLICE", slice_)
    other = {"id": "z", "text": long(3, seed=5)}
    key = "a" if column else "t.jsonl:1"
    before = 0
    for now in (1, 4, 2, 0, 2, 1):
        row = {"id": "a", "text": SHORT if now == 1 else long(now, seed=now)}
        changes = indexed(row, other, id_column=column)
        ids = [key] if now == 1 else [f"{key}#{n}" for n in range(1, now + 1)]
        found = {id: text for id, text in texts_of("index").items() if id.startswith(key)}
        assert sorted(found) == ids
        assert " ".join(found[id] for id in ids) == (row["text"] if now else "")
        if 1 not in (before, now):
            assert changes.deleted == max(0, before - now)
        assert indexed(row, other, id_column=column).unchanged == now + 3
        before = now


def test_rows_that_are_gone_take_their_passages_along(indexed):
    rows = [{"text": long(2)}, {"text": SHORT}, {"text": long(3)}]
    indexed(*rows)
    indexed({"text": long(2, seed=4)}, name="t.jsonl.jsonl")  # of another file, with a like name
    assert indexed(*rows[:2]) == Changes(unchanged=3, deleted=3)
    assert indexed(rows[1]) == Changes(added=1, deleted=3)
    assert sorted(texts_of("index")) == ["t.jsonl.jsonl:1#1", "t.jsonl.jsonl:1#2", "t.jsonl:1"]


def test_another_size_of_passages_cuts_all_rows_anew(indexed):
    rows = [{"id": "a", "text": long(4)}, {"id": "b", "text": SHORT}]
    indexed(*rows, id_column="id", reading=WHOLE)
    assert texts_of("index")["a"] == long(4)
    assert indexed(*rows, id_column="id") == Changes(added=4, deleted=1, unchanged=1)
    indexed(*rows, id_column="id", reading=Reading(passage_words=2 * WORDS))
    assert sorted(texts_of("index")) == ["a#1", "a#2", "b"]
    assert indexed(*rows, id_column="id", reading=WHOLE) == Changes(added=1, deleted=2, unchanged=1)
    assert texts_of("index") == {"a": long(4), "b": SHORT}
