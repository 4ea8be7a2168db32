"""Files of an index under other spellings of their paths, and files that are renamed or deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_index import index_files, killed_at, run, texts_of

from isospace.search import Changes
from isospace.search.database import Database
from isospace.system.progress import Silent
from isospace.vectors.encode_config import Reading

TEXTS = {
    name: f"The {name} sits by the old river and waits." for name in ("cat", "dog", "bird", "it's")
}


@pytest.fixture
def kb(toy_model, tmp_path, monkeypatch):
    """A folder of documents, indexed from the folder that holds it."""
    work = tmp_path / "parent"
    (work / "kb").mkdir(parents=True)
    monkeypatch.chdir(work)
    for name, text in TEXTS.items():
        Path(f"kb/{name}.md").write_text(text)
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
    status, _, err = run(capsys, "index", "kb")
    assert status == 0
    told = "2 files missing (kb/cat.md, kb/it's.md), with 2 rows in the index"
    assert f"{told}; --sync deletes such rows" in err
    assert sorted(texts_of("index")) == sorted([*ALL, "kb/tiger.md:1"])
    content = json.loads(run(capsys, "index", "kb", "--json")[1])
    assert content["gone"] == {"kb/cat.md": 1, "kb/it's.md": 1}
    content = json.loads(run(capsys, "index", "kb", "--sync", "--json")[1])
    assert (content["changes"]["deleted"], content["gone"], content["rows"]) == (2, {}, 3)
    assert sorted(texts_of("index")) == ["kb/bird.md:1", "kb/dog.md:1", "kb/tiger.md:1"]
    assert "missing" not in run(capsys, "index", "kb")[2]


@pytest.mark.parametrize("name", ["write", "remove_files"])
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
