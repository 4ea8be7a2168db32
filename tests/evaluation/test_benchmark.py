"""Test and validation pairs of a corpus and of the user, their groups; evaluations in training."""

import random
from dataclasses import replace

import numpy as np
import pytest
from row_files import write_rows
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.evaluation.benchmark import (
    HELD_OUT_PAIRS,
    HELD_OUT_SENTENCES,
    NOISY_SENTENCES,
    Benchmark,
    HeldOut,
    validation_text,
)
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


def load(folder, file, exclude=(), **options):
    return load_corpus(CorpusConfig(corpus=(str(file),), **options), folder / "cache", exclude)


def plain(folder, count):
    file = folder / "text.txt"
    file.write_text("\n".join(made(count)))
    return load(folder, file)


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
    texts = zip(made(4000), made(4000, 1), strict=True)
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
    answers = made(6, seed=9)
    own = TextPairs("own", tuple(f"question {c}" for c in "abcdef"), (*answers[:5], answers[0]))
    benchmark = Benchmark.make(corpus, own)
    assert benchmark.split
    assert benchmark.pairs.unit == "groups"
    assert benchmark.pairs.groups[0] == benchmark.pairs.groups[5]
    assert (len(benchmark.pairs.groups), len(set(benchmark.pairs.groups))) == (6, 5)


def test_nothing_can_be_held_out_of_one_group(tmp_path):
    rows = [{"text": text, "id": "page"} for text in made(300)]
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


def test_the_first_evaluation_is_the_reference_of_the_others():
    held_out = HeldOut(LARGE[:30], TextPairs("p", tuple(LARGE[:20]), tuple(LARGE[20:40])))
    overlaps = [held_out.measure(e, e)["neighbour_overlap"] for e in (Recorder(), Recorder())]
    assert overlaps == [1.0, 1.0]  # equal draws: the second is the base model again
    other = Recorder()
    other(LARGE[:3])
    assert held_out.measure(other, other)["neighbour_overlap"] < 1.0
