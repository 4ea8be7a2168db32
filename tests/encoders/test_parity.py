from __future__ import annotations

import numpy as np
import pytest

from isospace.encoders.parity import require_parity
from isospace.errors import UserError


def test_vectors_of_another_width_are_no_parity():
    with pytest.raises(UserError, match="1 - cosine"):
        require_parity(np.ones((2, 3)), np.ones((2, 4)), "x", 1e-5)
    with pytest.raises(UserError, match="1 - cosine"):
        require_parity(np.ones((2, 3)), np.full((2, 3), np.nan), "x", 1e-5)
    assert require_parity(np.ones((1, 2)), np.array([[1.0, 1.002]]), "x", 1e-5) == pytest.approx(
        1 - 2.002 / np.sqrt(2 * (1 + 1.002**2)), rel=1e-6
    )


def test_two_vectors_of_length_0_are_the_same_and_one_is_not():
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    assert require_parity(np.concatenate([zero, one]), np.concatenate([zero, one]), "x", 0.0) <= 0
    with pytest.raises(UserError, match="1 - cosine 1,"):
        require_parity(zero, one, "x", 1e-5)
