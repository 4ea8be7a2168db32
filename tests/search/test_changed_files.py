"""Files that are renamed, deleted or spelled in other ways, and rows longer than a passage."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run, run_well
from resumed import killed_at
from search_index import index_files, texts_of
from toy import sentences, write_rows

from isospace.config import Reading
from isospace.search import Changes, database
from isospace.search.database import Database
from isospace.system.progress import Silent

NAMES = ("cat", "dog", "bird", "it's")


@pytest.fixture
def kb(toy_model, tmp_path, monkeypatch):
    work = tmp_path / "parent"
    (work / "kb").mkdir(parents=True)
    monkeypatch.chdir(work)
    for name in NAMES:
        Path(f"kb/{name}.md").write_text(f"The {name} sits by the old river and waits.")
    added = index_files("kb", "index", str(toy_model), progress=Silent())
    assert (added.changes, added.gone) == (Changes(added=4), {})
    return work / "kb"


ALL = ["kb/bird.md:1", "kb/cat.md:1", "kb/dog.md:1", "kb/it's.md:1"]


def test_a_file_is_indexed_once_however_its_path_is_spelled(kb, tmp_path, monkeypatch):
    assert sorted(texts_of("index")) == ALL
    (tmp_path / "link").symlink_to(kb)
    (tmp_path / "link.md").symlink_to(kb / "cat.md")
    spelled = ["./kb", "../parent/kb", str(kb), f"{tmp_path}/link", f"{tmp_path}/link.md", "kb//dog.md"]  # fmt: skip
    for path in spelled:
        assert index_files(path, "index", progress=Silent()).changes.added == 0, path
    assert index_files(spelled, "index", progress=Silent()).changes.added == 0
    monkeypatch.chdir(kb)  # another working directory
    for path in (".", "../kb", "cat.md"):
        assert index_files(path, "../index", progress=Silent()).changes.added == 0, path
    assert sorted(texts_of("../index")) == ALL


def test_rows_of_a_renamed_file_are_told_and_deleted(kb, capsys):
    (kb / "cat.md").rename(kb / "tiger.md")
    (kb / "it's.md").unlink()
    _, err = run_well(capsys, "index", "kb")
    told = "2 files missing (kb/cat.md, kb/it's.md), with 2 rows in the index"
    assert f"{told}; --sync deletes such rows" in err
    assert sorted(texts_of("index")) == sorted([*ALL, "kb/tiger.md:1"])
    content = json.loads(run(capsys, "index", "kb", "--json")[1])
    assert content["gone"] == {"kb/cat.md": 1, "kb/it's.md": 1}
    content = json.loads(run(capsys, "index", "kb", "--sync", "--json")[1])
    assert (content["changes"]["deleted"], content["gone"], content["rows"]) == (2, {}, 3)
    assert sorted(texts_of("index")) == ["kb/bird.md:1", "kb/dog.md:1", "kb/tiger.md:1"]
    assert "missing" not in run(capsys, "index", "kb")[2]


@pytest.mark.parametrize("name", ["write", "remove"])
@pytest.mark.parametrize("before", [True, False])
def test_after_a_kill_the_same_command_syncs_the_rest(kb, toy_model, name, before):
    options = {"reading": Reading(id_column="key"), "progress": Silent()}
    Path("old.csv").write_text("key,text\na,the cat\nb,a dog\nc,a tree\n")
    index_files("old.csv", "new", str(toy_model), **options)
    Path("old.csv").rename("new.csv")
    Path("new.csv").write_text("key,text\na,the cat\nd,a house\n")
    with killed_at(Database, name, before):
        index_files("new.csv", "new", sync=True, **options)
    assert index_files("new.csv", "new", sync=True, **options).gone == {}
    assert sorted(texts_of("new")) == ["a", "d"]


WORDS = 20
WHOLE, CUT = Reading(passage_words=None), Reading(passage_words=WORDS)
SHORT = "The cat sleeps."


def long(passages, seed=1):
    """A text of so many passages: sentences of which no two fit into one."""
    words = " ".join(sentences(40, seed)).replace(".", "").split()
    size = WORDS - 5
    parts = [words[start : start + size] for start in range(0, passages * size, size)]
    return " ".join(f"{' '.join(part).capitalize()}." for part in parts)


@pytest.fixture
def indexed(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def index(*rows, name="t.jsonl", reading=CUT, id_column=None, **options):
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


@pytest.mark.parametrize(("column", "slice_"), [(None, 2), ("id", 2), ("id", database.SLICE)])
def test_a_row_that_changes_loses_all_its_old_passages(indexed, monkeypatch, column, slice_):
    monkeypatch.setattr(database, "SLICE", slice_)
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
