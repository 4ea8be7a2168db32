"""Retrieval: ranks against a dull loop, ties, and halves of sentences."""

import numpy as np
import pytest
from ranks import rank_targets

from isospace.evaluation.pairs import remembering
from isospace.evaluation.retrieval import halves
from isospace.operators import nearest


def rank_rows(queries, targets):
    """The target of each query stands in its own row."""
    return rank_targets(queries, targets, np.arange(len(queries)))


def ranks_by_a_loop(queries, targets):
    """Mean rank among ties, one pair at a time, in exact integer-friendly arithmetic."""

    def cos(x, y):
        return float(x @ y) / max(float(np.sqrt((x @ x) * (y @ y))), 1e-300)

    ranks = []
    for i, query in enumerate(queries):
        own = cos(query, targets[i])
        better = sum(cos(query, target) > own + 1e-9 for target in targets)
        tied = sum(abs(cos(query, target) - own) <= 1e-9 for target in targets)
        positions = range(better + 1, better + tied + 1)
        ranks.append(sum(positions) / tied)
    return ranks


@pytest.mark.parametrize("chunk", [1, 100, 1 << 24])
def test_ranks_equal_a_loops_with_many_ties(monkeypatch, chunk):
    monkeypatch.setattr(nearest, "BLOCK", chunk)
    random = np.random.default_rng(0)
    queries, targets = random.integers(-1, 2, (2, 30, 3)).astype(float)
    assert rank_rows(queries, targets).ranks.tolist() == ranks_by_a_loop(queries, targets)


def test_measures_by_hand():
    angles = np.radians([0, 40, 60, 90])
    targets = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # At 45 degrees the order is 40, 60, 0 and 90 (tied); so the ranks are 3.5, 1, 2, 3.5.
    scores = rank_rows(np.full((4, 2), 0.7), targets)
    assert scores.ranks.tolist() == [3.5, 1.0, 2.0, 3.5]
    assert scores.mrr == pytest.approx((1 / 3.5 + 1 + 1 / 2 + 1 / 3.5) / 4)
    assert (scores.row()["R@1"], scores.row()["R@10"]) == (0.25, 1.0)
    assert "4 queries ranked among 4 distinct targets" in scores.protocol


def test_queries_among_the_targets_are_left_out():
    targets = np.random.default_rng(3).integers(-1, 2, (20, 3)).astype(float)
    itself, own = np.arange(8), np.arange(8, 16)
    left_out = [np.array([i, right]) for i, right in zip(itself, own, strict=True)]
    found = rank_targets(targets[itself], targets, own, left_out)
    for i, rank in enumerate(found.ranks):
        others = np.delete(targets, i, axis=0)  # the right one, i + 8, is now in place i + 7
        mine = np.tile(targets[i], (19, 1))
        assert rank == ranks_by_a_loop(mine, np.roll(others, -(i + 7), axis=0))[0]


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
