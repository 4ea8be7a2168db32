"""BM25 and the fusion of both beside an encoder."""

import math
from collections import Counter

import numpy as np
import pytest

from isospace.evaluation.bm25 import BM25, bm25_terms
from isospace.evaluation.hybrid import (
    NO_SHARED,
    WEIGHTS,
    compare_judged,
    compare_pairs,
    gains_over_first,
    rank_pairs,
    select_weight,
)
from isospace.evaluation.judged import MEASURES, JudgedQueries
from isospace.evaluation.pairs import Candidates, PromptedEncoders, TextPairs
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.operators.fusion import WEIGHT
from isospace.operators.nearest import unit_rows


def collapsed(texts):
    return np.ones((len(texts), 4), np.float32)


RANDOM = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(400)]
TOPICS = [tuple(RANDOM.choice(WORDS, 12)) for _ in range(60)]
QUERIES = tuple(" ".join(topic[:5]) for topic in TOPICS)
WORDLESS = tuple("?" * (i + 1) for i in range(len(TOPICS)))
DOCUMENTS = tuple(" ".join(topic[3:]) for topic in TOPICS)


def meaning(texts):
    """Finds by the number of its topic, whatever words are in the text."""
    places = [next(s.index(t) for s in (QUERIES, DOCUMENTS, WORDLESS) if t in s) for t in texts]
    return np.eye(len(TOPICS), dtype=np.float32)[places]


def random(texts):
    rows = [np.random.default_rng(list(text.encode())).normal(size=16) for text in texts]
    return np.stack(rows).astype(np.float32)


def judged():
    return JudgedQueries(QUERIES, DOCUMENTS, tuple({i: 1.0} for i in range(len(TOPICS))))


def lucene(query, texts, k1=1.5, b=0.75):
    """BM25 as Lucene has it, in loops."""
    bags = [Counter(bm25_terms(text)) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = [0.0] * len(bags)
    for word in bm25_terms(query):
        having = sum(word in other for other in bags)
        idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
        for place, bag in enumerate(bags):
            scores[place] += idf * bag[word] / (bag[word] + k1 * (1 - b + b * bag.total() / mean))
    return scores


def test_bm25_is_lucenes():
    texts = ["the cat and the dog", "a cat", "😀", "many other words that nobody asks for"]
    queries = ["The cat, the CAT!", "dog zebra", "zebra", "😀"]
    expected = [lucene(query, texts) for query in queries]
    assert np.allclose(BM25(texts).scores(queries), expected, atol=1e-5)
    assert not BM25(["!", "?"]).scores(["cat"]).any()


def test_the_sides_are_encoded_by_their_own():
    asked = []

    def watched(side):
        def encode(texts):
            asked.append((side, set(texts)))
            return meaning(texts)

        return encode

    sides = PromptedEncoders(watched("queries"), watched("documents"), collapsed)
    compare_judged(sides, judged())
    assert asked == [("documents", set(DOCUMENTS)), ("queries", set(QUERIES))]
    asked.clear()
    compare_pairs(sides, TextPairs("toy", WORDLESS, DOCUMENTS))
    assert asked == [("documents", set(DOCUMENTS)), ("queries", set(WORDLESS))]


def test_pairs_are_ranked_as_without_bm25():
    pairs = TextPairs("toy", (*QUERIES, QUERIES[0]), (*DOCUMENTS, DOCUMENTS[1])).grouped()
    ranks, with_bm25 = compare_pairs(random, pairs)
    expected = evaluate_retrieval(random, pairs)
    assert (ranks.ranks == expected.ranks).all()
    assert with_bm25.values["encoder"].items() > expected.row().items()
    assert with_bm25.measure == "MRR"
    gain = with_bm25.over(with_bm25, "BM25")["MRR"]
    assert gain.mean == pytest.approx(with_bm25.values["BM25"]["MRR"] - expected.mrr)


TITLES = ("The red house", "A grey cat", "On rivers", "Zebra")
PASSAGES = (
    "A red HOUSE, the reddest, stands alone.",
    "Cats sleep; a grey one, a cat, wakes.",
    "Water flows down to the sea.",
    "Zebra!",
)


def by_words(texts):
    """A bag of words: nothing is known but what is shared."""
    known = sorted({word for text in (*TITLES, *PASSAGES) for word in bm25_terms(text)})
    bags = [Counter(bm25_terms(text)) for text in texts]
    return np.array([[bag[word] for word in known] for bag in bags], np.float32)


def test_what_is_found_without_the_words_of_the_query():
    """Only the right passage loses its words: what shares any word with the query comes first."""
    pairs = TextPairs("toy", TITLES, PASSAGES)
    alone, others = rank_pairs(by_words, pairs)
    assert alone.ranks.tolist() == [1, 1, 2.5, 1]
    assert others.no_shared.ranks.tolist() == [3, 3, 2.5, 1]  # of a zebra nothing would be left
    _, with_bm25 = compare_pairs(by_words, pairs)
    expected = 100 * np.mean([1 / 3, 1 / 3, 0.4, 1])
    assert with_bm25.table("", "toy").rows[0][NO_SHARED] == f"{expected:.2f}"
    assert rank_pairs(by_words, pairs.take([2, 3]))[1].no_shared is None


def test_a_query_among_the_candidates_does_not_scale_what_is_fused():
    """It is not looked for; as the best match of its own words it would flatten all the others."""
    nobodys = (None,) * len(QUERIES)
    right = {query: np.array([i]) for i, query in enumerate(QUERIES)}
    among = Candidates(QUERIES, nobodys, right, "documents and queries")
    pairs = TextPairs("toy", QUERIES, DOCUMENTS, among=among)
    texts = DOCUMENTS + QUERIES
    cosines = unit_rows(random(QUERIES)) @ unit_rows(random(texts)).T
    found = BM25(texts).scores(QUERIES)
    for i, rank in enumerate(rank_pairs(random, pairs)[1].hybrid.ranks):
        own_cosines, shared = (np.delete(row[i], len(QUERIES) + i) for row in (cosines, found))
        hybrid = own_cosines + WEIGHT * own_cosines.std() * shared / shared.max()
        assert rank == 1 + (hybrid > hybrid[i] + 1e-6).sum()
    assert select_weight(random, pairs) == max(WEIGHTS)


def test_pairs_choose_how_much_bm25_counts():
    # An encoder that knows nothing should hardly count, one that knows all should not be spoiled.
    pairs = TextPairs("toy", QUERIES, DOCUMENTS)
    assert select_weight(random, pairs) == max(WEIGHTS)
    assert select_weight(meaning, pairs) == WEIGHTS[0] == WEIGHT  # all are as good


def test_every_measure_of_another_model_has_its_interval_over_the_first():
    found = {"knows": meaning, "guesses": random}
    with_bm25 = {name: compare_judged(encode, judged()) for name, encode in found.items()}
    table = gains_over_first("judged", with_bm25)
    assert table.title == "judged, over knows"
    names = ["BM25", "knows + BM25", "guesses", "guesses + BM25"]
    assert [row["model"] for row in table.rows] == names
    gains = with_bm25["guesses"].over(with_bm25["knows"], "encoder")
    assert tuple(gains) == MEASURES == tuple(table.rows[2])[1:]
    for name, gain in gains.items():
        values = [with_bm25[model].values["encoder"][name] for model in ("guesses", "knows")]
        assert gain.mean == pytest.approx(values[0] - values[1])
        assert table.rows[2][name] == gain.points


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unter\u00adneh\u00admen", ["unternehmen"]),
        ("zero\u200bwidth word\u2060joiner Auf\u200clage", ["zerowidth", "wordjoiner", "auflage"]),
        ("e\ufb03cient Ｃａｆｅ\u0301 ｶﾞｽ", ["efficient", "café", "ガス"]),
        ("हिन्\u200dदी हिन्दी", ["हिन्दी", "हिन्दी"]),
        ("می\u200cخواهم می خواهم", ["می", "خواهم"] * 2),
    ],
)
def test_words_are_those_that_a_reader_sees(text, expected):
    assert bm25_terms(text) == expected
