"""BM25 and the fusion of both beside an encoder."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from isospace.evaluation.beside_bm25 import judged_beside_bm25, pairs_beside_bm25
from isospace.evaluation.bm25 import BM25, words
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.ranking import JudgedQueries
from isospace.evaluation.retrieval import rank_pairs
from isospace.operators.fusion import fuse

RANDOM = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(400)]
TOPICS = [tuple(RANDOM.choice(WORDS, 12)) for _ in range(60)]
QUERIES = tuple(" ".join(topic[:5]) for topic in TOPICS)
DOCUMENTS = tuple(" ".join(topic[3:]) for topic in TOPICS)


def collapsed(texts):
    return np.ones((len(texts), 4), np.float32)


def meaning(texts):
    """Finds by the number of its topic, whatever words are in the text."""
    sides = [QUERIES.index(t) if t in QUERIES else DOCUMENTS.index(t) for t in texts]
    return np.eye(len(TOPICS), dtype=np.float32)[sides]


def random(texts):
    rows = [np.random.default_rng(list(text.encode())).normal(size=16) for text in texts]
    return np.stack(rows).astype(np.float32)


def judged():
    return JudgedQueries("toy", QUERIES, DOCUMENTS, tuple({i: 1.0} for i in range(len(TOPICS))))


def lucene(query, texts, k1=1.5, b=0.75):
    """BM25 as Lucene has it, in loops."""
    bags = [Counter(words(text)) for text in texts]
    mean = sum(sum(bag.values()) for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in words(query):
            having = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            length = k1 * (1 - b + b * sum(bag.values()) / mean)
            score += idf * bag[word] / (bag[word] + length)
        scores.append(score)
    return scores


def test_bm25_is_lucenes():
    texts = ["the cat and the dog", "a cat", "😀", "many other words that nobody asks for"]
    queries = ["The cat, the CAT!", "dog zebra", "zebra", "😀"]
    expected = [lucene(query, texts) for query in queries]
    assert np.allclose(BM25(texts).scores(queries), expected, atol=1e-5)
    assert not BM25(["!", "?"]).scores(["cat"]).any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Größe, CAFÉ ｗｉｄｅ", ["grösse", "café", "wide"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks
        ("機械学習 is ML", ["機械", "械学", "学習", "is", "ml"]),
        ("猫", ["猫"]),
        ("... 😀️ !", []),
    ],
)
def test_words_of_any_script(text, expected):
    assert words(text) == expected


def test_the_weight_is_in_standard_deviations():
    cosines = RANDOM.normal(size=(3, 50)).astype(np.float32)
    scores = RANDOM.random((3, 50)).astype(np.float32)
    scores[2] = 0  # shares no word with anything
    fused = fuse(cosines, scores, 2.0)
    for row in range(2):
        lift = 2 * cosines[row].std() * scores[row] / scores[row].max()
        assert np.allclose(fused[row], cosines[row] + lift, atol=1e-6)
    assert (fused[2] == cosines[2]).all()
    # An encoder whose cosines spread a tenth as far gets the same order.
    narrow = fuse(0.9 + cosines / 10, scores, 2.0)
    assert (narrow.argsort(1) == fused.argsort(1)).all()


def test_plain_bm25_that_is_better_is_said():
    beside = judged_beside_bm25(random, random, judged())
    assert beside.in_words("toy").startswith("Plain BM25 finds more than toy here (nDCG@10 +")
    assert beside.values["BM25"]["nDCG@10"] > 0.9
    assert beside.gains["fused"].low > 0


def test_an_encoder_that_is_better_is_said():
    wordless = tuple(f"{i} " + "?" * i for i in range(len(TOPICS)))  # shares nothing but numbers

    def by_number(texts):
        places = [wordless.index(t) if t in wordless else DOCUMENTS.index(t) for t in texts]
        return np.eye(len(TOPICS), dtype=np.float32)[places]

    asked = JudgedQueries("toy", wordless, DOCUMENTS, judged().judgements)
    beside = judged_beside_bm25(by_number, by_number, asked)
    assert beside.values["encoder"]["R@1"] == beside.values["fused"]["R@1"] == 1
    assert beside.in_words("toy").startswith("toy finds more than plain BM25 (nDCG@10 -")


def test_what_cannot_be_told_is_said():
    few = JudgedQueries("toy", QUERIES[:3], DOCUMENTS[:3], judged().judgements[:3])
    said = judged_beside_bm25(meaning, meaning, few).in_words("toy")
    assert said.startswith("3 queries cannot tell whether toy or plain BM25 finds more")


def test_the_sides_are_encoded_by_their_own():
    asked = []

    def queries(texts):
        asked.append(("queries", set(texts)))
        return meaning(texts)

    def documents(texts):
        asked.append(("documents", set(texts)))
        return meaning(texts)

    judged_beside_bm25(queries, documents, judged())
    pairs_beside_bm25(queries, documents, TextPairs("toy", QUERIES, DOCUMENTS))
    assert asked == [("queries", set(QUERIES)), ("documents", set(DOCUMENTS))] * 2


def test_pairs_are_ranked_as_without_bm25():
    pairs = TextPairs("toy", (*QUERIES, QUERIES[0]), (*DOCUMENTS, DOCUMENTS[1])).grouped()
    ranks, beside = pairs_beside_bm25(random, random, pairs)
    expected = rank_pairs(pairs, random(pairs.first), random(pairs.second))
    assert (ranks.ranks == expected.ranks).all()
    assert beside.values["encoder"] == expected.row()
    assert beside.measure == "MRR"
    assert beside.gains["BM25"].mean == pytest.approx(beside.values["BM25"]["MRR"] - expected.mrr)


def test_a_collapsed_encoder_gains_nothing_and_loses_to_bm25():
    beside = judged_beside_bm25(collapsed, collapsed, judged())
    assert beside.values["encoder"]["R@10"] == pytest.approx(10 / 60)
    assert beside.gains["BM25"].low > 0


def test_without_bm25s_weight_the_fused_row_is_the_encoders():
    beside = judged_beside_bm25(random, random, judged(), weight=0.0)
    assert beside.values["fused"] == beside.values["encoder"]
    [encoder, bm25, fused] = beside.rows("toy")
    assert [row["model"] for row in (encoder, bm25, fused)] == ["toy", "BM25", "toy + BM25"]
    assert fused["nDCG@10 over toy"].startswith("+0.00")
