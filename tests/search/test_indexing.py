"""From files to an index: types, edits, kills, and what the commands say."""

import json
import signal
from functools import partial
from pathlib import Path

import pytest
from command_line import run, run_well
from resumed import killed_at
from search_index import TEXTS, index_files, index_until_killed, texts_of
from toy import write_rows
from warm import WarmProcess, isospace_main

from isospace.search import Changes, SearchIndex, database
from isospace.search.about import About
from isospace.search.columns import column_type, fit, plain
from isospace.search.database import Database

ROWS = [
    {"key": "a", "words": "the cat", "n": 3, "x": 1, "Area code": "007", "mark": None},
    {"key": "b", "words": "a dog", "n": None, "x": 2.5, "Area code": "12", "mark": "yes"},
]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_columns_keep_their_types(toy_model, tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_rows(Path(name), ROWS)
    words = ["index", name, "--column", "words", "--id-column", "key", "--model", toy_model]
    run_well(capsys, *words, "--keep", "n", "x", "Area code", "mark")
    index = SearchIndex.open("index")
    assert index.columns == {"n": "int", "x": "float", "Area code": "str", "mark": "str"}
    hits = {hit.id: hit.metadata for hit in index.search("the cat").hits[0]}
    assert hits == {
        "a": {"n": 3, "x": 1.0, "Area code": "007", "mark": None},
        "b": {"n": None, "x": 2.5, "Area code": "12", "mark": "yes"},
    }
    (hit,) = index.search("cat", where="X > 2 AND `Area code` = '12'").hits[0]
    assert hit.id == "b"
    assert run(capsys, *words)[0] == 0  # the columns of the index are the default
    assert len(index) == 2


def test_a_file_that_was_edited_replaces_its_rows(toy_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("the cat\n\na dog\na tree\na river\n")
    Path("notes.txt.txt").write_text("the house\n")
    base = ["index", "--model", toy_model, "--json", "--layout", "lines", "notes.txt"]
    changes = [json.loads(run(capsys, *base, "notes.txt.txt")[1])["changes"]]
    Path("notes.txt").write_text("the cat\n\n\na house\n")
    changes += [json.loads(run(capsys, *base)[1])["changes"] for _ in range(2)]
    assert [Changes(**one) for one in changes] == [
        Changes(added=5, empty=1),
        Changes(replaced=1, unchanged=1, empty=2, deleted=2),
        Changes(unchanged=2, empty=2),
    ]
    other = {"notes.txt.txt:1": "the house"}
    assert texts_of("index") == {"notes.txt:1": "the cat", "notes.txt:4": "a house"} | other


def test_a_row_that_gets_an_id_replaces_its_number(toy_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = ["index", "t.csv", "--model", toy_model, "--json"]

    def changes(rows, *words):
        Path("t.csv").write_text(f"key,text\n{rows}")
        out, _ = run_well(capsys, *base, *words)
        found = json.loads(out)["changes"]
        return found["added"], found["replaced"], found["unchanged"], found["deleted"]

    assert changes(",the cat\n,a dog\n,a tree\n") == (3, 0, 0, 0)
    assert changes("a,the cat\n,a dog\n,a tree\n", "--id-column", "key") == (1, 0, 2, 1)
    assert sorted(texts_of("index")) == ["a", "t.csv:2", "t.csv:3"]
    # Ids that look like numbers of the file are what the file says, in whatever row they stand.
    shifted = "t.csv:0,the cat\nt.csv:1,a dog\n,a tree\n"
    assert changes(shifted, "--id-column", "key") == (2, 0, 1, 1)
    assert changes(shifted, "--id-column", "key") == (0, 0, 3, 0)
    assert sorted(texts_of("index")) == ["a", "t.csv:0", "t.csv:1", "t.csv:3"]


@pytest.mark.parametrize("slice_", [2, 64])
def test_a_later_row_replaces_a_row_with_its_id(toy_model, tmp_path, capsys, monkeypatch, slice_):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(database, "SLICE", slice_)
    Path("a.csv").write_text("key,text\nx,a cat\nx,a dog\ny,a tree\n,a bird\nx,a river\n")
    Path("b.csv").write_text("key,text\ny,a house\nz,a road\na.csv:4,a bird\n")
    words = ["index", "a.csv", "b.csv", "--id-column", "key", "--model", toy_model]
    for _ in range(2):
        assert run(capsys, *words)[0] == 0
        expected = {"x": "a river", "y": "a house", "z": "a road", "a.csv:4": "a bird"}
        assert texts_of("index") == expected


@pytest.mark.parametrize(
    ("kill", "left"),
    [
        ((About, "write", True, 1), None),
        ((Database, "index_vectors", False, 1), 300),
        ((About, "write", True, 2), 300),
    ],
)
def test_after_a_kill_the_command_goes_on(toy_model, tmp_path, monkeypatch, lowered, kill, left):
    monkeypatch.setattr(database, "SLICE", 64)
    file, place = tmp_path / "t.txt", tmp_path / "index"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    index_it = partial(index_files, str(file), str(place), str(toy_model))
    with killed_at(*kill):
        index_it()
    if left is not None:
        assert len(SearchIndex.open(place)) == left
    indexed = index_it()
    assert indexed.changes == Changes(added=300 - (left or 0), unchanged=left or 0)
    assert indexed.rows == 300
    assert indexed.approximate.rows == 300
    assert sorted(texts_of(place).values()) == sorted(TEXTS)


def test_kill_minus_nine_and_a_clean_exit(toy_model, tmp_path):
    """Of small files, which share a slice, as many are kept as are in whole slices."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for start in range(0, len(TEXTS), 10):
        lines = "\n".join(TEXTS[start : start + 10])
        (folder / f"{start:03}.txt").write_text(f"{lines}\n", encoding="utf-8")
    words = ["index", str(folder), "--model", str(toy_model), "--layout", "lines"]
    words += ["--to", str(tmp_path / "index")]
    killed = WarmProcess(index_until_killed, words)
    assert killed.wait() == -signal.SIGKILL, killed.err
    assert len(SearchIndex.open(tmp_path / "index")) == 192
    done = WarmProcess(isospace_main, words)
    assert done.wait() == 0, done.err
    assert done.out == ""
    assert "108 added, 192 unchanged" in done.err
    assert len(done.err.splitlines()) == 5  # of which the second is a warning of the plain model


def test_search_prints_a_table_and_json(folder, capsys):
    SearchIndex.open(folder).add(["a [bold]bold[/bold]\n:cat: \x1b[31m" + "long " * 40], ["[i]x"])
    words = ["search", "the [bold]:cat:", "--index", folder, "--where", "id = '[i]x'"]
    out, _ = run_well(capsys, *words)
    title, _, head, _, row, *_ = out.splitlines()
    assert title == "the [bold]:cat:  (cosine, exact, 1 text where id = '[i]x')"
    assert head == "| rank | cosine | id | text | year | kind |"
    assert row.startswith("| 1 | 0.")
    assert "| [i]x | a [bold]bold[/bold] :cat:  [31mlong long" in row
    content = json.loads(run(capsys, *words, "--json")[1])
    assert content["queries"][0]["query"] == "the [bold]:cat:"
    assert content["queries"][0]["hits"][0]["text"].startswith("a [bold]bold[/bold]\n:cat: \x1b")


def test_the_commands_say_what_was_done(toy_model, tmp_path, capsys, monkeypatch, lowered):
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    _, out, err = run(capsys, "index", "t.txt", "--to", "my index", "--model", toy_model)
    assert out == ""
    how = About.read(Path("my index")).approximate.text
    assert err.endswith(f"{how}; isospace search 'a query' --index 'my index'\n")
    search = ["search", "cat", "--index", "my index"]
    assert f"({how}" not in run(capsys, *search, "--exact")[1]
    assert f"(cosine, {how}, 300 texts)" in run(capsys, *search)[1]
    delete = ["index", "--to", "my index", "--delete", "id IN ('t.txt:1', 't.txt:2')"]
    assert "2 deleted, 298 left" in run(capsys, *delete)[2]
    delete[-1] = "id = 't.txt:3'"
    assert json.loads(run(capsys, *delete, "--json")[1]) == {"deleted": 1, "rows": 297}


def test_a_document_that_cannot_be_read_any_more_keeps_its_rows(toy_model, tmp_path, caplog):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.md").write_text(f"The cat of {name} sits by the old river and waits.")
    words = str(folder), str(tmp_path / "index")
    index_files(*words, str(toy_model))
    (folder / "a.md").write_bytes(b"A caf\xe9 that nobody can read.")
    for _ in range(2):  # it is named each time
        caplog.clear()
        again = index_files(*words)
        assert again.changes == Changes(unchanged=1)
        assert again.rows == 2
        assert caplog.text.count(f"not read: {folder / 'a.md'}") == 1


@pytest.mark.parametrize(
    ("values", "kind", "kept"),
    [
        (["1460323737035677698", "3"], "int", [1460323737035677698, 3]),
        (["9460323737035677698", "1.5"], "str", ["9460323737035677698", "1.5"]),
        (["4e999", "1.5"], "str", ["4e999", "1.5"]),
        (["1e3", "-1.5"], "float", [1000.0, -1.5]),
        (["caf\udce9", ""], "str", ["caf?", None]),
        ([float("nan"), float("inf"), 1.5], "float", [None, None, 1.5]),
    ],
)
def test_no_digit_of_a_value_is_lost(values, kind, kept):
    cells = [plain(value, cell=True) for value in values]
    assert column_type({type(cell).__name__ for cell in cells if cell is not None}) == kind
    assert [fit({"c": kind}, {"c": value}, "row", cell=True)["c"] for value in values] == kept
