"""Values that no objective can have, and values that do not go together: each names its setting."""

from __future__ import annotations

from typing import Any

import pytest

from isospace.errors import UserError
from isospace.objectives import OBJECTIVES

VIEWS = {"first": "none", "second": "none"}
PERMUTED = {"positives": "permutation"}

REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    # what a field's type does not allow
    ("simcse", "temperature", {"temperature": 0.0}),
    ("iso", "num_views", {"num_views": 1}),
    ("iso", "dimension_weight", {"dimension_weight": -0.1}),
    ("scd", "projector", {"projector": (64, 0)}),
    ("scd", "high_dropout", {"low_dropout": 0.0, "high_dropout": 0.0}),
    ("rank-study", "rows", {"rows": -1}),
    ("arccse", "margin", {"margin": 1.6}),
    ("mixcse", "mix_weight", {"mix_weight": 1.0}),
    ("gs-infonce", "noise_rows", {"noise_rows": 0}),
    ("is-bert", "kernels", {"kernels": (1, 4)}),
    # what does not go together
    ("simcse", "groups", {"groups": 4}),
    ("simcse", "clean_negatives", {"supervision": "triples", "clean_negatives": True}),
    ("simcse", "hard_negative_weight", {"hard_negative_weight": 1.0}),
    ("whitenedcse", "positives", {**PERMUTED, "whitening": "group"}),
    ("whitenedcse", "positives", {**PERMUTED, "variant": "released"}),
    ("whitenedcse", "groups", {"groups": 7, "whitening": "zca"}),
    ("scd", "low_dropout", {"low_dropout": 0.2}),
    ("consert", "with_dropout", VIEWS),
    ("arccse", "less", {"less": 0.4}),
    ("declutr", "min_span", {"max_span": 32}),
    ("mocose", "queue_start", {"queue_size": 6, "queue_start": 9}),
    ("promptbert", "second", {"second": "no place [MASK]"}),
    ("promptbert", "second", {"second": "{} no mask"}),
    ("promptbert", "second", {"second": "{} {} [MASK]"}),
    ("rankcse", "own_text", {"own_text": "out", "variant": "margin-mse"}),
]


@pytest.mark.parametrize(("name", "setting", "options"), REFUSED)
def test_a_refusal_names_the_setting(name: str, setting: str, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"`{setting}`"):
        OBJECTIVES[name](**options)


@pytest.mark.parametrize(
    ("name", "options", "dim", "named"),
    [
        ("whitenedcse", {"groups": 384}, 1024, "256, 512"),
        ("whitenedcse", {}, 25, "1, 5, 25"),
        ("whitenedcse", {**PERMUTED, "groups": 1}, 8, "`groups`"),
        ("whitenedcse", {**PERMUTED, "groups": 8}, 8, "`groups`"),
    ],
)
def test_groups_that_do_not_fit_the_width(name, options, dim, named) -> None:
    with pytest.raises(ValueError, match=named):
        OBJECTIVES[name](**options).build_head(dim, 0)
