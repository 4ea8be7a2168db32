"""The verdict on a benchmark's pairs: what counts as one, what is said, and in how many words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from toy import sentences

from isospace.evaluation.benchmark import Benchmark, BenchmarkResult
from isospace.evaluation.hybrid import BaselineRanks
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from isospace.statistics.verdict import VerdictKind

PROTOCOLS = (
    "MRR, held-out docstring pairs (summary to next paragraph)",
    "MRR, held-out pairs (anchor to positive)",
    "MRR, halves of held-out sentences (first to second)",
    "MRR, pairs of customer-questions.csv",
)


def made_pairs(count: int, **more: object) -> TextPairs:
    texts = sentences(2 * count)
    return TextPairs("made", tuple(texts[:count]), tuple(texts[count:]), **more)


def benchmark_of(pairs: TextPairs, protocol: str = PROTOCOLS[1]) -> Benchmark:
    return Benchmark(pairs, protocol, {}, None, ())


def measured(ranks: list[float] | np.ndarray) -> BenchmarkResult:
    return of_ranks(RetrievalScores(np.array(ranks), len(ranks), "", np.zeros((2, len(ranks)))))


def of_ranks(scores: RetrievalScores) -> BenchmarkResult:
    return BenchmarkResult(scores, None, np.empty((0, 2)), BaselineRanks(scores, scores, None, 2.0))


def test_a_start_that_was_kept_has_no_interval():
    start = measured([1, 2, 3])
    found = benchmark_of(made_pairs(3)).verdict(start, start, "no checkpoint beats the base model")
    assert (found.kind, found.gain) == (VerdictKind.KEEP_BASE, None)
    assert found.text == (
        "Keep the base model: no checkpoint beats the base model; nothing to judge by MRR, "
        "held-out pairs (anchor to positive)."
    )


def test_a_text_of_several_sets_is_encoded_once():
    pairs = made_pairs(4)
    encoded: list[str] = []

    def encode(texts):
        encoded.extend(texts)
        return np.array([[1.0, len(text)] for text in texts], np.float32)

    benchmark = replace(benchmark_of(pairs), sample=(*pairs.second, "one more"))
    assert benchmark.measure(encode).vectors.shape == (5, 2)
    assert len(encoded) == len(set(encoded))
    assert {*pairs.first, "one more"} < set(encoded)


def encode_with(texts: list[str], noise: float, seed: int):
    """An encoder for which pair i shares a direction, under noise; the same at every call."""
    own = np.random.default_rng(0).standard_normal((len(texts) // 2, 8))
    errors = np.random.default_rng(seed).standard_normal((len(texts), 8))
    vectors = np.concatenate([own, own]) + noise * errors
    table = dict(zip(texts, vectors.astype(np.float32), strict=True))
    return lambda wanted: np.stack([table[text] for text in wanted])


@pytest.mark.parametrize("named", [False, True])
def test_pairs_that_are_repeated_say_no_more_than_once(named):
    """By their texts, or by the document that the user names."""
    groups = tuple(f"document {i}" for i in range(120)) if named else None
    once = made_pairs(120, groups=groups)
    repeated = once.take([*range(120)] * 8).grouped()
    texts = [*once.first, *once.second]
    before, after = (encode_with(texts, 0.6, seed) for seed in (1, 5))

    def verdict(pairs):
        states = (of_ranks(evaluate_retrieval(encode, pairs)) for encode in (before, after))
        return benchmark_of(pairs).verdict(*states, None)

    single, eightfold = verdict(once.grouped()), verdict(repeated)
    assert single.kind is eightfold.kind is VerdictKind.CANNOT_TELL
    assert (eightfold.gain.items, eightfold.gain.groups) == (960, 120)
    assert eightfold.gain.mean == pytest.approx(single.gain.mean)
    assert eightfold.gain.low == pytest.approx(single.gain.low)
    assert eightfold.gain.high == pytest.approx(single.gain.high)
    # As pairs that have nothing to do with each other they would say much.
    wrong = verdict(replace(repeated, groups=tuple(map(str, range(960)))))
    assert wrong.gain.low > 0


def test_a_digest_names_the_pairs_alone():
    benchmark = benchmark_of(made_pairs(30))
    assert benchmark_of(made_pairs(31)).pairs_digest() != benchmark.pairs_digest()
    assert replace(benchmark, split=False).pairs_digest() == benchmark.pairs_digest()


def test_a_line_before_training_says_what_the_pairs_can_show():
    random = np.random.default_rng(0)

    def line(count, per_group):
        groups = tuple(str(i // per_group) for i in range(count))
        pairs = made_pairs(count, groups=groups, unit="modules")
        ranks = np.repeat(random.integers(1, 4, -(-count // per_group)), per_group)[:count]
        return benchmark_of(pairs).detectable_gain(measured(ranks.astype(float)))

    shown = [line(2000, 1), line(2000, 10), line(60, 10)]
    assert re.fullmatch(r"these 2,000 pairs can show gains from about [\d.]+ points", shown[0])
    assert shown[1].startswith("these 2,000 pairs in 200 modules can show gains from about")
    assert (
        shown[2] == "these 60 pairs in 6 modules are too few to show a gain; 20 modules or more can"
    )
    alone, grouped = (float(text.split()[-2]) for text in shown[:2])
    assert grouped > 2 * alone
