"""Folders of queries, documents and judgements: both layouts, and what is refused by its line."""

from __future__ import annotations

import gzip
import json

import pytest

from isospace.errors import UserError
from isospace.evaluation.judged_files import load_judged

DOCUMENTS = [
    {"_id": "d1", "title": "Cats", "text": "They purr."},
    {"_id": "d2", "title": "", "text": "A dog barks."},
    {"_id": "d 3", "text": "Rivers flow."},
]
QUERIES = [
    {"_id": "q1", "text": "what purrs"},
    {"_id": "q2", "text": "what barks"},
    {"_id": "q3", "text": "asked by nobody"},
]
HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = HEADER + "q1\td1\t2\nq1\td2\t0\nq2\td2\t1\nq2\td 3\t1\n"


def write(folder, documents=DOCUMENTS, queries=QUERIES, qrels=QRELS, name="qrels/test.tsv"):
    (folder / "qrels").mkdir(exist_ok=True)
    for file, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / name).write_text(qrels, encoding="utf-8")
    return folder


def test_beir(tmp_path):
    judged = load_judged(write(tmp_path))
    assert judged.queries == ("what purrs", "what barks")
    assert judged.documents == ("Cats They purr.", "A dog barks.", "Rivers flow.")
    assert judged.judgements == ({0: 2, 1: 0}, {1: 1, 2: 1})


@pytest.mark.parametrize("line", ["q1 0 d1 2\nq2 0 d2 1\n", "q1\tQ0\td1\t2\nq2\tQ0\td2\t1\n"])
def test_trec(tmp_path, line):
    folder = write(tmp_path, qrels=line, name="qrels.txt")
    (folder / "queries.jsonl").unlink()
    (folder / "topics.tsv").write_text("q1\twhat purrs\nq2\twhat barks\n", encoding="utf-8")
    judged = load_judged(folder)
    assert (judged.queries, judged.judgements) == (("what purrs", "what barks"), ({0: 2}, {1: 1}))


def test_compressed(tmp_path):
    folder = write(tmp_path)
    path = folder / "corpus.jsonl"
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert len(load_judged(folder).documents) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qrels": QRELS + "q9\td1\t1\nq1\td9\t1\n"}, ["test.tsv:6: 'q9' is not in queries.jsonl", "2 of the judgements"]),
        ({"qrels": QRELS + "q1\td1\t1\n"}, ["test.tsv:6", "'q1' and document 'd1' stand twice"]),
        ({"qrels": HEADER + "q1\td1\tgood\n"}, ["test.tsv:2: the grade 'good' is no number"]),
        ({"qrels": HEADER + "q1\td1\tnan\n"}, ["test.tsv:2: the grade 'nan' is no number"]),
        ({"qrels": HEADER + "q1\td1\n"}, ["test.tsv:2: 2 fields", "grade"]),
        ({"qrels": HEADER + "q1\td1\t1\n"}, ["1 judged query; expected two or more"]),
        ({"qrels": HEADER + "q1\td1\t0\nq2\td1\t0\n"}, ["no document is relevant"]),
        ({"documents": [*DOCUMENTS, {"_id": "d1", "text": "x"}]}, ["corpus.jsonl:4: the id 'd1' stands twice"]),
        ({"documents": [*DOCUMENTS, {"_id": "d4", "title": " ", "text": ""}]}, ["corpus.jsonl:4: 'd4' has no text"]),
        ({"documents": [{"text": "x"}]}, ['corpus.jsonl:1: "_id" is None']),
        ({"queries": [{"_id": "q1", "text": 3}]}, ["queries.jsonl:1: expected a text, found 3"]),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, change, words):
    with pytest.raises(UserError) as refused:
        load_judged(write(tmp_path, **change))
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(tmp_path, missing):
    write(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(UserError, match=f"no {missing}.*BEIR's layout"):
        load_judged(tmp_path)
