"""A user's files: which kind they are, in every format, and what is refused."""

from __future__ import annotations

import csv
import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isospace.errors import UserError
from isospace.evaluation.own_data import load_own
from isospace.evaluation.user_files import read_user_file


def write(path, text):
    path.write_bytes(text.encode("utf-8"))
    return path


TRIPLES = [["a 1", "p 1", "n 1"], ["a 2", "p 2", "n 2"]]
SCORED = [["a 1", "b 1", 4.5], ["a 2", "b 2", 1.5]]
LABELLED = [["t 1", "x"], ["t 2", "y"], ["t 3", "x"], ["t 4", "y"]]
PAIRS = [["q 1", "d 1"], ["q 2", "d 2"]]


def cells(file):
    return [row for _, row in file.rows]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("triples", TRIPLES), ("scored", SCORED), ("labelled", LABELLED), ("pairs", PAIRS)],
)
def test_the_kind_is_known_without_names(tmp_path, kind, rows):
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    arrays = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress(text.encode()))
    for path in (
        write(tmp_path / "f.tsv", text),
        tmp_path / "f.txt.gz",
        write(tmp_path / "f.csv", text.replace("\t", ",")),
        write(tmp_path / "f.jsonl", arrays),
    ):
        file = read_user_file(path)
        assert (file.kind, file.columns) == (kind, ())
        assert [line for line, _ in file.rows] == list(range(1, len(rows) + 1))
        assert [list(map(str, row)) for row in cells(file)] == [list(map(str, r)) for r in rows]


@pytest.mark.parametrize(
    ("kind", "names", "rows"),
    [
        ("triples", ["Anchor", "positive", "Negative"], TRIPLES),
        ("scored", ["sentence1", "sentence2", "similarity"], SCORED),
        ("scored", ["premise", "hypothesis", "label"], SCORED),
        ("labelled", ["sentence", "label"], LABELLED),
        ("labelled", ["question", "intent"], LABELLED),
        ("pairs", ["Query", "Document"], PAIRS),
    ],
)
def test_names_decide_in_any_order_and_beside_other_columns(tmp_path, kind, names, rows):
    """Columns are written back to front, after a column that is not needed."""
    columns = {"id": [f"no {i}" for i in range(len(rows))]}
    columns |= {name: [row[i] for row in rows] for i, name in reversed(list(enumerate(names)))}
    records = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    lines = [",".join(columns), *(",".join(map(str, record.values())) for record in records)]
    for path in (
        tmp_path / "f.parquet",
        write(tmp_path / "f.csv", "\n".join(lines)),
        write(tmp_path / "f.jsonl", "\n".join(map(json.dumps, records))),
    ):
        file = read_user_file(path)
        assert (file.kind, list(file.columns)) == (kind, names)
        assert [list(map(str, row)) for row in cells(file)] == [list(map(str, r)) for r in rows]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([[f"t {i}", i % 3] for i in range(9)], "labelled"),  # numbers are no texts
        ([[f"t {i}", f"{i}.5"] for i in range(9)], "labelled"),
        ([[f"t {i}", f"a longer answer, number {i % 5}"] for i in range(9)], "pairs"),
        ([["a", "b", "1"], ["a", "b", "two"], ["a", "b", "3"]], "scored"),
        ([["a", "b", "c"], ["a", "b", "2"], ["a", "b", "d"]], "triples"),
    ],
)
def test_values_decide_where_there_are_no_names(tmp_path, rows, kind):
    path = write(tmp_path / "f.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_user_file(path).kind == kind


def test_what_could_be_two_things_needs_a_word_from_the_user(tmp_path):
    text = "".join(f"question {i}\tthe same answer as to others\n" for i in range(4))
    path = write(tmp_path / "f.tsv", text)
    with pytest.raises(UserError, match=r"f\.tsv: the second column has 1 value in 4 rows.*`kind`"):
        read_user_file(path)
    for kind in ("pairs", "labelled"):
        assert read_user_file(path, kind).kind == kind


@pytest.mark.parametrize("labels", [("pos", "neg"), (0, 1)])
def test_labels_before_their_texts_are_not_taken_for_pairs(tmp_path, labels):
    rows = [[labels[i % 2], f"a review, number {i}"] for i in range(6)]
    path = write(tmp_path / "f.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=r"the first column has 2 values in 6 rows: labels"):
        read_user_file(path)
    assert read_user_file(path, "pairs").kind == "pairs"
    named = "label,text\n" + "".join(f'{label},"{text}"\n' for label, text in rows)
    assert read_user_file(write(tmp_path / "f.csv", named)).kind == "labelled"


@pytest.mark.parametrize(
    ("header", "kind", "columns"),
    [
        ("id,source,text,label", "labelled", ("text", "label")),
        ("title,text,label", "labelled", ("text", "label")),
        ("title,body,label", "labelled", ("body", "label")),
        ("title,description,topic,label", "labelled", ("description", "label")),
        ("summary,title,query,document", "pairs", ("query", "document")),
        ("source,answer,question", "pairs", ("question", "answer")),
        ("source,gold,sentence2,sentence1,score", "scored", ("sentence1", "sentence2", "score")),
    ],
)
def test_of_several_names_the_plainest_is_read(tmp_path, header, kind, columns):
    names = header.split(",")
    rows = [[f"{name} {i}" for name in names[:-1]] + ["xyx"[i]] for i in range(3)]
    if kind == "scored":
        rows = [[*row[:-1], i] for i, row in enumerate(rows)]
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    file = read_user_file(write(tmp_path / "f.csv", "\n".join(lines)))
    assert (file.kind, file.columns) == (kind, columns)
    places = [names.index(name) for name in columns]
    assert cells(file) == [[str(row[place]) for place in places] for row in rows]


def test_a_header_with_a_name_twice_is_refused(tmp_path):
    path = write(tmp_path / "f.csv", "query,query,document\na,b,c\nd,e,f\n")
    with pytest.raises(UserError, match=r'f\.csv:1: several columns are called "query"; rename'):
        read_user_file(path)


def test_a_header_may_stand_below_a_blank_line(tmp_path):
    file = read_user_file(write(tmp_path / "f.csv", "\nquery,document\na,b\nc,d\n"))
    assert (file.columns, cells(file)) == (("query", "document"), [["a", "b"], ["c", "d"]])
    assert [line for line, _ in file.rows] == [3, 4]


def test_words_for_scores_of_pairs_stay_an_error(tmp_path):
    lines = ["premise,hypothesis,label", "a cat,an animal,entailment", "a cat,a dog,contradiction"]
    path = write(tmp_path / "f.csv", "\n".join(lines))
    with pytest.raises(UserError, match=r"f\.csv:2: the score 'entailment' is no number"):
        load_own(path)
    path = write(tmp_path / "g.csv", "title,body,label\nt 1,b 1,1\nt 2,b 2,3\n")
    assert read_user_file(path).kind == "scored"


@pytest.mark.parametrize("kind", [None, "pairs"])
@pytest.mark.parametrize("header", ["question,reply", "id,Title,text", "text,answer"])
def test_a_header_that_is_half_known_is_no_row(tmp_path, header, kind):
    rows = "".join(f"{','.join(f'{name} no {i}' for name in header.split(','))}\n" for i in "12")
    path = write(tmp_path / "f.csv", f"{header}\n{rows}")
    with pytest.raises(UserError, match=r"f\.csv:1: .* look like names of columns, of which "):
        read_user_file(path, kind)


@pytest.mark.parametrize(
    "text",
    [
        "how do I pay,question\nhere is how,answer\nwho are you,question\nit is I,answer\n",
        "what is the longest title of a book,title\nx,y\nz,w\n",
        "a,ein\nthe,der\n",
        "left,right\nq,d\n",
        "query,1\ndocument,2\n",
    ],
)
def test_a_row_with_a_known_word_is_a_row(tmp_path, text):
    file = read_user_file(write(tmp_path / "f.csv", text))
    assert [line for line, _ in file.rows] == list(range(1, text.count("\n") + 1))


def test_the_users_word_beats_names_and_values(tmp_path):
    path = write(tmp_path / "f.csv", "question,answer\nq 1,yes\nq 2,no\nq 3,yes\n")
    assert read_user_file(path).kind == "pairs"
    file = read_user_file(path, "labelled")
    assert cells(file) == [["q 1", "yes"], ["q 2", "no"], ["q 3", "yes"]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "f.csv",
            "anchor,positive,negative\na,b,c\na,b\n",
            r"f\.csv:3: 2 columns; expected 3 as in",
        ),
        ("f.csv", "r,s,t\n\n\nr,s,\n", r"f\.csv:4: expected a text, found ''"),
        ("f.csv", "r,s,t\nx,y,y\n", r"f\.csv:2: positive and negative are the same text, 'y'"),
        ("f.tsv", "a\tb\t1\na\tb\t2\na\tb\tgood\n", r"f\.tsv:3: the score 'good' is no number"),
        ("f.tsv", "r\ts\tt\tu\nr\ts\tt\tu\n", r"f\.tsv: 4 columns; expected triples \(anchor"),
        ("f.txt", "one\ntwo\n", r"f\.txt: 1 column; expected triples"),
        ("f.jsonl", '{"id": 1, "x": "a", "y": "b", "z": "c"}\n' * 2, r"4 columns \(id, x, y, z\)"),
        ("f.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', r"f\.jsonl:2: no field 'label'"),
        ("f.jsonl", '{"text": "a", "label": 1}\n{"text": 7, "label": 1}', r"f\.jsonl:2: .*found 7"),
        (
            "f.jsonl",
            '{"text": "a", "label": null}\n{"text": "b", "label": 1}',
            r":1: expected a label",
        ),
        (
            "f.jsonl",
            '{"text": "a", "label": NaN}\n{"text": "b", "label": 1}',
            ":1: expected a label",
        ),
        ("f.jsonl", '["a", "b"]\n{}\n["c", "d"]\n', r"f\.jsonl:2: 0 columns; expected 2 \(query"),
        ("f.tsv", "a\tb\t3\nc\td\t3\n", r"f\.tsv: all rows have the score 3"),
        ("f.csv", "text,label\na,x\nb,x\n", r"f\.csv: 1 distinct label in 2 rows; expected two"),
        ("f.csv", "text,label\na,x\nb,y\n", r"f\.csv: 2 distinct labels in 2 rows"),
        ("f.jsonl", "[" * 100_000 + "\n[1, 2]\n", r"f\.jsonl:1: not valid JSON"),
        (
            "f.jsonl",
            f'["a", {"9" * 5000}]\n[1, 2]\n',
            r"f\.jsonl:1: not valid JSON \(Exceeds the limit",
        ),
        ("f.jsonl", f'["a", "b", {"9" * 400}]\n["a", "b", 1]\n["a", "b", 2]\n', "999 is no number"),
        ("f.csv.gz", "not compressed", r"f\.csv\.gz cannot be read as \.gz"),
    ],
)
def test_bad_rows_are_named_with_their_line(tmp_path, name, text, message):
    with pytest.raises(UserError, match=message):
        load_own(write(tmp_path / name, text))


def test_parquet_that_is_no_utf8_is_named(tmp_path):
    offsets, data = np.array([0, 2, 4], np.int32), b"\xff\xfeok"
    texts = pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(data))
    pq.write_table(pa.table({"query": texts, "document": ["a", "b"]}), tmp_path / "f.parquet")
    with pytest.raises(UserError, match=r"f\.parquet cannot be read as parquet: 'utf-8' codec"):
        read_user_file(tmp_path / "f.parquet")


def test_a_date_that_python_does_not_have_is_named(tmp_path):
    table = {
        "query": ["a", "b"],
        "document": ["c", "d"],
        "at": pa.array([10**15] * 2, "timestamp[ms]"),
    }
    pq.write_table(pa.table(table), tmp_path / "f.parquet")
    with pytest.raises(UserError, match=r"f\.parquet cannot be read as parquet: "):
        read_user_file(tmp_path / "f.parquet")


def test_whole_numbers_are_one_label_however_they_are_written(tmp_path):
    lines = [
        '{"text": "a", "label": 1}',
        '{"text": "b", "label": 1.0}',
        '{"text": "c", "label": 0.5}',
    ]
    path = write(tmp_path / "f.jsonl", "\n".join(lines))
    assert load_own(path).content.labels == ("1", "1", "0.5")


def test_a_cell_may_be_longer_than_the_csv_module_likes(tmp_path):
    before = csv.field_size_limit(131_072)  # its default, which other readers lift
    try:
        path = write(tmp_path / "f.csv", f"query,document\n{'x' * 200_000},d 1\nq 2,d 2\n")
        assert len(cells(read_user_file(path))[0][0]) == 200_000
    finally:
        csv.field_size_limit(before)


def test_a_file_whose_name_is_no_text_is_refused(tmp_path):
    path = tmp_path / os.fsdecode(b"q\xe9.csv")
    path.write_text("query,document\na,b\n")
    with pytest.raises(UserError, match="cannot be read as csv"):
        read_user_file(path)
