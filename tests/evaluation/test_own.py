"""A user's own data: scores against known angles and dull loops; folders of judged queries."""

import gzip
import json

import numpy as np
import pytest
from sts_files import angles

from isospace.errors import UserError
from isospace.evaluation.judged import load_judged
from isospace.evaluation.own import evaluate_own
from isospace.evaluation.own_data import load_own
from isospace.operators import nearest

RANDOM = np.random.default_rng(0)


def test_scored_pairs(tmp_path):
    rows = [("0", "10", "5"), ("0", "90", "1"), ("0", "60", "3")]
    lines = ["\t".join(row) for row in [("sentence1", "sentence2", "score"), *rows]]
    (tmp_path / "s.tsv").write_text("\n".join(lines), encoding="utf-8")
    data = load_own(tmp_path / "s.tsv")
    scores = evaluate_own(angles, data)
    assert json.loads(json.dumps(scores.to_json())) == scores.to_json()
    assert set(data.texts()) <= {cell for row in rows for cell in row}
    assert scores.values == pytest.approx({"Spearman": 1.0})
    assert scores.protocol.endswith("correlation of cosine and score, 3 pairs")


# Folders of queries, documents and judgements: layouts, flaws of published sets, refusals


DOCUMENTS = [
    {"_id": "d1", "title": "Cats", "text": "They purr."},
    {"_id": "d2", "title": "", "text": "A dog barks."},
    {"_id": "d 3", "text": "Rivers flow."},
]
ASKED = {"q1": "what purrs", "q2": "what barks", "q3": "asked by nobody"}
QUERIES = [{"_id": key, "text": text} for key, text in ASKED.items()]
HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = HEADER + "q1\td1\t2\nq1\td2\t0\nq2\td2\t1\nq2\td 3\t1\n"


def write(folder, documents=DOCUMENTS, queries=QUERIES, qrels=QRELS, name="qrels/test.tsv"):
    (folder / "qrels").mkdir(exist_ok=True)
    for file, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / name).write_text(qrels, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qrels": HEADER + "q8\td1\t1\nq9\td2\t1\n"}, ["test.tsv:2: there is no query 'q8'"]),
        ({"qrels": HEADER + "q1\td1\t1\nq2\td2\tgood\n"}, ["test.tsv:3:", "'good'"]),
        ({"qrels": "q1\td1\tnan\nq2\td2\t1\n"}, ["test.tsv:1:", "'nan'"]),
        ({"qrels": HEADER + "q1\td1\n"}, ["test.tsv:2: 2 fields", "grade"]),
        ({"qrels": HEADER + "q1\td1\t1\n"}, ["test.tsv: 1 judged query"]),
        ({"qrels": HEADER + "q1\td1\t0\nq2\td1\t0\n"}, ["test.tsv: no grade"]),
        ({"qrels": HEADER + "q1\td8\t1\nq2\td9\t1\n"}, ["test.tsv:2: there is no document 'd8'"]),
        ({"documents": [{"text": "x"}]}, ['corpus.jsonl:1: "_id" is None']),
        ({"queries": [{"_id": "q1", "text": 3}]}, ["queries.jsonl:1: 3"]),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, change, words):
    with pytest.raises(UserError) as refused:
        load_judged(write(tmp_path, **change))
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


def test_flaws_of_published_sets_are_counted(tmp_path, caplog):
    """Of repeated ones the last counts; missing documents are never found, missing queries go."""
    more = [{"_id": "d2", "text": "They sleep."}, {"_id": "q1", "title": " ", "text": None}]
    qrels = QRELS + "q1\td2\t3\nq1\tgone\t2\nnobody\td1\t1\n"
    judged = load_judged(write(tmp_path, [*DOCUMENTS, *more], qrels=qrels))
    assert judged.queries == ("what purrs", "what barks")
    assert judged.documents == ("Cats They purr.", "They sleep.", "Rivers flow.", "")
    assert judged.judgements == ({0: 2, 1: 3, 4: 2}, {1: 1, 2: 1})
    assert judged.ignored == (3, -1)
    repeated, *_ = judged.notes  # repeated, missing, ignored
    assert [note.rpartition(": ")[2] for note in judged.notes] == ["2", "2", "1"]
    assert repeated in caplog.text
    assert "test.tsv:7: there is no document 'gone'" in caplog.text


def test_each_way_ignores_identical_ids(tmp_path, monkeypatch):
    """Quora and ArguAna: the query itself would come before the one right answer."""
    monkeypatch.setattr(nearest, "BLOCK", 5)  # a block for each query
    texts = {"a": "one two", "b": "one two three", "c": "six", "d": "six seven", "e": "five"}
    documents = [{"_id": key, "text": text} for key, text in texts.items()]
    folder = write(tmp_path, documents, documents, HEADER + "a\tb\t1\nc\td\t1\ne\te\t1\n")

    def encode(found):
        words = ("one", "two", "three", "five", "six", "seven")
        return np.array([[float(word in text.split()) for word in words] for text in found])

    ignoring = evaluate_own(encode, load_own(folder)).with_bm25.values
    for way in ("encoder", "BM25", "hybrid"):
        # e is judged relevant to itself, and so is found; without it BEIR's number would be 67.
        assert ignoring[way]["nDCG@10"] == pytest.approx(1), way


def test_forms_of_published_files(tmp_path):
    """Ids that are numbers, titles or header missing, CRLF, blank lines at the end, compressed."""
    documents = [{"_id": 1, "title": None, "text": "a"}, {"_id": 2, "text": "b"}]
    queries = [{"_id": 10, "text": "1", "metadata": {}}, {"_id": 20, "text": "2"}]
    lines = ["10\t1\t2", "10\t2\t-1", "20\t2\t1", "", ""]
    write(tmp_path, documents, queries)
    corpus = tmp_path / "corpus.jsonl"
    packed = gzip.compress(corpus.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    (tmp_path / "corpus.jsonl.gz").write_bytes(packed)
    corpus.unlink()
    for header, end in (([], "\n"), (["qid\tdocid\trel"], "\r\n")):
        (tmp_path / "qrels/test.tsv").write_bytes(end.join(header + lines).encode())
        judged = load_judged(tmp_path)
        assert (judged.queries, judged.documents) == (("1", "2"), ("a", "b"))
        assert judged.judgements == ({0: 2, 1: -1}, {1: 1})
        assert not judged.notes


def test_splits(tmp_path):
    folder = write(tmp_path, name="qrels/dev.tsv")
    assert load_judged(folder).file == "qrels/dev.tsv"  # the only one, as of MS MARCO
    (folder / "qrels/train.tsv").write_text(HEADER + "q1\td1\t1\nq3\td2\t1\n")
    with pytest.raises(UserError, match=r"split test, but qrels/dev.tsv, qrels/train.tsv.*`split`"):
        load_judged(folder)
    assert load_judged(folder, "train").queries == ("what purrs", "asked by nobody")
    write(folder)
    assert load_judged(folder).file == "qrels/test.tsv"
    assert load_judged(folder, "dev").file == "qrels/dev.tsv"
