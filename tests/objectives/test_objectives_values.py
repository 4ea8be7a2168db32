"""Hyper-parameters that cannot be, or mean nothing, are refused where an objective is made."""

from __future__ import annotations

from typing import Any

import pytest

from isospace.objectives import OBJECTIVES


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("simcse", {"temperature": 0.0}, "temperature must be above 0; got 0"),
        ("iso", {"head": "mpl"}, r"head must be one of \('mlp', 'none'\); got 'mpl'"),
        ("iso", {"eps": -1e-9}, "eps must not be negative; got -1e-09"),
        ("iso", {"dimension_weight": -0.1}, "dimension_weight must not be negative; got -0.1"),
        ("whitenedcse", {"num_views": 1}, "num_views must be at least 2; got 1"),
        ("whitenedcse", {"positives": "permutation", "whitening": "group"}, "shuffled-group"),
        ("whitenedcse", {"positives": "permutation", "variant": "released"}, "variant paper"),
        ("whitenedcse", {"eps": -1}, "eps must not be negative; got -1"),
        ("whitenedcse", {"momentum": 1.01}, r"momentum must lie in \[0, 1\]; got 1.01"),
        ("whitenedcse", {"momentum": -0.5}, r"momentum must lie in \[0, 1\]; got -0.5"),
        ("off-dropout", {"m": 0.0}, "m must be above 0; got 0"),
        ("scd", {"high_dropout": 1.0}, r"\[0, 1\); got 1"),
        ("scd", {"low_dropout": 0.0, "high_dropout": 0.0}, "high_dropout must be above 0"),
        ("scd", {"low_dropout": 0.2}, "low_dropout must not be above high_dropout; got 0.2 and"),
        ("scd", {"projector": (64, 0)}, r"projector must be at least 1; got \(64, 0\)"),
        ("scd", {"eps": -1e-5}, "eps must not be negative"),
        ("scd", {"decorrelation_weight": -1.0}, "decorrelation_weight must not be negative"),
        ("scd", {"self_contrast_weight": 0, "decorrelation_weight": 0}, "must not both be 0"),
        ("dcl", {"contrast_weight": 0.0, "dimension_weight": 0.0}, "must not both be 0"),
        ("dcl", {"contrast_weight": -1.0}, "contrast_weight must not be negative; got -1"),
        ("simcse++", {"dimension_weight": -1.0}, "dimension_weight must not be negative"),
        ("covariance-identity", {"covariance_weight": -1.0}, "covariance_weight must not be neg"),
        ("barlow-twins", {"projector": (-3,)}, r"projector must be at least 1; got \(-3,\)"),
        ("barlow-twins", {"off_diagonal_weight": -1.0}, "off_diagonal_weight must not be negative"),
        ("noise-study", {"passes": 0}, "passes must be at least 1; got 0"),
        ("noise-study", {"variance": -0.1}, "variance must not be negative; got -0.1"),
        ("rank-study", {"rows": -1}, "rows must not be negative; got -1"),
        ("rank-study", {"barlow_weight": -1.0}, "barlow_weight must not be negative; got -1"),
    ],
)
def test_impossible_values_are_refused(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OBJECTIVES[name](**overrides)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("whitenedcse", {"stop_gradient": "False"}, "must be true or false; got 'False'"),
        ("whitenedcse", {"stop_gradient": 0}, "stop_gradient must be true or false; got 0"),
        ("whitenedcse", {"groups": "None"}, r"groups must be a whole number or None .*'None'"),
        ("whitenedcse", {"groups": 96.0}, r"groups must be a whole number or None .*; got 96.0"),
        ("whitenedcse", {"num_views": True}, "num_views must be a whole number; got True"),
        ("whitenedcse", {"eps": "small"}, "eps must be a finite number; got 'small'"),
        ("noise-study", {"passes": 2.0}, "passes must be a whole number; got 2.0"),
        ("simcse", {"temperature": True}, "temperature must be a finite number; got True"),
        ("simcse", {"temperature": float("inf")}, "temperature must be a finite number; got inf"),
        ("simcse", {"hard_negative_weight": float("nan")}, "must be a finite number; got nan"),
        ("simcse", {"hard_negative_weight": 10**400}, "must be a finite number; got 1000"),
        ("simcse", {"temperature": None}, "temperature must be a finite number; got None"),
        ("simcse", {"head": ["mlp"]}, "head must be one of .*; got"),
        ("scd", {"projector": "512-512"}, r"tuple \(in JSON a list\), .*; got '512-512'"),
        ("scd", {"projector": [64, 64.5]}, r"each item a whole number; got \(64, 64.5\)"),
        ("scd", {"projector": 512}, "projector must be a tuple .*; got 512"),
    ],
)
def test_values_of_another_type_are_refused(
    name: str, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        OBJECTIVES[name].from_json(overrides)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("simcse", {"temperature": 1, "hard_negative_weight": -0.7}),
        ("whitenedcse", {"groups": None, "eps": 0, "momentum": 1.0}),
        ("scd", {"low_dropout": 0.15, "projector": []}),
        ("scd", {"low_dropout": 0.0}),
        ("barlow-twins", {"projector": [8], "off_diagonal_weight": 0.0}),
    ],
)
def test_what_has_a_meaning_is_accepted(name: str, overrides: dict[str, Any]) -> None:
    OBJECTIVES[name].from_json(overrides)
