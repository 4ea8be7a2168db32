"""Test pairs of a corpus and of the user, their groups, and the split from validation pairs."""

import csv
import random
from dataclasses import replace

import numpy as np
import pytest
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark, validation_text
from isospace.evaluation.pairs import ScoredPairs, TextPairs
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.statistics.gains import gain
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
    wrong = verdict(replace(repeated, groups=tuple(map(str, range(960)))))
    assert wrong.gain.low > 0


SYLLABLES = [a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrs"]


def made(count, seed=0):
    """Sentences of which none nearly repeats another."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(SYLLABLES, k=12)) for _ in range(count)]


def table(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def load(folder, file, exclude=(), **options):
    return load_corpus(CorpusConfig(corpus=(file,), **options), folder / "cache", exclude)


def plain(folder, count):
    file = folder / "text.txt"
    file.write_text("\n".join(made(count)))
    return load(folder, str(file))


def whole(half, sentences):
    """The sentence that begins so."""
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
    rows = [
        (a, b, str(i // 10)) for i, (a, b) in enumerate(zip(made(4000), made(4000, 1), strict=True))
    ]
    document = {row[:2]: row[2] for row in rows}
    file = table(tmp_path / "a.csv", ("q", "a", "page"), rows)
    corpus = load(tmp_path, file, columns=("q", "a"), group="page")
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
    answers = made(6, seed=9)
    own = TextPairs("own", tuple(f"question {c}" for c in "abcdef"), (*answers[:5], answers[0]))
    benchmark = Benchmark.make(corpus, own)
    assert benchmark.split
    assert benchmark.pairs.unit == "groups"
    assert benchmark.pairs.groups[0] == benchmark.pairs.groups[5]
    assert (len(benchmark.pairs.groups), len(set(benchmark.pairs.groups))) == (6, 5)


def test_nothing_can_be_held_out_of_one_group(tmp_path):
    rows = [(text, "page") for text in made(300)]
    corpus = load(tmp_path, table(tmp_path / "a.csv", ("text", "id"), rows), group="id")
    with pytest.raises(UserError, match=r"`group`.*`pairs`"):
        Benchmark.make(corpus)
