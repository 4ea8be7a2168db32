"""A user's files: which kind they are, in every format, and what is refused."""

import gzip
import json
from functools import partial

import pytest
from toy import write_rows

from isospace.errors import UserError
from isospace.evaluation.own_data import load_own, load_pairs, load_scored_pairs, read_user_file

SCORED = [["a 1", "b 1", 4.5], ["a 2", "b 2", 1.5]]
PAIRS = [["q 1", "d 1"], ["q 2", "d 2"]]


def write(path, text):
    path.write_bytes(text.encode("utf-8"))
    return path


def cells(file):
    return [list(map(str, row)) for _, row in file.rows]


def strings(rows):
    return [list(map(str, row)) for row in rows]


@pytest.mark.parametrize(("kind", "rows"), [("scored", SCORED), ("pairs", PAIRS)])
def test_the_kind_is_known_without_names(tmp_path, kind, rows):
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress(text.encode()))
    for path in (
        write(tmp_path / "f.tsv", text),
        tmp_path / "f.txt.gz",
        write(tmp_path / "f.csv", text.replace("\t", ",")),
        write(tmp_path / "f.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
    ):
        file = read_user_file(path)
        assert (file.kind, file.columns) == (kind, ())
        assert [line for line, _ in file.rows] == list(range(1, len(rows) + 1))
        assert cells(file) == strings(rows)


@pytest.mark.parametrize(
    ("kind", "names", "rows"),
    [
        ("scored", ["premise", "hypothesis", "label"], SCORED),
        ("pairs", ["Query", "Document"], PAIRS),
    ],
)
def test_names_decide_in_any_order_and_beside_other_columns(tmp_path, kind, names, rows):
    """Columns are written back to front, after a column that is not needed."""
    records = [
        {"id": f"no {i}"} | dict(reversed([*zip(names, row, strict=True)]))
        for i, row in enumerate(rows)
    ]
    for ending in ("parquet", "csv", "jsonl"):
        file = read_user_file(write_rows(tmp_path / f"f.{ending}", records))
        assert (file.kind, list(file.columns)) == (kind, names)
        assert cells(file) == strings(rows)


def test_labels_are_no_texts_to_search_unless_the_user_says_so(tmp_path):
    rows = [[f"question {i}", "the same answer as to others"] for i in range(4)]
    path = write(tmp_path / "f.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=r"f\.jsonl: .*1 distinct cell in 4 rows, as labels do"):
        read_user_file(path)
    path = write(tmp_path / "f.csv", "question,answer\nq 1,yes\nq 2,no\nq 3,yes\n")
    assert read_user_file(path).kind == "pairs"


@pytest.mark.parametrize(
    ("header", "kind", "columns"),
    [
        ("source,answer,question", "pairs", ("question", "answer")),
        ("source,gold,sentence2,sentence1,score", "scored", ("sentence1", "sentence2", "score")),
    ],
)
def test_of_several_names_the_plainest_is_read(tmp_path, header, kind, columns):
    names = header.split(",")
    last = range(3) if kind == "scored" else "xyx"
    rows = [{name: f"{name} {i}" for name in names} | {names[-1]: last[i]} for i in range(3)]
    file = read_user_file(write_rows(tmp_path / "f.csv", rows))
    assert (file.kind, file.columns) == (kind, columns)


@pytest.mark.parametrize(
    "text",
    [
        "how do I pay,question\nhere is how,answer\nwho are you,question\nit is I,answer\n",
        "query,1\ndocument,2\n",
    ],
)
def test_a_row_with_a_known_word_is_a_row(tmp_path, text):
    file = read_user_file(write(tmp_path / "f.csv", text), "pairs")
    assert [line for line, _ in file.rows] == list(range(1, text.count("\n") + 1))


@pytest.mark.parametrize(("header", "kind"), [("question,reply", None), ("id,Title,text", "pairs")])
def test_a_header_that_is_half_known_is_no_row(tmp_path, header, kind):
    rows = "".join(f"{','.join(f'{name} no {i}' for name in header.split(','))}\n" for i in "12")
    path = write(tmp_path / "f.csv", f"{header}\n{rows}")
    with pytest.raises(UserError, match=r"f\.csv:1: .* column names"):
        read_user_file(path, kind)


by_page = partial(load_pairs, group="page")


@pytest.mark.parametrize(
    ("load", "name", "text", "message"),
    [
        (load_own, "f.csv", "r,s\n\n\nq,\n", r"f\.csv:4: ''"),
        (load_own, "f.csv", "premise,hypothesis,label\na,b,entails\nc,d,no\n", r"csv:2: .*entails"),
        (load_own, "f.jsonl", '{"id": 1, "x": "a", "y": "b", "z": "c"}\n' * 2, r"4 columns \(id, x, y, z\)"),
        (load_own, "f.jsonl", '{"text": "a", "label": null}\n{"text": "b", "label": 1}', r":1: None"),
        (load_own, "f.tsv", "a\tb\t3\nc\td\t3\n", r"f\.tsv: .*score 3"),
        (load_own, "f.csv", "title,body,label\na,b,1\nc,d,2\n", r"a text with its class"),
        (load_pairs, "f.csv", "q,same\nr,same\n", "'same'"),
        (load_scored_pairs, "p.csv", "left,right,much\na,b,1\n", r"p\.csv:1: .*'much'"),
        (load_scored_pairs, "p.csv", "a,b,1\na,\u200b\u00ad,2\n", r"p\.csv:2:"),
        (load_scored_pairs, "p.jsonl", '["a", "b", 1]\n["a", "b", true]\n', r"p\.jsonl:2: .*True"),
        (load_pairs, "p.csv", "", "0 rows"),
        (load_pairs, "p.csv", "sentence1,sentence2,score\na,b,1\nc,d,5\n", "sentence2, score"),
        (by_page, "p.csv", "query,document\na,b\nc,d\n", r'p\.csv:2: .*"page"\. Columns: query, document'),
        (by_page, "p.csv", "query,page\na,x\nb,y\n", r"p\.csv:2: 1 column"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_with_their_line(tmp_path, load, name, text, message):
    with pytest.raises(UserError, match=message):
        load(write(tmp_path / name, text))


def test_a_column_says_which_pairs_belong_together(tmp_path):
    expected = [("q 1", "d 1"), ("q 2", "d 2"), ("q 3", "d 3"), ("q 4", "d 4")]
    rows = "page,left,right\nx,q 1,d 1\nx,q 2,d 2\n,q 3,d 3\n ,q 4,d 4\n"
    table = write(tmp_path / "p.csv", rows)
    rows = zip(expected, (7, "7", None, ""), strict=True)
    records = [{"query": q, "document": d, "page": page, "id": 1} for (q, d), page in rows]
    lines = write(tmp_path / "p.jsonl", "\n".join(map(json.dumps, records)))
    for path in (table, lines):
        pairs = by_page(path)
        assert list(pairs) == expected
        assert pairs.groups[0] == pairs.groups[1]
        assert len(set(pairs.groups)) == 3
        assert pairs.unit == "groups by page"
