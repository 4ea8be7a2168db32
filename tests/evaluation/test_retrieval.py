"""Retrieval: ranks against a loop, kept vectors, halves of sentences, ranked lists."""

from itertools import permutations

import ir_measures
import numpy as np
import pytest
import torch
from ranks import rank_by_a_loop, rank_targets

from isospace.evaluation.judged import MEASURES, measure_ranking
from isospace.evaluation.pairs import cached, remembering
from isospace.evaluation.retrieval import halves
from isospace.operators import nearest
from isospace.operators.nearest import product_blocks, unit_rows


def rank_rows(queries, targets):
    return rank_targets(queries, targets, np.arange(len(queries)))


@pytest.mark.parametrize("chunk", [1, 100, 1 << 24])
def test_ranks_equal_a_loops_with_many_ties(monkeypatch, chunk):
    """The queries may be targets too: each is left out of its own list."""
    monkeypatch.setattr(nearest, "BLOCK", chunk)
    queries, targets = np.random.default_rng(0).integers(-1, 2, (2, 30, 3)).astype(float)
    every = np.concatenate([targets, queries])
    left_out = [np.array([i, 30 + i]) for i in range(30)]
    plain = rank_rows(queries, targets)
    without = rank_targets(queries, every, np.arange(30), left_out)
    for i, query in enumerate(queries):
        others = np.delete(targets, i, axis=0)
        assert plain.ranks[i] == rank_by_a_loop(query, targets[i], others)
        others = np.delete(every, [i, 30 + i], axis=0)
        assert without.ranks[i] == rank_by_a_loop(query, targets[i], others)


def test_measures_by_hand():
    angles = np.radians([0, 40, 60, 90])
    targets = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # At 45 degrees the order is 40, 60, 0 and 90 (tied); so the ranks are 3.5, 1, 2, 3.5.
    scores = rank_rows(np.full((4, 2), 0.7), targets)
    assert scores.ranks.tolist() == [3.5, 1.0, 2.0, 3.5]
    assert scores.mrr == pytest.approx((1 / 3.5 + 1 + 1 / 2 + 1 / 3.5) / 4)
    assert (scores.row()["R@1"], scores.row()["R@10"]) == (0.25, 1.0)
    assert "4 queries ranked among 4 distinct targets" in scores.protocol


def test_a_remembering_encoder_encodes_no_text_twice():
    calls = []

    def encode(texts):
        calls.append(list(texts))
        return np.array([[len(text), len(calls)] for text in texts], np.float32).reshape(-1, 2)

    again = remembering(encode)
    assert again(["a", "bb", "a"]).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert again(["ccc", "bb"]).tolist() == [[3, 2], [2, 1]]
    assert again(["a"]).tolist() == [[1, 1]]
    assert calls == [["a", "bb"], ["ccc"]]
    assert again([]).shape == (0, 2)


CACHED = ["the cat sat", "a dog", "😀 大きさ", "half a pair \ud83d"]


def test_vectors_are_made_once_unless_damaged_or_of_other_weights(encoder, tmp_path, monkeypatch):
    calls, embed = [], encoder.embed

    def watched(texts, **rest):
        calls.append(list(texts))
        return embed(texts, **rest)

    monkeypatch.setattr(encoder, "embed", watched)
    first = cached(encoder, tmp_path)(CACHED)
    assert np.array_equal(cached(encoder, tmp_path)(tuple(CACHED)), first)
    assert calls == [CACHED]
    assert np.array_equal(first, embed(CACHED))
    [path] = tmp_path.rglob("*.npz")
    content = bytearray(path.read_bytes())
    content[bytes(content).find(first.tobytes()) + 7] ^= 8
    path.write_bytes(content)
    for _ in range(2):
        assert np.array_equal(cached(encoder, tmp_path)(CACHED), first)
    assert calls == [CACHED, CACHED]
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    assert np.array_equal(cached(encoder, tmp_path)(CACHED), embed(CACHED))
    assert len(calls) == 3


def test_halves_of_words():
    sentences = [
        "a b c d e f g h i",
        "too short to be cut",
        "a b c d e f g h i",
        "  folded\twhite space   is one space in both halves  ",
    ]
    assert list(halves(sentences)) == [
        ("a b c d", "e f g h i"),
        ("folded white space is", "one space in both halves"),
    ]


def test_scripts_without_spaces_are_cut_by_characters():
    chinese = "我们在没有标签的情况下训练句子的向量表示方法"
    thai = "ก" * 8 + "กี่กี่" + "ข" * 6  # the middle falls between a consonant and its marks
    pairs = list(halves([chinese, thai, "短い文です", "averyveryverylongsinglelatinword"]))
    assert pairs[0] == (chinese[:11], chinese[11:])
    assert "".join(pairs[1]) == thai
    assert pairs[1][1][0] in "กข"
    assert len(pairs) == 2


# Ranked lists: ir-measures' numbers where nothing ties, means over orders where it does


THEIRS = {
    "nDCG@10": ir_measures.nDCG @ 10,
    "MRR@10": ir_measures.RR @ 10,
    **{f"R@{k}": ir_measures.R @ k for k in (1, 10, 100)},
}


def theirs(scores, judgements):
    """The same by ir-measures, (measure, query)."""
    qrels = {
        str(query): {str(place): int(grade) for place, grade in grades.items()}
        for query, grades in enumerate(judgements)
    }
    run = {
        str(query): {str(place): float(score) for place, score in enumerate(row)}
        for query, row in enumerate(scores)
    }
    values = {name: np.zeros(len(judgements)) for name in MEASURES}
    for metric in ir_measures.iter_calc(list(THEIRS.values()), qrels, run):
        name = next(name for name, measure in THEIRS.items() if measure == metric.measure)
        values[name][int(metric.query_id)] = metric.value
    return values


@pytest.mark.parametrize("documents", [3, 400])
def test_without_ties_the_numbers_are_those_of_ir_measures(documents):
    random = np.random.default_rng(documents)
    scores = np.stack([random.permutation(documents) for _ in range(40)]) / documents
    judgements = []
    for _ in scores:
        size = random.integers(1, min(documents, 150))
        judged = random.choice(documents + 9, size, replace=False)  # nine are missing
        grades = random.choice([-1, 0, 0, 1, 2, 3], len(judged))
        judgements.append(dict(zip(judged.tolist(), grades.tolist(), strict=True)))
    judgements[0] = {0: 0}  # judged, but nothing is relevant
    ours, reference = measure_ranking([(0, scores)], judgements), theirs(scores, judgements)
    for name in MEASURES:
        assert np.allclose(ours[name], reference[name], rtol=0, atol=1e-9), name
    assert all(ours[name][0] == 0 for name in MEASURES)


def test_ties_are_the_mean_over_all_orders():
    scores = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1])
    grades = {1: 2.0, 2: 1.0, 5: 3.0}
    found = measure_ranking([(0, scores[None])], [grades])
    every = []
    for middle in permutations(range(1, 5)):
        for end in permutations((5, 6)):
            order = np.empty(7)
            order[[0, *middle, *end]] = np.arange(7, 0, -1)
            every.append(measure_ranking([(0, order[None])], [grades]))
    for name in MEASURES:
        assert found[name][0] == pytest.approx(np.mean([of[name][0] for of in every])), name


def test_a_collapsed_encoder_gets_what_chance_gets():
    """Wherever the right document stands in the file; also where rounding differs."""
    same = unit_rows(np.ones((300, 8)) + np.random.default_rng(0).normal(0, 1e-8, (300, 8)))
    found = measure_ranking(product_blocks(same[:2], same), [{0: 1.0}, {299: 2.0}])
    assert found["R@100"] == pytest.approx([1 / 3, 1 / 3])
    assert found["MRR@10"] == pytest.approx(sum(1 / rank for rank in range(1, 11)) / 300, abs=1e-9)
    assert (found["nDCG@10"] < 0.02).all()
