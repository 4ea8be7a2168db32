"""iso: the sum of the parts that it is composed of."""

from __future__ import annotations

from typing import Any

import pytest
from objective_views import loss, random

from isospace.errors import UserError
from isospace.objectives import (
    DCL,
    Iso,
    Objective,
    OffDropout,
)
from isospace.views import Views


def test_iso_is_off_dropout_per_positive_plus_contrast_of_the_encoders_dimensions() -> None:
    encoded, projected = random(4, 9, 4), random(4, 9, 4, seed=1)
    anchor, one, two, clean = projected
    terms = Iso(num_views=3, temperature=0.2)(Views(encoded, projected))
    expected = (
        sum(loss(OffDropout(m=1.0, temperature=0.2), anchor, p, clean) for p in (one, two)) / 2
    )
    assert terms["off_dropout"].item() == pytest.approx(expected)
    dimensions = loss(DCL(contrast_weight=0.0), encoded[0], encoded[1])
    assert terms["dimension_contrast"].item() == pytest.approx(dimensions)


def test_gradient_flows_through_the_clean_view() -> None:
    views = random(3, 7, 4).requires_grad_()
    sum(Iso()(Views(views, views)).values()).backward()
    assert views.grad[2].norm() > 0


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Iso, {"head": "mpl"}, "`head` 'mpl': expected 'mlp' or 'none'"),
        (Iso, {"eps": -1e-9}, "`eps` -1e-09: expected 0 or more"),
        (Iso, {"num_views": 1}, "`num_views` 1: expected 2 or more"),
        (Iso, {"dimension_weight": -0.1}, "`dimension_weight` -0.1: expected 0 or more"),
    ],
)
def test_impossible_values_are_refused(
    kind: type[Objective], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        kind(**options)
