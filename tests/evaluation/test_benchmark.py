"""Test and validation pairs, their groups and candidates, and the words about their scores."""

import functools
import random
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from ranks import rank_by_a_loop
from report_runs import results_of
from toy import WORDS, sentences, write_rows

from isospace.config import CorpusConfig
from isospace.corpus import relations
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.evaluation.benchmark import (
    GAIN,
    HELD_OUT_PAIRS,
    HELD_OUT_SENTENCES,
    NOISY_SENTENCES,
    Benchmark,
    HeldOut,
    hard_pairs,
    recommendation,
    table_rows,
    validation_text,
)
from isospace.evaluation.pairs import Candidates, ScoredPairs, TextPairs
from isospace.evaluation.retrieval import Targets, evaluate_retrieval, mrr_scores
from isospace.statistics.gains import gain, mean_scores
from isospace.statistics.selection import SelectedAmong, gain_of_selected
from isospace.statistics.verdict import VerdictKind, verdict_of


def encode_with(texts, noise, seed):
    """An encoder for which pair i shares a direction, under noise; the same at every call."""
    own = np.random.default_rng(0).standard_normal((len(texts) // 2, 8))
    errors = np.random.default_rng(seed).standard_normal((len(texts), 8))
    vectors = np.concatenate([own, own]) + noise * errors
    table = dict(zip(texts, vectors.astype(np.float32), strict=True))
    return lambda wanted: np.stack([table[text] for text in wanted])


def test_pairs_that_are_repeated_say_no_more_than_once():
    texts = sentences(240)
    once = TextPairs("made", tuple(texts[:120]), tuple(texts[120:]))
    repeated = once.take([*range(120)] * 8).grouped()
    before, after = (encode_with(texts, 0.6, seed) for seed in (1, 5))

    def verdict(pairs):
        found = [mrr_scores(pairs, evaluate_retrieval(encode, pairs)) for encode in (after, before)]
        return verdict_of(gain(*found), "MRR")

    single, eightfold = verdict(once.grouped()), verdict(repeated)
    assert single.kind is eightfold.kind is VerdictKind.CANNOT_TELL
    assert (eightfold.gain.items, eightfold.gain.groups) == (960, 120)
    assert eightfold.gain.mean == pytest.approx(single.gain.mean)
    assert eightfold.gain.low == pytest.approx(single.gain.low)
    assert eightfold.gain.high == pytest.approx(single.gain.high)
    # As pairs that have nothing to do with each other they would say much.
    assert verdict(replace(repeated, groups=tuple(map(str, range(960))))).gain.low > 0


def load(folder, file, **options):
    return load_corpus(CorpusConfig(corpus=(str(file),), **options), folder / "cache")


def plain(folder, count):
    file = folder / "text.txt"
    file.write_text("\n".join(sentences(count)))
    return load(folder, file)


def whole(half, sentences):
    return next(sentence for sentence in sentences if sentence.startswith(half))


def test_a_third_of_the_held_out_sentences_chooses(tmp_path):
    corpus = plain(tmp_path, 4000)
    held, benchmark, choosing = corpus.held_out(), Benchmark.make(corpus), validation_text(corpus)
    judged = {whole(first, held) for first in benchmark.pairs.first}
    chosen = {whole(first, held) for first in choosing.pairs.first}
    assert (len(chosen), len(judged)) == (133, 267)
    assert chosen | judged == set(held)
    assert set(benchmark.sample) == judged
    assert set(choosing.sentences) <= chosen
    assert benchmark.split
    assert len(set(benchmark.pairs.groups)) == 267


def test_fewer_than_400_held_out_sentences_choose_and_judge(tmp_path):
    corpus = plain(tmp_path, 3990)
    benchmark = Benchmark.make(corpus)
    assert not benchmark.split
    assert list(benchmark.pairs) == list(validation_text(corpus).pairs)
    assert len(benchmark.pairs) == 399
    scored = ScoredPairs("dev", ("a", "b"), ("c", "d"), np.array([1.0, 2.0]), "own file")
    assert Benchmark.make(corpus, labels=scored).split


def test_pairs_of_a_document_choose_or_judge_together(tmp_path):
    texts = zip(sentences(4000), sentences(4000, 1), strict=True)
    document = {pair: str(i // 10) for i, pair in enumerate(texts)}
    rows = [{"q": q, "a": a, "page": page} for (q, a), page in document.items()]
    corpus = load(tmp_path, write_rows(tmp_path / "a.csv", rows), columns=("q", "a"), group="page")
    benchmark, choosing = Benchmark.make(corpus), validation_text(corpus)
    judged = {document[pair] for pair in benchmark.pairs}
    assert benchmark.split
    assert (len(benchmark.pairs), len(choosing.pairs)) == (270, 130)
    assert not judged & {document[pair] for pair in choosing.pairs}
    assert not set(benchmark.sample) & set(choosing.sentences)
    assert len(set(benchmark.pairs.groups)) == len(judged) == 27
    assert len(set(choosing.pairs.groups)) == 13
    assert benchmark.pairs.unit == choosing.pairs.unit == "groups by page"


def test_the_users_own_pairs_have_groups(tmp_path):
    corpus = plain(tmp_path, 100)
    answers = sentences(6, seed=9)
    own = TextPairs("own", tuple(f"question {c}" for c in "abcdef"), (*answers[:5], answers[0]))
    benchmark = Benchmark.make(corpus, own)
    assert benchmark.split
    assert benchmark.pairs.unit == "groups"
    assert benchmark.pairs.groups[0] == benchmark.pairs.groups[5]
    assert (len(benchmark.pairs.groups), len(set(benchmark.pairs.groups))) == (6, 5)


def test_nothing_can_be_held_out_of_one_group(tmp_path):
    rows = [{"text": text, "id": "page"} for text in sentences(300)]
    corpus = load(tmp_path, write_rows(tmp_path / "a.csv", rows), group="id")
    with pytest.raises(UserError, match=r"`group`.*`pairs`"):
        Benchmark.make(corpus)


# Evaluations in training


LARGE = [f"held-out sentence number {i}" for i in range(4000)]


class Recorder:
    """An encoder that draws a vector for each text, and counts the texts of each call."""

    def __init__(self):
        self.counts = []
        self.random = np.random.default_rng(0)

    def __call__(self, texts):
        self.counts.append(len(texts))
        return self.random.standard_normal((len(texts), 8)).astype(np.float32)


def test_an_evaluation_measures_a_fixed_part_of_much_text():
    held_out = HeldOut(LARGE[:2000], TextPairs("p", tuple(LARGE[:2000]), tuple(LARGE[2000:])))
    assert list(held_out.pairs)[:2] == [(LARGE[0], LARGE[2000]), (LARGE[4], LARGE[2004])]
    clean, noisy = Recorder(), Recorder()
    held_out.measure(clean, noisy)
    # The pairs in one call, as `select_weight` makes it.
    assert clean.counts == [HELD_OUT_SENTENCES, 2 * HELD_OUT_PAIRS]
    assert noisy.counts == [NOISY_SENTENCES, NOISY_SENTENCES]


def test_the_base_model_is_the_reference_of_the_others():
    held_out = HeldOut(LARGE[:30], TextPairs("p", tuple(LARGE[:20]), tuple(LARGE[20:40])))
    base, same, other = Recorder(), Recorder(), Recorder()
    other(LARGE[:3])
    vectors = held_out.measure(base, base).vectors
    assert held_out.measure(same, same, vectors).values["neighbour_overlap"] == 1.0  # equal draws
    assert held_out.measure(other, other, vectors).values["neighbour_overlap"] < 1.0


# Candidates: all of the held-out documents, or of the corpus


def documents(count, paragraphs=3):
    draw, rows = random.Random(count), []

    def words(number):
        return " ".join(draw.choices(WORDS, k=number))

    for _ in range(count):
        text = [" ".join(f"{words(8)}." for _ in range(5)) for _ in range(paragraphs)]
        rows.append({"title": words(4), "text": "\n\n".join(text)})
    return rows


def load_documents(folder, rows, **options):
    file = write_rows(folder / "docs.jsonl", rows)
    return load(folder, file, title_column="title", passage_words=50, **options)


@functools.cache
def direction(text):
    return np.random.default_rng(list(text.encode())).normal(size=6) + 0.5


def encode(texts):
    """A direction of its own for each text, with something in common."""
    return np.stack([direction(text) for text in texts]).astype(np.float32)


def passages_by_title(rows):
    return {row["title"]: row["text"].split("\n\n") for row in rows}


def rank_of(query, right, others):
    query, right, *others = encode([query, right, *others]).astype(np.float64)
    return rank_by_a_loop(query, right, others)


def test_a_passage_is_ranked_among_held_out_ones_or_all_of_the_corpus(tmp_path, monkeypatch):
    """All but those that are right too."""
    monkeypatch.setattr(relations, "TEST_PAIRS", 25)
    rows, options = documents(500), {"held_out": 120, "test_relation": "title-passage"}
    corpus = load_documents(tmp_path, rows, **options)
    assert corpus.digest == load_documents(tmp_path, rows, **options, distractors=True).digest
    of_title, held = passages_by_title(rows), set(corpus.held_out())
    every = {passage for passages in of_title.values() for passage in passages}
    without, benchmark = Benchmark.make(corpus), Benchmark.make(corpus, distractors=True)
    assert len(without.pairs) == 25
    among_held, among_all = (evaluate_retrieval(encode, b.pairs) for b in (without, benchmark))
    assert among_held.candidates == len(held) == 120
    assert among_all.candidates == len(every) == 1500
    assert among_held.protocol.endswith("; candidates: all passages of the held-out documents")
    for found, texts in ((among_held, held), (among_all, every)):
        for (title, passage), rank in list(zip(benchmark.pairs, found.ranks, strict=True))[:4]:
            assert rank == rank_of(title, passage, texts - set(of_title[title]))
    assert among_all.mrr < among_held.mrr
    # What is not held out is no sample: the interval takes it as it is.
    assert benchmark.pairs.among.groups.count(None) == 1380
    # Scores among other candidates are not compared item by item, but the pairs are the same.
    assert benchmark.digest() != without.digest()
    assert benchmark.pairs_digest() == without.pairs_digest()


def test_a_neighbour_is_not_looked_for_behind_the_query_itself(tmp_path):
    rows = documents(400, paragraphs=4)
    corpus = load_documents(tmp_path, rows, held_out=120, test_relation="neighbours")
    benchmark, held = Benchmark.make(corpus), set(corpus.held_out())
    found = evaluate_retrieval(encode, benchmark.pairs)
    texts = {p: row["text"].split("\n\n") for row in rows for p in row["text"].split("\n\n")}
    for (query, passage), rank in list(zip(benchmark.pairs, found.ranks, strict=True))[:8]:
        place = texts[query].index(query)
        with_bm25 = {*texts[query][max(0, place - 1) : place + 2]}
        assert rank == rank_of(query, passage, held - with_bm25)


def test_displacement_is_of_the_groups_that_bring_the_candidates():
    """By a loop: what each candidate takes from the queries of either half."""
    texts = sentences(14)
    queries, targets, others = texts[:4], texts[4:8], texts[8:]
    groups = ("a", "b", "c", "b")
    of_others, right = ("a", "b", None, "nobody", "b", "c"), {queries[0]: np.array([4])}
    among = Candidates(tuple(others), of_others, right, "some")
    pairs = TextPairs("made", tuple(queries), tuple(targets), groups=groups, among=among)
    found = evaluate_retrieval(encode, pairs)
    expected = np.zeros((2, 4))
    bearers = dict(zip((*targets, *others), (0, 1, 2, 3, 0, 1, None, None, 1, 2), strict=True))
    for at, (query, right) in enumerate(pairs):
        candidates = {*targets, *others} - {right} - ({others[4]} if at == 0 else set())
        rank = rank_of(query, right, candidates)
        assert found.ranks[at] == rank
        for text in candidates:
            taken = 1 / rank_of(query, right, candidates - {text}) - 1 / rank
            if bearers[text] is not None:
                expected[{"a": 0, "b": 1, "c": 0}[groups[at]], bearers[text]] += taken
    assert np.allclose(found.displacement, expected)
    assert (found.displacement.sum(), Targets.of_pairs(pairs).texts) > (0, ())


def test_distractors_without_documents_are_refused(tmp_path):
    corpus = plain(tmp_path, 600)
    with pytest.raises(UserError, match="`distractors`: halves of sentences"):
        Benchmark.make(corpus, distractors=True)


def test_validation_pairs_are_looked_for_among_training_passages_too(tmp_path, monkeypatch):
    monkeypatch.setattr("isospace.evaluation.benchmark.DISTRACTORS", 300)
    rows = documents(1500)
    corpus = load_documents(tmp_path, rows, held_out=440, test_relation="title-passage")
    held_out = validation_text(corpus)
    hard, of_title = hard_pairs(corpus, held_out), passages_by_title(rows)
    assert (hard.first, hard.second) == (held_out.pairs.first, held_out.pairs.second)
    added = set(hard.among.texts) - set(held_out.pairs.among.texts)
    assert len(added) == 300
    assert added <= {corpus[int(row)] for row in corpus.train_rows}
    found, every = evaluate_retrieval(encode, hard), set(hard.among.texts)
    for (title, passage), rank in list(zip(hard, found.ranks, strict=True))[:2]:
        assert rank == rank_of(title, passage, every - set(of_title[title]))


# BM25 beside what is shipped, in words and in tables


RNG = np.random.default_rng(0)
NOISE = RNG.uniform(-0.1, 0.1, (3, 200))


def scores(mean, row=0):
    """Of 200 pairs around a mean, all a bit other with each row."""
    values = mean + NOISE[row]
    return mean_scores(values[None], np.arange(200), np.zeros((2, 1, 200)))


BASE, RESULT, BM25 = scores(0.5), scores(0.6, 1), scores(0.55, 2)


def test_hybrid_search_that_the_same_pairs_selected_is_corrected():
    """Of 15 without effect "adapted + BM25" was said to find more in a quarter of the cases."""
    noise = RNG.normal(0, 0.1, (15, 200))
    noise -= noise.mean(1, keepdims=True) - np.linspace(0, 0.017, 15)[:, None]
    candidates = [BASE, *(mean_scores(BASE.values + row, np.arange(200)) for row in noise)]
    benchmark = Mock(pair_scores=lambda scores: scores)
    before, after = (
        Mock(retrieval=one, with_bm25=Mock(bm25=BM25, hybrid=one)) for one in (BASE, candidates[15])
    )
    plain = gain(candidates[15], BASE)
    among = SelectedAmong(candidates, 15)
    for given, expected in ((None, plain), (among, gain_of_selected(among))):
        found = Benchmark.bm25_gains(benchmark, before, after, given)
        assert found["BM25"] == gain(BM25, BASE)
        assert found["adapted + BM25"] == expected
    assert expected.low < 0 < plain.low
    assert list(Benchmark.bm25_gains(benchmark, before, before)) == ["BM25", "base model + BM25"]


def test_a_row_has_its_gain_over_the_base_model():
    results = results_of(0.4386, 0.0597)
    states = {"base model": results.base, "adapted": results.adapted}
    rows = table_rows("", states, {"BM25": replace(gain(RESULT, BASE), mean=-0.0386)})
    shown = {row[""]: (row["MRR"], row[GAIN][:6]) for row in rows}
    assert shown["base model"] == ("43.86", "")
    assert shown["BM25"] == ("40.00", "-3.86 ")


@pytest.mark.parametrize(
    ("adapted", "best", "figure"),
    [
        ({"adapted": 0.55, "adapted + BM25": 0.561}, "hybrid search with the adapted", "56.1"),
        ({"adapted": 0.6, "adapted + BM25": 0.5}, "vectors of the adapted", "60.0"),
        ({}, "hybrid search with the base model", "51.6"),
        ({"BM25": 0.6}, "BM25 alone", "60.0"),
    ],
)
def test_the_best_way_to_search_is_recommended(adapted, best, figure):
    said = recommendation({"base model": 0.45, "BM25": 0.4, "base model + BM25": 0.516} | adapted)
    assert said.startswith(f"Use {best}")
    assert said.split(". ")[0].endswith(figure)
    assert ("45.0" in said) == ("adapted" not in adapted)
