"""A short docs/results/placebo.md: real differences in which nothing changed on the whole.

`differences.npz` holds what `benchmarks/placebo.py --record` wrote: differences of reciprocal ranks
of docstring pairs (whitened at power 0.5, with the pairs' modules) and of a comparison's pairs.
"""

from pathlib import Path

import numpy as np
import pytest
from ranks import item_scores
from scipy import optimize

from isospace.statistics.gains import gain
from isospace.statistics.verdict import VerdictKind, kind_of

SAMPLES = 400
RECORDED = dict(np.load(Path(__file__).parent / "differences.npz"))


def judged(values, groups):
    return gain(item_scores(values, groups), item_scores(np.zeros(len(values)), groups))


def tilted(values, target=0.0):
    """Probabilities close to equal ones under which the mean is `target`."""
    off = values.astype(float) - target
    slope = optimize.brentq(lambda slope: (off * np.exp(slope * off)).sum(), -20, 20)
    weights = np.exp(slope * off)
    return weights / weights.sum()


def drawn(random, values, weights, size, cluster=1):
    """One sample and its groups; items of a cluster correlate at 0.2."""
    groups = np.arange(size) // cluster
    own = random.choice(len(values), size, p=weights)
    common = random.choice(len(values), groups[-1] + 1, p=weights)
    takes = (cluster > 1) & (random.random(size) < 0.2**0.5)
    return values[np.where(takes, common[groups], own)].astype(float), groups


def with_ties(values, weights, share):
    equal = values == 0
    changed = np.where(equal, 0.0, weights)
    return (1 - share) * changed / changed.sum() + share * equal / equal.sum()


def bounded(gains, truth=0.0):
    """False "adapted" at most 2.5 %, coverage 93 % at least, but for the error of the simulation."""
    adapted = np.mean([kind_of(one) is VerdictKind.ADAPTED for one in gains])
    covered = np.mean([one.low <= truth <= one.high for one in gains])
    assert adapted <= 0.025 + 3 * (0.025 * 0.975 / len(gains)) ** 0.5
    assert covered >= 0.93 - 3 * (0.93 * 0.07 / len(gains)) ** 0.5


@pytest.mark.parametrize("ties", [None, 0.54, 0.93])
@pytest.mark.parametrize(("size", "cluster"), [(10, 1), (50, 1), (100, 5), (300, 10)])
@pytest.mark.parametrize("name", ["docstrings", "simcse"])
def test_nothing_is_seldom_adapted(name, size, cluster, ties):
    random = np.random.default_rng(0)
    for values in (RECORDED[name], -RECORDED[name]):
        weights = tilted(values)
        if ties is not None:
            weights = with_ties(values, weights, ties)
        bounded(
            [
                judged(*drawn(random, values, weights, size, cluster))
                for _ in range(SAMPLES // 2 if ties is None else SAMPLES // 8)
            ]
        )


@pytest.mark.parametrize("size", [10, 20, 50, 100])
def test_where_few_changed_the_interval_holds_a_gain_of_the_others(size):
    random = np.random.default_rng(4)
    values = RECORDED["simcse"]
    weights = with_ties(values, tilted(values, 0.03), 0.93)
    truth = float(weights @ values)
    bounded([judged(*drawn(random, values, weights, size)) for _ in range(SAMPLES // 2)], truth)
