"""iso: the sum of the parts that it is composed of."""

from __future__ import annotations

import pytest
from objective_views import loss, random

from isospace.objectives import (
    DCL,
    Iso,
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
