"""Folders of queries, documents and judgements: layouts, flaws of published sets, what is refused.

The numbers are pytrec_eval's, and BEIR's rule about identical ids.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import pytrec_eval

from isospace.errors import UserError
from isospace.evaluation.judged_files import load_judged
from isospace.evaluation.own import evaluate_own
from isospace.evaluation.own_data import load_own

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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qrels": HEADER + "q8\td1\t1\nq9\td2\t1\n"}, ["test.tsv:2: there is no query 'q8'"]),
        ({"qrels": HEADER + "q1\td1\t1\nq2\td2\tgood\n"}, ["test.tsv:3:", "'good'"]),
        ({"qrels": HEADER + "q1\td1\n"}, ["test.tsv:2: 2 fields", "grade"]),
        ({"qrels": HEADER + "q1\td1\t1\n"}, ["test.tsv: 1 judged query"]),
        ({"qrels": HEADER + "q1\td1\t0\nq2\td1\t0\n"}, ["test.tsv: no grade"]),
        ({"documents": [{"text": "x"}]}, ['corpus.jsonl:1: "_id" is None']),
        ({"queries": [{"_id": "q1", "text": 3}]}, ["queries.jsonl:1: 3"]),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, change, words):
    with pytest.raises(UserError) as refused:
        load_judged(write(tmp_path, **change))
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


def scored(folder):
    """Our scores, and pytrec_eval's of the same cosines without identical ids, as BEIR has it."""

    def encode(texts):
        return np.stack(
            [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
        )

    found = evaluate_own(encode, load_own(folder))
    ids = {
        name: {
            str(row["_id"]): f"{row.get('title') or ''} {row['text'] or ''}".strip()
            for row in map(json.loads, (folder / f"{name}.jsonl").read_text().split("\n"))
        }
        for name in ("corpus", "queries")
    }
    qrels = {}
    for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)  # the last counts, as for BEIR's loader
    run = {}
    for query in qrels.keys() & ids["queries"].keys():
        [asked], texts = encode([ids["queries"][query]]), encode(ids["corpus"].values())
        cosines = texts @ asked / np.linalg.norm(texts, axis=1) / np.linalg.norm(asked)
        run[query] = dict(zip(ids["corpus"], cosines.tolist(), strict=True))
        run[query].pop(query, None)
    each = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "recall_10", "recall_100"})
    values = each.evaluate(run).values()
    theirs = {
        name: np.mean([of[measure] for of in values])
        for name, measure in (("nDCG@10", "ndcg_cut_10"), ("R@10", "recall_10"), ("R@100", "recall_100"))
    }  # fmt: skip
    return found, {name: found.values[name] for name in theirs}, theirs


def random_set(folder, seed=0):
    """40 queries and 150 documents, of which the first 20 have the ids and texts of queries."""
    random = np.random.default_rng(seed)
    queries = [{"_id": f"t{i}", "text": f"query {i}"} for i in range(40)]
    documents = [
        {"_id": f"t{i}", "text": f"query {i}" if i < 20 else f"text {i}"}
        for i in (*range(20), *range(100, 230))
    ]
    lines = [
        f"t{query}\tt{document}\t{grade}"
        for query in range(40)
        for document, grade in zip(
            random.choice(np.arange(100, 230), 20, replace=False), random.integers(-1, 4, 20), strict=True
        )
    ]  # fmt: skip
    return write(folder, documents, queries, HEADER + "\n".join(lines) + "\n")


def test_a_set_with_flaws_is_scored_as_by_trec_eval_and_beir(tmp_path, caplog):
    """Missing documents are not found, and stay in the ideal order; missing queries are not asked."""
    folder = random_set(tmp_path)
    path = folder / "qrels/test.tsv"
    lines = path.read_text().splitlines()
    query, document, grade = lines[1].split("\t")
    repeated = [lines[2], f"{query}\t{document}\t{int(grade) + 2}"]
    missing = ["t3\tgone1\t3", "t3\tgone2\t1", "t39\tgone1\t2", "nobody\tt100\t1"]
    path.write_text("\n".join([*lines, *repeated, *missing]))
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('\n{"_id": "t150", "text": "another text"}')
        file.write('\n{"_id": "t300", "title": " ", "text": ""}\n{"_id": "t301", "text": null}')
    found, ours, theirs = scored(folder)
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert found.n == 40
    for words in (
        "repeated ids and judgements, of which the last counts: 3",
        "(left out) or documents (counted as not found): 4",
    ):
        assert words in found.protocol
        assert words in caplog.text
    assert "documents with the id of their query, ignored, as in BEIR: 20" in found.protocol
    assert "test.tsv:804: there is no document 'gone1'" in caplog.text


def test_each_way_ignores_identical_ids(tmp_path):
    """Quora and ArguAna: the query itself would come before the one right answer."""
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
    expected = (("1", "2"), ("a", "b"), ({0: 2, 1: -1}, {1: 1}))
    documents = [{"_id": 1, "title": None, "text": "a"}, {"_id": 2, "text": "b"}]
    queries = [{"_id": 10, "text": "1", "metadata": {}}, {"_id": 20, "text": "2"}]
    lines = ["10\t1\t2", "10\t2\t-1", "20\t2\t1", "", ""]
    for number, (header, end) in enumerate(
        [([], "\n"), (["query-id\tcorpus-id\tscore"], "\r\n"), (["qid\tdocid\trel"], "\n")]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, documents, queries)
        (folder / "qrels/test.tsv").write_bytes(end.join(header + lines).encode())
        for name in ("corpus.jsonl", "queries.jsonl"):
            content = (folder / name).read_bytes().replace(b"\n", end.encode())
            (folder / f"{name}.gz").write_bytes(gzip.compress(content + 2 * end.encode()))
            (folder / name).unlink()
        judged = load_judged(folder)
        assert (judged.queries, judged.documents, judged.judgements) == expected
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
    with pytest.raises(UserError, match=r"no judgements of the split val, but .*qrels/dev.tsv"):
        load_judged(folder, "val")
