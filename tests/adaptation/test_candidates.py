"""The kinds of maps, merged weights, and the limit on the drop on other text."""

import numpy as np
import pytest
import torch

from isospace.adaptation.candidates import (
    BASE_MODEL,
    PAIR_MAPS,
    QUERY_MAPS,
    TEXT_MAPS,
    Candidate,
    SharedEncoder,
    by_pairs,
    by_texts,
    merge,
    queries_by_pairs,
)
from isospace.adaptation.selection import Tried, ValidationScores, allowed_candidates
from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.operators.fitted_whitening import PairMoments
from isospace.statistics.gains import gain, mean_scores
from isospace.statistics.verdict import GAIN_ERROR_SHARE


@pytest.mark.parametrize("of_power", [by_pairs, by_texts, queries_by_pairs])
def test_a_map_of_each_kind_is_fitted_and_named(of_power):
    torch.manual_seed(0)
    first = torch.randn(200, 4) * torch.tensor([4.0, 2.0, 1.0, 0.5])
    moments = PairMoments.from_pairs(first, first + 0.1 * torch.randn(200, 4))
    choice = of_power(0.5)
    mapped = choice.fit(moments.texts if of_power is by_texts else moments)(first.double())
    assert mapped.shape == first.shape
    assert not torch.allclose(mapped, first.double())
    assert mapped.std(0).max() / mapped.std(0).min() < 7  # the largest direction weighs less
    assert Candidate(0.5, choice).kind == f"merged, then {choice.kind}"


def test_vectors_without_a_difference_are_refused_in_one_line():
    same = torch.ones(20, 4)
    with pytest.raises(UserError, match="pairs of different texts; got 20, all of equal texts"):
        by_pairs(0.5).fit(PairMoments.from_pairs(same, same))


@pytest.mark.parametrize("trains", [True, False])
def test_weights_are_copied_only_if_others_will_be_loaded(toy_model, trains):
    shared = SharedEncoder(TrainConfig(model=str(toy_model)), trains=trains)
    own = next(iter(shared.encoder.model.state_dict().values()))
    assert (own.data_ptr() != next(iter(shared.base.values())).data_ptr()) is trains


@pytest.mark.parametrize("maps", [PAIR_MAPS, TEXT_MAPS, QUERY_MAPS])
def test_every_map_of_a_row_is_tried_before_and_after_training(maps):
    before, trained = maps.before_training, maps.after_training
    assert before == [BASE_MODEL, *(Candidate(0.0, choice) for choice in maps.tried)]
    assert [one.share for one in trained] == [1.0, 0.75, 0.5, 0.25]
    last = [trained[1], *maps.others(trained[1])]
    assert {one.change for one in last} == {*maps.tried, maps.first}
    assert {one.share for one in last} == {0.75}


def state(seed):
    draws = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(50, 40, generator=draws),
        "half": torch.randn(7, generator=draws).half(),
        "zeros": torch.tensor([0.0, -0.0, 1e-38, -1e38]),
        "positions": torch.arange(5) + seed,
    }


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_ends_are_start_and_result_bit_for_bit(share):
    start, result = state(0), state(1)
    result["zeros"] = torch.tensor([-0.0, 0.0, 1e38, 1e-38])
    merged = merge(start, result, share)
    end = (start, result)[int(share)]
    for name in ("weight", "half", "zeros"):
        assert merged[name].numpy().tobytes() == end[name].numpy().tobytes()
        assert merged[name].dtype == start[name].dtype
    assert merged["positions"].tolist() == start["positions"].tolist()


def test_between_them_is_the_weighted_mean():
    start, result = state(0), state(1)
    by_hand = 0.25 * start["weight"] + 0.75 * result["weight"]
    torch.testing.assert_close(merge(start, result, 0.75)["weight"], by_hand)


def change(points):
    """The gain of so many points over nothing, on ten items."""
    items = np.full((1, 10), points / 100)
    groups = np.arange(10)
    return gain(mean_scores(items, groups), mean_scores(np.zeros((1, 10)), groups))


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({}, True),
        ({"docstrings": -0.9, "definitions": 0.1}, True),  # -0.4 on average
        ({"docstrings": -0.9, "definitions": -0.2}, False),
        ({"definitions": -0.6}, False),
        ({"docstrings": 2.0, "definitions": 2.0, "wiki": -0.6}, False),  # the user's own
        ({"docstrings": -0.4, "definitions": -0.4, "wiki": -0.4}, True),
    ],
)
def test_carried_sets_are_bounded_by_their_mean_and_others_one_by_one(changes, allowed):
    state = Candidate(0.5)
    gains = {name: change(points) for name, points in changes.items()}
    found = allowed_candidates({BASE_MODEL: {}, state: gains}, max_drop=0.5)
    assert found == ([BASE_MODEL, state] if allowed else [BASE_MODEL])


def test_the_error_of_a_gain_is_measured_where_a_candidate_beats_the_base_model():
    values = np.random.default_rng(0).random((2, 100))
    base, other = (
        ValidationScores(mean_scores(row[None], np.arange(100)), {})
        for row in (values[0], values[0] + 0.2 * values[1])
    )
    mapped = Candidate(0.0, PAIR_MAPS.tried[0])
    tried = Tried({BASE_MODEL: base, mapped: other}, max_drop=2.0)
    assert tried.selected == mapped
    assert 0.15 < tried.error_share < 0.25
    assert Tried({BASE_MODEL: other, mapped: base}, max_drop=2.0).error_share == GAIN_ERROR_SHARE
