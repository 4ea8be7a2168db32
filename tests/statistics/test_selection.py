"""The one way to choose."""

import numpy as np
import pytest
from ranks import item_scores

from isospace.statistics.gains import gain
from isospace.statistics.selection import SelectedAmong, best_other, best_position, gain_of_selected


def choose_and_judge(candidates):
    """On the same items."""
    among = SelectedAmong(candidates, best_other(candidates))
    return best_position(candidates), gain_of_selected(among)


def searched(means, items=200, sd=0.05, seed=0):
    random = np.random.default_rng(seed)
    start = random.random(items)
    return [item_scores(start + mean + sd * _centred(random, items)) for mean in means]


def _centred(random, items):
    noise = random.normal(size=items)
    return noise - noise.mean()


def test_the_highest_is_taken_and_the_first_of_equals():
    assert best_position([0.1, 0.3, 0.3, 0.2]) == 1
    assert best_position([0.1, 0.1]) == 0
    assert best_position(searched([0, 0.1, 0.3, 0.2])) == 2


def test_one_candidate_that_chose_itself_is_judged_plainly():
    start, other = searched([0, 0.1])
    place, found = choose_and_judge([start, other])
    plain = gain(other, start)
    assert place == 1
    assert found.mean == pytest.approx(plain.mean)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=0.02)
    assert found.candidates == 1


def test_the_interval_holds_for_all_candidates_at_once():
    best = searched([0.0, *np.linspace(0.01, 0.02, 12)], sd=0.1)
    place, found = choose_and_judge(best)
    plain = gain(best[place], best[0])
    assert found.candidates == 12
    assert "best of 12 tried" in str(found)
    # The 97.5 % point of the largest of twelve is 2.8 to 2.9 errors where one is 1.96.
    assert 1.3 < (found.high - found.low) / (plain.high - plain.low) < 1.6
    same = [best[0], *([best[1]] * 12)]  # equal ones are no more than one
    assert choose_and_judge(same)[1].high == pytest.approx(gain(best[1], best[0]).high, rel=0.02)


def test_what_could_not_be_chosen_hides_nothing_of_what_choosing_adds():
    """One far ahead that may not be taken won every fold, so that nothing was taken off."""
    random = np.random.default_rng(7)
    told = []
    for _ in range(40):
        start = random.random(60)
        noise = [0.1 * random.normal(size=60) for _ in range(13)]
        best = {str(i): item_scores(start + x) for i, x in enumerate([0, *noise])}
        allowed = list(best)
        best["forbidden"] = item_scores(start + 0.1 + 0.1 * random.normal(size=60))
        chosen = max(allowed[1:], key=lambda name: best[name].mean)
        among = SelectedAmong.named(best, chosen, allowed, unseen=3)
        assert (len(among.scores), among.unseen) == (14, 4)
        told.append(gain_of_selected(among))
    error = np.std([one.mean for one in told]) / 40**0.5
    assert abs(np.mean([one.mean for one in told])) < 3 * error
    assert told[0].candidates == 17


def test_the_p_of_the_best_of_many_is_that_of_its_interval():
    random = np.random.default_rng(1)
    shown = 0
    for _ in range(60):
        base = random.random(150)
        tried = [item_scores(base + x) for x in (0, *random.normal(0, 0.1, (8, 150)))]
        shown += gain_of_selected(SelectedAmong(tried, best_other(tried))).p < 0.05
    assert shown <= 7
