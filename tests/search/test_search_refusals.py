"""Bad queries, filters, files, models and indexes: one line that names the place."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import lancedb
import pytest
from command_line import run
from search_index import TEXTS
from toy import write_toy_model

from isospace.errors import UserError
from isospace.search import SearchIndex, database
from isospace.search.about import About


def refusal(capsys, *words):
    """The one line of an error; the line "reading" may stand before it."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    (line,) = (line for line in err.splitlines() if not line.startswith("reading"))
    return line


def test_a_model_that_moved_is_named(toy_model, folder, tmp_path, capsys):
    replace(About.read(folder), model=str(tmp_path / "gone")).write(folder)
    words = ["search", "cat", "--index", folder]
    assert re.search(rf"{tmp_path}/gone: .*{folder}.*--model", refusal(capsys, *words))
    assert run(capsys, *words, "--model", toy_model)[0] == 0
    assert str(folder) not in refusal(capsys, *words, "--model", "./none")


@pytest.mark.parametrize(("dim", "difference"), [(32, "other weights"), (64, "64 dimensions")])
def test_another_model_is_refused(toy_model, folder, tmp_path, capsys, dim, difference):
    other = write_toy_model(tmp_path / "other", hidden_size=dim, num_hidden_layers=1)
    (tmp_path / "t.txt").write_text("the cat\n")
    search, index = ["search", "cat", "--index"], ["index", tmp_path / "t.txt", "--to"]
    for words in (search, index):
        line = refusal(capsys, *words, folder, "--model", other)
        assert all(str(part) in line for part in (folder, toy_model, other, difference, "--model"))


FILTERS = [("age > 3", "No field named age"), ("year >", "Error parsing"), (" ", "is empty")]


@pytest.mark.parametrize(("where", "reason"), FILTERS)
def test_a_filter_that_makes_no_sense(index, where, reason):
    for use in (lambda: index.search("cat", where=where), lambda: index.delete(where)):
        with pytest.raises(UserError, match=re.escape(reason)) as caught:
            use()
        assert "id = 'a'" in str(caught.value)
        if where.strip():
            assert repr(where) in str(caught.value)
            assert "year (whole numbers), kind (text)" in str(caught.value)
            assert "_rowid" not in str(caught.value)  # a column that Lance would name
    assert len(index) == len(TEXTS)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["index", "--layout", "lines", "--delete", "id = 'a'"], ["--delete needs only the index"]),
        (["index", "t.csv", "--keep", "age"], ["--keep age", "year, kind", "--to"]),
        (["index", "t.csv"], ['t.csv, row 2: column "year" has 1.5']),
        (["index", "t.csv", "--to", "new", "--keep", "text"], ['column "text"']),
        (["index", "t.txt", "--to", "full"], ["full: exists already"]),
        (["search", "cat", "--index", "new"], ["new: not an index (no such folder)"]),
        (["index", "t.txt", "--to", "table"], ["table: exists already"]),
    ],
)
def test_bad_input_is_one_line(folder, template, capsys, monkeypatch, words, facts):
    monkeypatch.chdir(folder.parent)
    Path("t.txt").write_text("the cat\n")
    Path("t.csv").write_text("text,year,kind,age\na,2001,x,1\nb,1.5,y,2\n")
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    shutil.copytree(template, "table")
    Path("table", "isospace.json").unlink()
    before = len(SearchIndex.open("index"))
    line = refusal(capsys, *words)
    assert all(fact in line for fact in facts), line
    assert not Path("new").exists()
    assert len(SearchIndex.open("index")) == before
    assert lancedb.connect("table").open_table("texts").count_rows() == len(TEXTS)


@pytest.mark.parametrize("hybrid", [False, True])
def test_halves_of_surrogate_pairs_are_question_marks(index, hybrid):
    index.add(["the cat"], ["caf\udce9"])
    hits = index.search("cat \udce9", where="id = 'caf\udce9'", hybrid=hybrid).hits[0]
    assert [hit.id for hit in hits] == ["caf?"]
    assert index.delete("id = 'caf\udce9'") == 1


@pytest.mark.parametrize("half", [True, False], ids=["half of its data", "other columns"])
def test_a_damaged_index_is_named(folder, capsys, half):
    if half:
        for path in folder.glob("texts.lance/data/*"):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        replace(About.read(folder), columns={"a": "int"}).write(folder)
    line = refusal(capsys, "search", "cat", "--index", folder)
    assert re.search(rf"{folder}.*cannot be.*index the texts anew", line)


def test_without_lancedb_its_extra_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    assert "isospace[search]" in refusal(capsys, "search", "cat", "--index", folder)


def test_an_index_that_was_emptied_says_so(index):
    index.delete("true")
    index.refresh()
    with pytest.raises(UserError, match="no texts"):
        index.search("cat")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda index: index.add(["a"], ["a"], [{"age": 3}]), 'row a: .* column "age"'),
        (lambda index: index.add(["a", "b"], ["a", "b"], [{}, {"year": "x"}]), 'row b: .*"year"'),
        (lambda index: index.add(["a"], [1]), "id 0 is '1' of type int"),
        (lambda index: index.add(["a", "b"], ["a"]), "2 texts, 1 ids"),
        (lambda index: index.search(["cat", 3]), "query 1 is '3' of type int"),
        (lambda index: index.search("zebra", k=2.5), "^`k` 2.5"),
        (lambda index: index.search("zebra", hybrid=True, bm25_weight=-1), "`bm25_weight` -1"),
        (lambda index: index.search("zebra", bm25_weight=3), "`bm25_weight`.*`hybrid`"),
        (lambda _: SearchIndex.create("new", "no model", bm25_weight=-1), "`bm25_weight` -1"),
    ],
)
def test_arguments_that_make_no_sense(index, tmp_path, monkeypatch, use, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(database, "SLICE", 1)
    with pytest.raises(UserError, match=message):
        use(index)
    assert not Path("new").exists()
    assert len(index) == len(TEXTS)
