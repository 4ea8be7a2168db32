"""What a run trains on: lines, pairs of lines that belong together, queries of a file, batches."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.corpus.relations import Role
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.objectives import RankCSE, SimCSE
from isospace.system.progress import Silent
from isospace.training.batches import Order
from isospace.training.examples import Examples, crop, read_queries
from isospace.training.prepare import make_accelerator, prepare


def test_the_default_trains_on_relations_other_than_the_judging_one(on_documents, of_documents):
    few = replace(on_documents, relations=("heading-section",))
    found = Examples.from_corpus(few, of_documents)
    assert len(found) == of_documents.related.counts()["heading-section"] > 50
    assert found.summary == f"{len(found)} heading-section; test pairs: title-passage"
    roles = of_documents.related.structure.roles[found.rows]
    assert (roles == [Role.HEADING, Role.PASSAGE]).all()

    default = Examples.from_corpus(on_documents, of_documents)
    counts = of_documents.related.counts()
    enough = {name for name, n in counts.items() if n >= 100 and name != "title-passage"}
    assert enough
    assert len(default) == sum(counts[name] for name in enough)


def test_nothing_that_is_held_out_is_in_a_pair(on_documents, of_documents):
    held = {text for pair in of_documents.pairs.test + of_documents.pairs.dev for text in pair}
    found = Examples.from_corpus(replace(on_documents, views="both"), of_documents)
    lines = list(found.texts)
    assert held
    assert not held & {lines[line] for line in np.unique(found.rows)}


def test_related_texts_are_two_that_differ_and_no_crop():
    """Few of them are spread evenly."""
    numbers = np.arange(1000)
    texts = [f"{n} a" for n in numbers] + [f"{n} {'b' if n % 10 == 3 else 'a'}" for n in numbers]
    found = Examples(np.stack([numbers, numbers + 1000], axis=1), texts, cropped=numbers % 20 == 13)
    first, second = found.related_texts(1000)
    assert first == [f"{n} a" for n in range(3, 1000, 20)]
    assert second == [f"{n} b" for n in range(3, 1000, 20)]
    assert found.related_texts(400) == (first, second)
    assert found.related_texts(25) == (first[::2], second[::2])


def test_a_crop_counts_as_the_share_of_its_text_that_is_drawn():
    tokens = SimpleNamespace(lengths=np.array([10, 20, 40, 50]))
    rows = np.array([[0, 1], [2, 2], [3, 3]])
    assert Examples(rows).mean_tokens([tokens, tokens]) == (10 + 20 + 80 + 100) / 3
    cropped = Examples(rows, cropped=np.array([False, True, True]))
    assert cropped.mean_tokens([tokens, tokens]) == pytest.approx((30 + 0.3 * 180) / 3)


def test_no_batch_has_a_document_twice_and_every_pair_comes(on_documents, of_documents):
    found = Examples.from_corpus(on_documents, of_documents)
    order = Order(found, 16, seed=1)
    seen = []
    for number in range(len(found) // 16 - 2):
        batch = order.batch(number)
        met = [set(found.origins[place]) for place in batch]
        assert sum(map(len, met)) == len(set.union(*met))
        seen += batch.tolist()
    assert len(seen) == len(set(seen))
    assert len(seen) > 0.8 * len(found)
    # As a resumed run asks for them.
    assert (Order(found, 16, seed=1).batch(3) == order.batch(3)).all()
    assert (Order(found, 16, seed=2).batch(3) != order.batch(3)).any()


def test_a_crop_is_a_run_of_a_tenth_to_a_half_of_the_tokens(toy_model):
    vocabulary = load_encoder(str(toy_model), device="cpu").vocabulary
    special = sorted(vocabulary.special)
    ids = np.array([special[0], *range(max(special) + 1, max(special) + 41), special[1]])
    lengths = set()
    for seed in range(200):
        found = crop(ids, np.random.default_rng(seed), vocabulary)
        assert [found[0], found[-1]] == [ids[0], ids[-1]]
        words = found[1:-1]
        assert (np.diff(words) == 1).all()
        lengths.add(len(words))
        prompted = crop(ids, np.random.default_rng(seed), vocabulary, before=5)
        assert (prompted[:5] == ids[:5]).all()
        assert 4 <= len(prompted) - 6 <= 18
    assert (min(lengths), max(lengths)) == (4, 20)


def test_supervised_pairs_that_share_a_text_are_not_in_one_batch(on_documents, tmp_path):
    """Hard negatives may be shared: here all rows have one."""
    path = tmp_path / "faq.tsv"
    answers = [f"Answer {n} of all of them\tthere is no answer" for n in range(50)]
    rows = [f"question number {n} of it\t{answers[n % 50]}" for n in range(300)]
    path.write_text("\n".join(["q\ta\tn", *rows]))
    text = CorpusConfig(corpus=(str(path),), columns=("q", "a", "n"), near_duplicates=False)
    objective = SimCSE(supervision="triples")
    config = replace(on_documents, text=text, views="dropout", objective=objective)
    corpus = load_corpus(text, tmp_path)
    order = Order(Examples.from_corpus(config, corpus), 16, seed=0)
    for number in range(order.per_epoch):
        answers = [corpus[line + 1] for line in corpus.train_rows[order.batch(number)].tolist()]
        assert len(set(answers)) == 16


def test_pairs_that_nearly_share_a_text_are_not_in_one_batch(on_documents, tmp_path):
    """Half of the questions ask nearly the same, each with an answer of its own."""
    long = "how do i get rid of the old log files that fill up the disk of the server in the cellar"
    path = tmp_path / "faq.tsv"
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrstuvwxyz"]
    asked = [f"{long} {word}" if n % 2 else f"{word} what {word}" for n, word in enumerate(words)]
    rows = [f"{one}\t{word}, as ever {word}" for one, word in zip(asked, words, strict=True)]
    path.write_text("\n".join(["q\ta", *rows]) + "\n")
    every = CorpusConfig(corpus=(str(path),), columns=("q", "a"), held_out=0)
    for near in (True, False):
        text = replace(every, near_duplicates=near)
        corpus = load_corpus(text, tmp_path)
        order = Order(Examples.from_corpus(replace(on_documents, text=text), corpus), 8, seed=0)
        batches = [corpus.train_rows[order.batch(n)].tolist() for n in range(order.per_epoch)]
        counts = [sum(corpus[line].startswith("how") for line in batch) for batch in batches]
        assert (max(counts) == 1) == near


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "where is it\nwho runs\ton the mat\n\nwhere is it\n"),
        ("d.csv", "passage,clicks,query\n,3,where is it\non the mat,4,who runs\n"),
        ("b.jsonl", '{"question": "where is it"}\n{"document": "on the mat", "query": "who runs"}'),
    ],
)
def test_queries_come_from_files_of_all_kinds(on_documents, of_documents, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    found = read_queries(tmp_path / name, on_documents, of_documents)
    assert found.pairs == (("who runs", "on the mat"),)
    assert found.alone == ("where is it",)
    assert found.summary == "1 pair of a query and its passage, 1 query without a passage"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n\n", r"`queries` .*a\.\w+: "),
        ("a.jsonl", '{"query": "who", "reply": "I"}\n', "a.jsonl:1:"),
        ("a.csv", "who,where,when\n", "a.csv:1: 3"),
    ],
)
def test_bad_queries_are_refused(on_documents, of_documents, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_queries(tmp_path / name, on_documents, of_documents)


def test_a_query_that_repeats_a_held_out_text_is_left_out(on_documents, of_documents, tmp_path):
    title, passage = of_documents.pairs.test[0]
    own = tmp_path / "own.jsonl"
    other = " ".join(["a pair of mine that judges", *sentences(1)])
    own.write_text("".join(json.dumps([other, text]) + "\n" for text in sentences(2)))
    held = of_documents.held_out()[0]
    rows = [("a", passage.upper()), (title, "b"), ("c", f"{held} too"), ("d", "e")]
    rows += [(other, "f"), (other, "")]
    file = tmp_path / "queries.jsonl"
    file.write_text("\n".join(json.dumps({"query": q, "passage": p}) for q, p in rows))
    found = read_queries(file, replace(on_documents, pairs=own), of_documents)
    assert found.pairs == (("d", "e"),)
    assert found.alone == ()
    assert found.left_out == 5


def test_queries_are_further_pairs(on_documents, of_documents, tmp_path):
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
    answer = of_documents.train_rows[0]
    done = found.answered(lambda queries: np.full(len(queries), answer))
    assert done.unanswered is None
    assert done.rows[-1, 1] == answer
    assert done.origins[-1, 2] == of_documents.related.structure.documents[answer]


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
