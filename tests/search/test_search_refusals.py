"""Bad queries, filters, files, models and indexes: one line each."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import lancedb
import numpy as np
import pytest
import torch
from search_index import TEXTS, run
from transformers import BertConfig, BertModel

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.search import SearchIndex
from isospace.search.about import About


def refusal(capsys, *words) -> str:
    """The one line of an error; what was being read stands before it."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    (line,) = (line for line in err.splitlines() if not line.startswith("reading"))
    return line


def other_model(toy_model: Path, folder: Path, dim: int) -> Path:
    encoder = load_encoder(str(toy_model), device="cpu")
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(encoder.tokenizer),
        hidden_size=dim,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return folder


def test_a_model_that_moved_is_named(toy_model, folder, tmp_path, capsys):
    about = About.read(folder)
    replace(about, model=str(tmp_path / "gone")).write(folder)
    status, _, err = run(capsys, "search", "cat", "--index", folder)
    assert (status, err) == (
        2,
        f"isospace: {tmp_path}/gone: not a folder. Expected a model folder, a Hub name or minilm; "
        "word vectors in GloVe's text format are named glove:FILE. "
        f"{folder} is an index of this model; if it is elsewhere now, say where with --model\n",
    )
    assert run(capsys, "search", "cat", "--index", folder, "--model", toy_model)[0] == 0
    status, _, err = run(capsys, "search", "cat", "--index", folder, "--model", "./none")
    assert (status, err) == (
        2,
        "isospace: ./none: not a folder. Expected a model folder, a Hub name or minilm; word "
        "vectors in GloVe's text format are named glove:FILE\n",
    )


@pytest.mark.parametrize(
    ("dim", "difference"),
    [
        (32, "other weights or settings, another tokenizer or another pooling"),
        (64, "64 dimensions, not 32"),
    ],
)
def test_another_model_is_refused(toy_model, folder, tmp_path, capsys, dim, difference):
    other = other_model(toy_model, tmp_path / "other", dim)
    (tmp_path / "t.txt").write_text("the cat\n")
    expected = (
        f"isospace: {folder}: an index of another model ({toy_model}); {other} has {difference}. "
        "Name the right one with --model, or index the texts anew into another folder"
    )
    for words in (
        ["search", "cat", "--index", folder, "--model", other],
        ["index", tmp_path / "t.txt", "--to", folder, "--model", other],
    ):
        assert refusal(capsys, *words) == expected


COLUMNS = "id (text), text (text), year (whole numbers), kind (text)"
SQL = f"expected an SQL condition, such as id = 'a', on {COLUMNS}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", " "], "queries [' ']: expected one or more, none of them empty"),
        (["search", "cat", ""], "queries ['cat', '']: expected one or more, none of them empty"),
        (["search", "cat", "-k", "0"], "--k 0: expected a whole number, 1 or more"),
        (["search", "cat", "--where", "age > 3"], f"filter 'age > 3' (No field named age): {SQL}"),
        (
            ["search", "cat", "--where", "year >"],
            f"filter 'year >' (Expected: an expression, found: EOF): {SQL}",
        ),
        (
            ["search", "cat", "--where", "year"],
            f"filter 'year' (The filter year does not return a boolean): {SQL}",
        ),
        (
            ["search", "cat", "--where", "year > 3 ADN kind = 'even'"],
            f"filter \"year > 3 ADN kind = 'even'\" (Expected: EOF, found: ADN): {SQL}",
        ),
        (
            ["index", "--delete", "year > 3 ADN kind = 'even'"],
            f"filter \"year > 3 ADN kind = 'even'\" (Expected: EOF, found: ADN): {SQL}",
        ),
        (
            ["index", "--delete", "year = 3) OR (1 = 1"],
            "filter 'year = 3) OR (1 = 1' (a parenthesis is closed that was not opened): " + SQL,
        ),
        (
            ["search", "cat", "--where", "year / 0 = 1"],
            f"filter 'year / 0 = 1' (Divide by zero error): {SQL}",
        ),
        (
            ["index", "--delete", "regexp_match(text, '[')"],
            "filter \"regexp_match(text, '[')\" (Regular expression did not compile: Syntax( regex "
            "parse error: [ ^ error: unclosed character class )): " + SQL,
        ),
        (
            ["search", "cat", "--where", "id = 1"],
            "filter 'id = 1' (Received literal Int64(1) and could not convert to literal of type "
            f"'Utf8'): {SQL}",
        ),
        (
            ["search", "cat", "--where", "`year` = 'x"],
            'filter "`year` = \'x" (invalid SQL predicate: Unterminated string literal at Line: 1, '
            f"Column: 11): {SQL}",
        ),
        (
            ["search", "cat", "--where", "`resume` = 1"],
            f"filter '`resume` = 1' (No field named resume): {SQL}",
        ),
        (
            ["search", "cat", "--where", " "],
            "the filter is empty; expected an SQL condition, such as id = 'a'",
        ),
        (
            ["index", "--delete", ""],
            "the filter is empty; expected an SQL condition, such as id = 'a'",
        ),
        (["index", "--delete", "age = 3"], f"filter 'age = 3' (No field named age): {SQL}"),
        (
            ["index", "t.txt", "--delete", "id = 'a'"],
            "--delete: give no files with it; add them by a command of their own",
        ),
        (
            ["index", "--delete", "id = 'a'", "--keep", "year"],
            "--delete: --keep is of what is added; leave it out",
        ),
        (
            ["index"],
            "give one or more files to index, - for standard input, or --sync, or --delete FILTER",
        ),
        (
            ["index", "t.csv", "--keep", "age"],
            "--keep age: index has the columns year, kind. Other columns need another --to",
        ),
        (["index", "t.csv"], 't.csv, row 2: column "year" has 1.5, expected whole numbers'),
        (
            ["index", "t.txt", "--to", "new", "--keep", "year"],
            '--keep year: no row has a value in "year"',
        ),
        (["index", "blank.txt", "--to", "new"], "blank.txt: no text to index"),
        (
            ["index", "t.jsonl", "--to", "new", "--keep", "tags"],
            't.jsonl, row 1: column "tags" has a list, expected text, a number, or true or false',
        ),
        (
            ["index", "t.jsonl", "--to", "new", "--keep", "yeer"],
            '--keep yeer: no row has a value in "yeer"',
        ),
        (
            ["index", "t.csv", "--to", "new", "--keep", "yeer"],
            't.csv:1: no column "yeer". Columns: text, year, kind, age. Name one with --keep.',
        ),
        (
            ["index", "t.csv", "--to", "new", "--keep", "text"],
            'column "text": expected another name than id, text, vector, rank, cosine, bm25, hybrid, '
            "without a dot or a leading underscore. Rename it in the file",
        ),
        (
            ["search", "cat", "--index", "new"],
            "new: not an index (no such folder). isospace index FILE... makes one",
        ),
        (
            ["search", "cat", "--index", "full"],
            "full: not an index (holds no isospace.json). isospace index FILE... makes one",
        ),
        (
            ["index", "--delete", "id = 'a'", "--to", "full"],
            "full: not an index (holds no isospace.json). isospace index FILE... makes one",
        ),
        (
            ["index", "t.txt", "--to", "full"],
            "full: exists already and is not an index. Name another folder",
        ),
        (
            ["index", "t.txt", "--to", "t.txt"],
            "t.txt: exists already and is not an index. Name another folder",
        ),
    ],
)
def test_bad_input_is_one_line(folder, capsys, monkeypatch, words, message):
    monkeypatch.chdir(folder.parent)
    Path("t.txt").write_text("the cat\n")
    Path("blank.txt").write_text("\n \n")
    Path("t.csv").write_text("text,year,kind,age\na,2001,x,1\nb,1.5,y,2\n")
    Path("t.jsonl").write_text('{"text": "a", "tags": ["x"]}\n')
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    before = len(SearchIndex.open("index"))
    assert refusal(capsys, *words) == f"isospace: {message}"
    assert not Path("new").exists()
    assert len(SearchIndex.open("index")) == before


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--keep", "id"], 'column "id": expected another name than id,'),
        (["--model", "./none"], "./none: not a folder"),
    ],
)
def test_an_index_is_refused_before_the_files_are_read(tmp_path, capsys, option, message):
    (tmp_path / "t.csv").write_text("text,id\na,1\n")
    status, _, err = run(capsys, "index", tmp_path / "t.csv", "--to", tmp_path / "new", *option)
    assert status == 2
    assert err.startswith(f"isospace: {message}")


@pytest.mark.parametrize("where", ["id = 't1' -- ) a comment", "id = 't1' OR id = 'a)'"])
def test_parentheses_that_are_text_are_none_of_a_filter(index, where):
    assert [hit.id for hit in index.search("cat", where=where).hits[0]] == ["t1"]
    assert index.delete(where) == 1


def test_k_is_a_whole_number(index):
    for k in (0, 2.5):
        with pytest.raises(UserError, match=f"^`k` {k}: expected a whole number, 1 or more$"):
            index.search("cat", k=k)
    assert len(index.search("cat", k=np.int64(2)).hits[0]) == 2


@pytest.mark.parametrize("hybrid", [False, True])
def test_halves_of_surrogate_pairs_are_question_marks(index, hybrid):
    index.add(["the cat"], ["caf\udce9"])
    hits = index.search("cat \udce9", where="id = 'caf\udce9'", hybrid=hybrid).hits[0]
    assert [hit.id for hit in hits] == ["caf?"]
    assert index.delete("id = 'caf\udce9'") == 1


def test_a_damaged_index_is_not_the_fault_of_a_filter(folder, capsys):
    truncate(folder, "texts.lance/data/*")
    status, _, err = run(capsys, "search", "cat", "--index", folder, "--where", "year > 3")
    assert status == 2
    assert "filter" not in err
    assert "the index is damaged" in err


def truncate(folder, pattern):
    for path in folder.glob(pattern):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: truncate(folder, "texts.lance/data/*"),
            r"the index cannot be searched \(.*\)",
        ),
        (
            lambda folder: truncate(folder, "texts.lance/_versions/*"),
            r"the index cannot be opened \(.*\)",
        ),
        (
            lambda folder: shutil.rmtree(folder / "texts.lance"),
            r"the index cannot be opened \(Table 'texts' was not found\)",
        ),
        (
            lambda folder: truncate(folder, "isospace.json"),
            r"json: cannot be read as the settings of an index: .+ The file is damaged",
        ),
        (
            lambda folder: (folder / "isospace.json").write_text('{"model": "minilm"}'),
            r"index: weights: Field required\. The file is damaged",
        ),
        (
            lambda folder: replace(About.read(folder), columns={"a": "int"}).write(folder),
            r"the index is damaged \(its table has other columns than its isospace.json\)",
        ),
        (
            lambda folder: replace(About.read(folder), dim=64).write(folder),
            r"the index is damaged \(its table has other columns than its isospace.json\)",
        ),
    ],
)
def test_a_damaged_index_is_named(folder, capsys, damage, message):
    damage(folder)
    status, out, err = run(capsys, "search", "cat", "--index", folder)
    assert (status, out) == (2, "")
    assert re.fullmatch(rf"isospace: {folder}.*{message}.*ndex the texts anew.*\n", err)


def test_an_index_without_its_json_is_not_overwritten(folder, toy_model, tmp_path, capsys):
    (folder / "isospace.json").unlink()
    (tmp_path / "more.txt").write_text("a new text\n")
    words = ["index", tmp_path / "more.txt", "--to", folder, "--model", toy_model]
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "holds a table of texts but no isospace.json. Put that file back" in err
    assert lancedb.connect(folder).open_table("texts").count_rows() == len(TEXTS)


def test_a_folder_called_minilm_is_not_minilm(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    encoder = load_encoder(str(toy_model), device="cpu")
    encoder.source = "minilm"
    assert About.of(tmp_path, encoder, {}, None).model == "minilm"


def test_without_lancedb_its_extra_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    assert run(capsys, "search", "cat", "--index", folder) == (
        2,
        "",
        'isospace: lancedb is not installed: pip install "isospace[search]"\n',
    )


def test_an_index_that_was_emptied_says_so(index):
    index.delete("true")
    index.refresh()
    with pytest.raises(UserError, match=r"holds no texts. isospace index FILE\.\.\. adds some"):
        index.search("cat")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"age": 3}, 'row a: no column "age" in the index. Columns: year, kind'),
        ({"year": "x"}, "row a: column \"year\" has 'x', expected whole numbers"),
        ({"year": True}, 'row a: column "year" has True, expected whole numbers'),
        ({"kind": [1]}, 'row a: column "kind" has a list, expected text, a number, or true or'),
    ],
)
def test_metadata_that_does_not_fit_is_refused(index, metadata, message):
    with pytest.raises(UserError, match=re.escape(message)):
        index.add(["the cat"], ["a"], [metadata])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": {"year": int}},
            "column \"year\": <class 'int'>, expected one of 'str', 'int'",
        ),
        ({"bm25_weight": -1}, "`bm25_weight` -1: expected a number of 0 or more"),
    ],
)
def test_what_no_index_can_have_is_refused_before_it_is_made(toy_model, tmp_path, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        SearchIndex.create(tmp_path / "new", toy_model, **options)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("texts", "ids", "message"),
    [(["a"], [1], "id 0 is '1' of type int"), ([None], ["a"], "text 0 is 'None' of type NoneType")],
)
def test_what_is_no_text_is_not_taken_for_a_damaged_index(index, texts, ids, message):
    with pytest.raises(UserError, match=message):
        index.add(texts, ids)


def test_a_query_that_is_no_text_is_refused(index):
    with pytest.raises(UserError, match="query 1 is '3' of type int"):
        index.search(["cat", 3])


def test_more_hits_than_rows_are_all_rows(index):
    index.add(["the cat", "a dog"], ["a", "b"])
    assert len(index.search("cat", k=10**10).hits[0]) == len(index)


def test_a_model_that_gives_no_numbers_is_refused(index, monkeypatch):
    monkeypatch.setattr(
        index.encoder, "embed", lambda texts, **rest: np.full((len(texts), 32), np.nan)
    )
    with pytest.raises(UserError, match="gives vectors that are no numbers"):
        index.add(["the cat"], ["a"])
