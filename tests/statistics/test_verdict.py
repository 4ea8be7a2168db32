"""The four verdicts, what a set of items can show, and which encoders are ahead of which."""

import numpy as np
import pytest
from ranks import item_scores

from isospace.statistics.gains import Gain
from isospace.statistics.verdict import (
    VerdictKind,
    detectable_gain,
    differences,
    error_share,
    kind_of,
    verdict_of,
)

ADAPTED, TOO_SMALL, CANNOT_TELL, KEEP_BASE = VerdictKind


def of(mean, low, high, **changes):
    known = {"p": 0.01, "items": 300, "groups": 300, "changed": 200, "changed_groups": 200}
    return Gain(mean, low, high, **(known | changes))


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (of(0.03, 0.02, 0.04), ADAPTED, "200 changed."),
        (of(0.03, 0.001, 0.06), ADAPTED, "beyond chance, maybe less than 1.00"),
        (of(0.004, -0.001, 0.009), TOO_SMALL, "changed; less than 1.00."),
        # The upper end is above one point.
        (of(0.0281, -0.003, 0.06), CANNOT_TELL, "about 780 pairs would tell"),
        # Half of 6 points is 1.96 errors; 2.80 of them show in 80 %: 300 * (2.80 * 1.53 / 2)^2.
        (of(0.02, -0.01, 0.05), CANNOT_TELL, "about 1,400 pairs would tell"),
        # Below a point the question is whether it is less than one: 300 * (0.55 * 1.43 / 0.5)^2.
        (of(0.005, -0.0005, 0.0105), CANNOT_TELL, "about 750 pairs would tell"),
        (of(0.02, -0.01, 0.05, seeds=3), CANNOT_TELL, "more seeds or more pairs would"),
        # Selecting had added so much that fewer pairs than there are would tell.
        (of(-0.0404, -0.0404, 0.0287, candidates=7), CANNOT_TELL, "; 300 pairs, 200 changed."),
        (of(0.008, 0.002, 0.014), CANNOT_TELL, "beyond chance, maybe less than 1.00"),
        (of(-0.03, -0.05, -0.01), KEEP_BASE, "the result is worse"),
        (of(0.5, 0.2, 0.8, changed_groups=19), CANNOT_TELL, "19 groups changed of 20 needed"),
    ],
)
def test_the_four_verdicts(found, kind, words):
    verdict = verdict_of(found, "MRR")
    assert verdict.kind is kind_of(found) is kind
    assert words in verdict.text
    assert verdict.text.startswith(kind.value.capitalize())


def test_one_line_says_what_the_items_can_show():
    random = np.random.default_rng(1)
    values = random.random(120)
    alone = detectable_gain(item_scores(values))
    by_documents = item_scores(np.repeat(values[:40], 3), np.repeat(np.arange(40), 3))
    documents = detectable_gain(by_documents, "documents")
    assert documents.startswith("these 120 pairs in 40 documents can show gains from about ")
    smaller, larger = (float(text.split()[-2]) for text in (alone, documents))
    assert larger > 1.5 * smaller > 1.5
    share = error_share(item_scores(values + 0.3 * random.random(120)), item_scores(values))
    assert share == pytest.approx(0.3, abs=0.05)
    measured = detectable_gain(item_scores(values), share=share)
    assert float(measured.split()[-2]) == pytest.approx(smaller * share / 0.5, abs=0.1)
    many = item_scores(random.random(50_000))  # no less than a point
    assert detectable_gain(many) == "these 50,000 pairs can show gains from about 1.0 points"
    few = item_scores(values, np.arange(120) % 19)
    assert "too few to show a gain; 20 threads" in detectable_gain(few, "threads")


def rows_of(means):
    """Scores of three seeds and 300 items about each mean."""
    random = np.random.default_rng(0)
    start = random.random(300)

    def noise():
        return random.normal(0, 0.002, (3, 1)) + random.normal(0, 0.1, 300)

    return {name: item_scores(start + mean + noise()) for name, mean in means.items()}


def test_every_pair_is_tested_and_the_largest_difference_comes_first():
    found = differences(rows_of({"a": 0.0, "b": 0.1, "c": 0.05}))
    assert (found[0].ahead, found[0].behind) == ("b", "a")
    assert {(one.ahead, one.behind) for one in found} == {("b", "a"), ("b", "c"), ("c", "a")}
    assert all(one.gain.mean > 0 and one.holm_p >= one.gain.p for one in found)
    assert found[0].shown
    means = [one.gain.mean for one in found]
    assert means == sorted(means, reverse=True)
    close = differences(rows_of({"a": 0.0, "b": 0.02, "c": 0.01}))[0]
    assert close.gain.p < 0.05 < close.holm_p == pytest.approx(3 * close.gain.p)
    assert not close.shown
