"""Passages are looked for among all of the held-out documents, or of the corpus."""

import functools
import json
import random

import numpy as np
import pytest
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus import relations
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark, hard_pairs, validation_text
from isospace.evaluation.pairs import Candidates, TextPairs
from isospace.evaluation.retrieval import Targets, evaluate_retrieval

SYLLABLES = ["ba", "co", "di", "fu", "ge", "ha", "ki", "lo", "mu", "ne", "po", "ra", "su", "ti"]


def word(rng):
    return "".join(rng.choices(SYLLABLES, k=3))


def documents(count, paragraphs=3):
    rng = random.Random(count)

    def paragraph():
        made = (" ".join(word(rng) for _ in range(8)).capitalize() + "." for _ in range(5))
        return " ".join(made)

    return [
        {
            "title": " ".join(word(rng) for _ in range(4)),
            "text": "\n\n".join(paragraph() for _ in range(paragraphs)),
        }
        for _ in range(count)
    ]


def load(folder, rows, **options):
    file = folder / "docs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"title_column": "title", "passage_words": 50, **options}
    return load_corpus(CorpusConfig(corpus=(str(file),), **settings), folder / "cache")


@functools.cache
def direction(text):
    return np.random.default_rng(list(text.encode())).normal(size=6) + 0.5


def encode(texts):
    """A direction of its own for each text, with something in common."""
    return np.stack([direction(text) for text in texts]).astype(np.float32)


def passages_by_title(rows):
    return {row["title"]: row["text"].split("\n\n") for row in rows}


def rank_by_a_loop(query, right, others):
    def cosine(text):
        a, b = encode([query, text]).astype(np.float64)
        return a @ b / np.sqrt((a @ a) * (b @ b))

    own = cosine(right)
    return 1 + sum(cosine(text) > own for text in others)


@pytest.fixture
def few_pairs(monkeypatch):
    monkeypatch.setattr(relations, "TEST_PAIRS", 25)


def test_a_passage_is_ranked_among_all_that_are_not_right_too(tmp_path, few_pairs):
    rows = documents(500)
    corpus = load(tmp_path, rows, held_out=120, test_relation="title-passage")
    held, of_title = set(corpus.held_out()), passages_by_title(rows)
    assert len(held) == 120
    benchmark = Benchmark.make(corpus)
    assert len(benchmark.pairs) == 25
    found = evaluate_retrieval(encode, benchmark.pairs)
    assert found.candidates == 120
    assert found.protocol.endswith("; candidates: all passages of the held-out documents")
    for (title, passage), rank in list(zip(benchmark.pairs, found.ranks, strict=True))[:6]:
        assert rank == rank_by_a_loop(title, passage, held - set(of_title[title]))


def test_distractors_are_all_passages_of_the_corpus(tmp_path, few_pairs):
    rows = documents(500)
    corpus = load(tmp_path, rows, held_out=120, test_relation="title-passage", distractors=True)
    assert corpus.digest == load(tmp_path, rows, held_out=120, test_relation="title-passage").digest
    every, of_title = (
        {p for row in rows for p in row["text"].split("\n\n")},
        passages_by_title(rows),
    )
    benchmark, without = Benchmark.make(corpus, distractors=True), Benchmark.make(corpus)
    found = evaluate_retrieval(encode, benchmark.pairs)
    assert found.candidates == len(every) == 1500
    for (title, passage), rank in list(zip(benchmark.pairs, found.ranks, strict=True))[:2]:
        assert rank == rank_by_a_loop(title, passage, every - set(of_title[title]))
    assert found.mrr < evaluate_retrieval(encode, without.pairs).mrr
    # What is not held out is no sample: the interval takes it as it is.
    assert benchmark.pairs.among is not None
    assert benchmark.pairs.among.groups.count(None) == 1380
    # Scores among other candidates are not compared item by item, but the pairs are the same.
    assert benchmark.digest() != without.digest()
    assert benchmark.pairs_digest() == without.pairs_digest()


def test_a_neighbour_is_not_looked_for_behind_the_query_itself(tmp_path):
    rows = documents(400, paragraphs=4)
    corpus = load(tmp_path, rows, held_out=120, test_relation="neighbours")
    benchmark, held = Benchmark.make(corpus), set(corpus.held_out())
    found = evaluate_retrieval(encode, benchmark.pairs)
    texts = {p: row["text"].split("\n\n") for row in rows for p in row["text"].split("\n\n")}
    for (query, passage), rank in list(zip(benchmark.pairs, found.ranks, strict=True))[:8]:
        place = texts[query].index(query)
        with_bm25 = {*texts[query][max(0, place - 1) : place + 2]}
        assert rank == rank_by_a_loop(query, passage, held - with_bm25)


def test_displacement_is_of_the_groups_that_bring_the_candidates():
    """By a loop: what each candidate takes from the queries of either half."""
    texts = sentences(14)
    queries, targets, others = texts[:4], texts[4:8], texts[8:]
    groups = ("a", "b", "c", "b")
    among = Candidates(
        tuple(others), ("a", "b", None, "nobody", "b", "c"), {queries[0]: np.array([4])}, "some"
    )
    pairs = TextPairs("made", tuple(queries), tuple(targets), groups=groups, among=among)
    found = evaluate_retrieval(encode, pairs)
    expected = np.zeros((2, 4))
    bearers = dict(zip((*targets, *others), (0, 1, 2, 3, 0, 1, None, None, 1, 2), strict=True))
    for at, (query, right) in enumerate(pairs):
        candidates = {*targets, *others} - {right} - ({others[4]} if at == 0 else set())
        rank = rank_by_a_loop(query, right, candidates)
        assert found.ranks[at] == rank
        for text in candidates:
            taken = 1 / rank_by_a_loop(query, right, candidates - {text}) - 1 / rank
            if bearers[text] is not None:
                expected[{"a": 0, "b": 1, "c": 0}[groups[at]], bearers[text]] += taken
    assert np.allclose(found.displacement, expected)
    assert (found.displacement.sum(), Targets.of_pairs(pairs).texts) > (0, ())


def test_distractors_without_documents_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(sentences(600)))
    corpus = load_corpus(CorpusConfig(corpus=(str(tmp_path / "text.txt"),)), tmp_path / "cache")
    with pytest.raises(UserError, match="`distractors`: halves of sentences"):
        Benchmark.make(corpus, distractors=True)


def test_validation_pairs_are_looked_for_among_training_passages_too(tmp_path, monkeypatch):
    monkeypatch.setattr("isospace.evaluation.benchmark.DISTRACTORS", 300)
    rows = documents(1500)
    corpus = load(tmp_path, rows, held_out=440, test_relation="title-passage")
    held_out = validation_text(corpus)
    hard, of_title = hard_pairs(corpus, held_out), passages_by_title(rows)
    assert (hard.first, hard.second) == (held_out.pairs.first, held_out.pairs.second)
    added = set(hard.among.texts) - set(held_out.pairs.among.texts)
    assert len(added) == 300
    assert added <= {corpus[int(row)] for row in corpus.train_rows}
    found, every = evaluate_retrieval(encode, hard), set(hard.among.texts)
    for (title, passage), rank in list(zip(hard, found.ranks, strict=True))[:2]:
        assert rank == rank_by_a_loop(title, passage, every - set(of_title[title]))
