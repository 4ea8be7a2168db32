"""Queries from a file: read, kept apart from what is held out, and trained on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from toy import sentences

from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.objectives import RankCSE
from isospace.system.progress import Silent
from isospace.training.examples import Examples, read_queries
from isospace.training.prepare import make_accelerator, prepare


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "where is the cat\nwho runs\ton the mat\n\nwhere is the cat\n"),
        ("d.csv", "passage,clicks,query\n,3,where is the cat\non the mat,4,who runs\n"),
        (
            "b.jsonl",
            '{"question": "where is the cat"}\n{"document": "on the mat", "query": "who runs"}',
        ),
    ],
)
def test_files_of_all_kinds(on_documents, of_documents, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    found = read_queries(tmp_path / name, on_documents, of_documents)
    assert found.pairs == (("who runs", "on the mat"),)
    assert found.alone == ("where is the cat",)
    assert found.summary == "1 pair of a query and its passage, 1 query without a passage"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n\n", r"`queries` .*a\.\w+: "),
        ("a.jsonl", '{"query": "who", "reply": "I"}\n', "a.jsonl:1:"),
        ("a.csv", "who,where,when\n", "a.csv:1: 3"),
    ],
)
def test_bad_files_are_refused(on_documents, of_documents, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_queries(tmp_path / name, on_documents, of_documents)


def test_what_repeats_a_held_out_text_is_left_out(on_documents, of_documents, tmp_path):
    title, passage = of_documents.pairs.test[0]
    own = tmp_path / "own.jsonl"
    other = " ".join(["a pair of mine that judges", *sentences(1)])
    own.write_text("".join(json.dumps([other, text]) + "\n" for text in sentences(2)))
    rows = [
        ("a", passage.upper()),
        (title, "b"),
        ("c", f"{of_documents.held_out()[0]} too"),
        ("d", "e"),
    ]
    rows += [(other, "f"), (other, "")]
    file = tmp_path / "queries.jsonl"
    file.write_text("\n".join(json.dumps({"query": q, "passage": p}) for q, p in rows))
    found = read_queries(file, replace(on_documents, pairs=own), of_documents)
    assert found.pairs == (("d", "e"),)
    assert found.alone == ()
    assert found.left_out == 5


def test_they_are_further_pairs(on_documents, of_documents, tmp_path):
    file = tmp_path / "queries.jsonl"
    rows = [{"query": "who", "passage": "the cat"}, {"query": "where", "passage": "the cat"}]
    file.write_text("\n".join(map(json.dumps, [*rows, {"query": "when"}])))
    without = Examples.from_corpus(on_documents, of_documents)
    found = Examples.from_corpus(replace(on_documents, queries=file), of_documents)
    assert (found.rows[: len(without)] == without.rows).all()
    assert (found.origins[: len(without)] == without.origins).all()
    lines = list(found.texts)
    added = found.rows[len(without) :]
    assert [[lines[line] for line in row] for row in added.tolist()] == [
        ["who", "the cat"],
        ["where", "the cat"],
        ["when", "when"],  # until it is answered
    ]
    assert found.unanswered.tolist() == [False] * (len(found) - 1) + [True]
    assert [found.texts[line] for line in range(len(lines))] == lines
    assert added[0, 1] == added[1, 1]  # so that no batch has both
    assert without.unanswered is None
    assert found.texts.digest != without.texts.digest
    assert found.summary.endswith("2 pairs of a query and its passage, 1 query without a passage")
    done = found.answered(lambda queries: np.full(len(queries), of_documents.train_rows[0]))
    assert done.unanswered is None
    assert done.rows[-1, 1] == of_documents.train_rows[0]
    assert (
        done.origins[-1, 2] == of_documents.related.structure.documents[of_documents.train_rows[0]]
    )


def test_a_query_alone_gets_the_teacher_s_best_passage(on_documents, of_documents, tmp_path):
    """With much weight on BM25 that is the passage whose words it has."""
    rows = np.random.default_rng(0).choice(of_documents.train_rows, 5, replace=False).tolist()
    queries = [" ".join(of_documents[row].split()[:9]) for row in rows]
    file = tmp_path / "queries.txt"
    file.write_text("\n".join(queries))
    config = replace(on_documents, objective=RankCSE(), teacher="base+bm25", queries=file)
    _, loop = prepare(config, make_accelerator(config), Silent())
    found = loop.training.batches.examples.rows[-5:, 1]
    passages = [of_documents[row] for row in of_documents.train_rows]
    by_words = of_documents.train_rows[BM25(passages).scores(queries).argmax(1)]
    assert (found == by_words).sum() >= 4
    assert set(found) <= set(of_documents.train_rows.tolist())
