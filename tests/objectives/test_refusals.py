"""Values that do not go together: each refusal names its setting."""

import pytest

from isospace.errors import UserError
from isospace.objectives import OBJECTIVES

VIEWS = {"first": "none", "second": "none"}
PERMUTED = {"positives": "permutation"}

REFUSED = [
    ("is-bert", "kernels", {"kernels": (1, 4)}),
    ("simcse", "groups", {"groups": 4}),
    ("simcse", "clean_negatives", {"supervision": "triples", "clean_negatives": True}),
    ("simcse", "hard_negative_weight", {"hard_negative_weight": 1.0}),
    ("whitenedcse", "positives", {**PERMUTED, "whitening": "group"}),
    ("whitenedcse", "positives", {**PERMUTED, "variant": "released"}),
    ("whitenedcse", "groups", {"groups": 7, "whitening": "zca"}),
    ("consert", "with_dropout", VIEWS),
    ("arccse", "less", {"less": 0.4}),
    ("declutr", "min_span", {"max_span": 32}),
    ("promptbert", "second", {"second": "no place [MASK]"}),
    ("promptbert", "second", {"second": "{} no mask"}),
    ("promptbert", "second", {"second": "{} {} [MASK]"}),
    ("rankcse", "own_text", {"own_text": "out", "variant": "margin-mse"}),
]


@pytest.mark.parametrize(("name", "setting", "options"), REFUSED)
def test_a_refusal_names_the_setting(name, setting, options):
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
def test_groups_that_do_not_fit_the_width(name, options, dim, named):
    with pytest.raises(ValueError, match=named):
        OBJECTIVES[name](**options).build_head(dim, 0)
