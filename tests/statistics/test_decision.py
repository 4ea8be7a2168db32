"""Which encoders are ahead of which."""

import numpy as np
import pytest
from scipy import stats

from isospace.statistics.decision import differences, holm
from isospace.statistics.influence import mean_scores


def rows_of(means, seeds=3, items=300, seed=0, seed_sd=0.002, item_sd=0.1):
    random = np.random.default_rng(seed)
    start = random.random(items)
    return {
        name: mean_scores(
            start + mean + random.normal(0, seed_sd, (seeds, 1)) + random.normal(0, item_sd, items),
            np.arange(items),
        )
        for name, mean in means.items()
    }


def test_holm_against_the_definition():
    p = {"a": 0.011, "b": 0.2, "c": 0.012, "d": 0.9}
    assert holm(p) == pytest.approx({"a": 0.044, "c": 0.044, "b": 0.4, "d": 0.9})


def test_every_pair_is_tested_and_the_largest_difference_comes_first():
    found = differences(rows_of({"a": 0.0, "b": 0.1, "c": 0.05}))
    assert (found[0].ahead, found[0].behind) == ("b", "a")
    assert {(one.ahead, one.behind) for one in found} == {("b", "a"), ("b", "c"), ("c", "a")}
    assert all(one.gain.mean > 0 and one.holm_p >= one.gain.p for one in found)
    assert found[0].shown
    means = [one.gain.mean for one in found]
    assert means == sorted(means, reverse=True)


def test_ahead_means_for_other_items_too():
    """Seeds that agree on these items are sure by seeds alone; other items may say otherwise."""
    rows = rows_of({"iso": 0.004, "whitenedcse": 0.0}, seeds=5, seed_sd=0.0005)
    [found] = differences(rows)
    by_seeds = stats.ttest_ind(
        rows[found.ahead].by_seed, rows[found.behind].by_seed, equal_var=False
    )
    assert by_seeds.pvalue < 0.05
    assert not found.shown


def test_of_five_equal_rows_one_is_rarely_shown_ahead():
    wrong = sum(
        any(one.shown for one in differences(rows_of(dict.fromkeys("abcde", 0.0), 3, 60, seed)))
        for seed in range(60)
    )
    assert wrong <= 3 + 3 * (60 * 0.05 * 0.95) ** 0.5  # without Holm about 16
