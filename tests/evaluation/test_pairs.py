"""Files of pairs, with and without scores."""

from __future__ import annotations

import numpy as np
import pytest

from isospace.errors import UserError
from isospace.evaluation.own_data import load_pairs, load_scored_pairs
from isospace.evaluation.sts import evaluate_pairs


def write(path, text):
    path.write_bytes(text.encode("utf-8"))


def angles(sentences):
    """The sentence "30" lies at 30 degrees, so that cosines are known."""
    radians = np.radians([float(sentence.split()[0]) for sentence in sentences])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", 'sentence1,sentence2,score\n"0, zero",10,4.5\n0,80,0.5\n\n0,40,2\n'),
        ("p.csv", '\ufeff"0, zero",10,4.5\r\n0,80,0.5\r\n0,40,2'),
        ("p.tsv", "0 \t10\t4.5\n0\t80\t0.5\n0\t40\t2\n"),
        (
            "p.jsonl",
            '{"score": 4.5, "sentence1": "0", "sentence2": "10"}\n["0", "80", 0.5]\n'
            '\n{"sentence2": "40", "sentence1": "0", "score": 2, "more": 1}\n',
        ),
    ],
)
def test_a_users_scored_pairs(tmp_path, name, text):
    write(tmp_path / name, text)
    pairs = load_scored_pairs(tmp_path / name)
    assert pairs.gold.tolist() == [4.5, 0.5, 2.0]
    score = evaluate_pairs(lambda s: angles([t.replace(",", "") for t in s]), pairs)
    assert score == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "a,b,1\na,b\n", r"p\.csv:2: 2 columns; expected 3"),
        ("p.csv", "a,b,1\na,b,good\n", r"p\.csv:2: the score 'good'"),
        ("p.csv", "left,right,much\na,b,1\n", r"p\.csv:1: the score 'much'"),
        ("p.csv", 'a,"b\nc",1\na,,2\n', r"p\.csv:3: expected a text"),
        ("p.csv", "a,b,1\na,\u200b\u00ad,2\n", r"p\.csv:2: expected a text"),
        ("p.csv", 'a,b,1\n"a,b,2\n', r"p\.csv:2: not valid csv"),
        ("p.csv", "a,b,1\n", r"p\.csv: expected at least two rows, found 1"),
        ("p.tsv", "a\tb\t1\n\na\tb\tinf\n", r"p\.tsv:3: the score 'inf'"),
        (
            "p.jsonl",
            '["a", "b", 1]\n{"sentence1": "a"}\n',
            r"p\.jsonl:2: 1 column \(sentence1\); expected 3",
        ),
        ("p.jsonl", '["a", "b", 1]\n["a", "b", true]\n', r"p\.jsonl:2: the score True"),
        ("p.jsonl", '["a", "b", 1]\n{"sentence1"\n', r"p\.jsonl:2: not valid JSON"),
        ("p.jsonl", '["a", "b", 1]\n7\n', r"p\.jsonl:2: expected a JSON object"),
        ("p.jsonl", '["a", 4, 1]\n["a", "b", 1]\n', r"p\.jsonl:1: expected a text, found 4"),
        ("p.parquet", "", r"p\.parquet cannot be read as parquet"),
        ("p.docx", "", r"p\.docx: unknown kind of file\. Expected \.txt, \.jsonl, \.csv"),
    ],
)
def test_broken_scored_pairs_are_named_with_their_line(tmp_path, name, text, message):
    write(tmp_path / name, text)
    with pytest.raises(UserError, match=message):
        load_scored_pairs(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", 'Query,Document\nq 1,"d, 1"\nq 2,"a ""d""\n2"\n'),
        ("p.csv", 'q  1,"d, 1"\r\nq 2,"a ""d""\n2"'),
        ("p.tsv", 'title\tbody\nq 1\td, 1\nq 2\ta "d" 2\n'),
        ("p.jsonl", '["q 1", "d, 1"]\n["q 2", "a \\"d\\"\\n2"]\n'),
        ("p.jsonl", '{"x": "q 1", "y": "d, 1"}\n{"y": "a \\"d\\" 2", "x": "q 2"}\n'),
    ],
)
def test_a_users_pairs_of_texts(tmp_path, name, text):
    write(tmp_path / name, text)
    assert list(load_pairs(tmp_path / name)) == [("q 1", "d, 1"), ("q 2", 'a "d" 2')]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", "query,document,page\nq 1,d 1,x\nq 2,d 2, x \nq 3,d 3,\nq 4,d 4,\n"),
        ("p.csv", "page,left,right\nx,q 1,d 1\nx,q 2,d 2\n,q 3,d 3\n ,q 4,d 4\n"),
        ("p.tsv", "title\tpage\tbody\nq 1\tx\td 1\nq 2\tx\td 2\nq 3\t\td 3\nq 4\t\td 4\n"),
        (
            "p.jsonl",
            '{"query": "q 1", "document": "d 1", "page": 7, "id": 1}\n'
            '{"query": "q 2", "document": "d 2", "page": "7", "id": 2}\n'
            '{"query": "q 3", "document": "d 3", "page": null, "id": 3}\n'
            '{"query": "q 4", "document": "d 4", "page": "", "id": 4}\n',
        ),
    ],
)
def test_a_column_says_which_pairs_belong_together(tmp_path, name, text):
    write(tmp_path / name, text)
    pairs = load_pairs(tmp_path / name, "page")
    assert list(pairs) == [("q 1", "d 1"), ("q 2", "d 2"), ("q 3", "d 3"), ("q 4", "d 4")]
    assert pairs.groups[0] == pairs.groups[1]
    assert len(set(pairs.groups)) == 3
    assert pairs.unit == "groups by page"
    assert pairs.grouped() is pairs


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "query,document\na,b\nc,d\n", r'p\.csv:2: no column "page"\. Columns: query, document\. Name one with `group`$'),
        ("p.csv", "q 1,d 1\nq 2,d 2\n", r'p\.csv:1: no column "page", .* no names\. .* query, document, page$'),
        ("p.jsonl", '["a", "b"]\n["c", "d"]\n', r'p\.jsonl:1: no column "page", .* in jsonl by objects'),
        ("p.jsonl", '{"x": "a", "y": "b", "page": 1}\n{"x": "c", "y": "d"}\n', r'p\.jsonl:2: no column "page"'),
        ("p.csv", "query,page\na,x\nb,y\n", r"p\.csv:2: 1 column \(query\); expected 2"),
    ],
)  # fmt: skip
def test_pairs_without_the_column_of_their_groups_are_refused(tmp_path, name, text, message):
    write(tmp_path / name, text)
    with pytest.raises(UserError, match=message):
        load_pairs(tmp_path / name, "page")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "a,b\nc\n", r"p\.csv:2: 1 column; expected 2"),
        ("p.csv", 'a,"b\nb"\nc,d,e\n', r"p\.csv:3: 3 columns; expected 2"),
        ("p.tsv", "a\t \nc\td\n", r"p\.tsv:1: expected a text"),
        ("p.tsv", "query\tdocument\na\tb\n", "found 1"),
        ("p.csv", "", "found 0"),
        ("p.jsonl", '{"x": "a", "y": "b"}\n{"x": "a", "z": "b"}\n', r"p\.jsonl:2: no field 'y'"),
        ("p.jsonl", '{"x": "a"}\n{"x": "b"}\n', r"p\.jsonl:1: 1 column \(x\); expected 2 \(query"),
        ("p.txt", "a b\nc d\n", r"p\.txt:1: 1 column; expected 2"),
        (
            "p.csv",
            "sentence1,sentence2,score\na,b,1\nc,d,5\n",
            r"sentence2, score say scored; expected pairs",
        ),
    ],
)
def test_broken_pairs_are_named_with_their_line(tmp_path, name, text, message):
    write(tmp_path / name, text)
    with pytest.raises(UserError, match=message):
        load_pairs(tmp_path / name)


def test_characters_of_pairs_are_normalised(tmp_path):
    rows = "e\ufb03cient\u00a0cat,Ｂig Unter\u00adnehmen\nx\u200by,cafe\u0301 x²\n"
    write(tmp_path / "p.csv", rows)
    assert list(load_pairs(tmp_path / "p.csv")) == [
        ("efficient cat", "Big Unternehmen"),
        ("xy", "café x²"),
    ]


def test_a_missing_file_and_wrong_bytes_are_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.csv: no such file\. Expected \.txt"):
        load_pairs(str(tmp_path / "none.csv"))
    (tmp_path / "p.csv").write_bytes("a,b\nc,d\n\ncaf\xe9,f\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"p\.csv:4: not utf-8 .* Convert the file to UTF-8\.$"):
        load_pairs(tmp_path / "p.csv")
