"""The four verdicts, and what a set of items can show."""

from dataclasses import replace

import numpy as np
import pytest

from isospace.statistics.gains import Gain
from isospace.statistics.influence import mean_scores
from isospace.statistics.verdict import (
    FEWEST_GROUPS,
    VerdictKind,
    base_kept,
    detectable_gain,
    judge,
    kind_of,
)


def of(mean, low, high, **changes):
    known = {"p": 0.01, "items": 300, "groups": 300, "changed": 200, "changed_groups": 200}
    return Gain(mean, low, high, **(known | changes))


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (of(0.03, 0.02, 0.04), VerdictKind.ADAPTED, "200 changed."),
        (of(0.03, 0.001, 0.06), VerdictKind.ADAPTED, "beyond chance, maybe less than 1.00"),
        (of(0.004, -0.001, 0.009), VerdictKind.TOO_SMALL, "changed; less than 1.00."),
        (of(0.004, 0.001, 0.009), VerdictKind.TOO_SMALL, "changed; less than 1.00."),
        # Was "no difference worth having", though the upper end is above one point.
        (of(0.0281, -0.003, 0.06), VerdictKind.CANNOT_TELL, "about 780 pairs would tell"),
        (of(0.008, 0.002, 0.014), VerdictKind.CANNOT_TELL, "beyond chance, maybe less than 1.00"),
        (of(-0.03, -0.05, -0.01), VerdictKind.KEEP_BASE, "the result is worse"),
        (
            of(0.5, 0.2, 0.8, changed_groups=FEWEST_GROUPS - 1),
            VerdictKind.CANNOT_TELL,
            "19 groups changed of 20 needed",
        ),
    ],
)
def test_the_four_verdicts(found, kind, words):
    verdict = judge(found, "MRR")
    assert verdict.kind is kind_of(found) is kind
    assert words in verdict.text
    assert verdict.text.startswith(kind.value.capitalize())


def test_no_verdict_but_too_small_excludes_a_point():
    """ "No difference worth having" was said in 67 % of samples of 100 at a true gain of 2.81."""
    random = np.random.default_rng(0)
    for low, high in np.sort(random.normal(0.01, 0.03, (200, 2)), axis=1):
        kind = kind_of(of((low + high) / 2, low, high))
        assert (kind is VerdictKind.TOO_SMALL) == (0 <= high < 0.01)


def test_the_sentence_names_groups_and_what_changed():
    found = of(0.03, 0.02, 0.04, groups=40, flip_p=0.002)
    text = judge(found, "MRR of pairs.csv", "documents").text
    assert text == (
        "Adapted: +3.00 points (95 % interval +2.00 to +4.00, sign-flip p 0.002) in MRR of "
        "pairs.csv; 300 pairs in 40 documents, 200 changed."
    )
    assert "300 pairs, 200 changed" in judge(replace(found, groups=300), "MRR").text


def test_what_is_needed_shrinks_as_the_square_of_the_interval():
    found = of(0.02, -0.01, 0.05)
    text = judge(found, "MRR").text
    # Half of 6 points is 1.96 errors; 2.80 of them show in 80 %: 300 * (2.80 * 1.53 / 2)^2.
    assert "about 1,400 pairs would tell" in text
    # Below a point the question is whether it is less than one: 300 * (0.55 * 1.43 / 0.5)^2.
    assert "about 750 pairs would tell" in judge(of(0.005, -0.0005, 0.0105), "MRR").text


def test_what_is_needed_is_more_than_there_is():
    """Choosing had added so much that an estimate at the interval's end said 370 pairs of 385."""
    text = judge(of(-0.0404, -0.0404, 0.0287, items=385, groups=385, candidates=7), "MRR").text
    assert text.startswith("Cannot tell")
    assert "would tell" not in text


def test_keeping_the_start_has_no_interval_of_nothing():
    """Was "keep the base model: +0.00 (+0.00 to +0.00)"."""
    verdict = base_kept("no checkpoint beats it", "MRR")
    assert verdict.gain is None
    assert verdict.text == "Keep the base model: no checkpoint beats it; nothing to judge by MRR."


def test_one_line_says_what_the_items_can_show():
    random = np.random.default_rng(1)
    values = random.random((1, 120))
    alone = detectable_gain(mean_scores(values, np.arange(120)))
    documents = detectable_gain(
        mean_scores(np.repeat(values[:, :40], 3, axis=1), np.repeat(np.arange(40), 3)), "documents"
    )
    assert alone.startswith("these 120 pairs can show gains from about ")
    assert documents.startswith("these 120 pairs in 40 documents can show gains from about ")
    smaller, larger = (float(text.split()[-2]) for text in (alone, documents))
    assert larger > 1.5 * smaller > 1.5
    few = mean_scores(values, np.arange(120) % 19)
    assert "too few to show a gain; 20 threads" in detectable_gain(few, "threads")


def test_it_promises_no_less_than_a_point():
    many = mean_scores(np.random.default_rng(2).random((1, 50_000)), np.arange(50_000))
    assert detectable_gain(many) == "these 50,000 pairs can show gains from about 1.0 points"


def test_a_verdict_on_pairs_none_of_which_changed_says_so():
    text = judge(replace(of(0.0, 0.0, 0.0), changed=0, changed_groups=0), "MRR").text
    assert "none of them changed, as if nothing had been learnt" in text
