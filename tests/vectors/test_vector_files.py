"""Vectors in the types in which files hold them."""

from __future__ import annotations

import numpy as np
import pytest

from isospace.errors import UserError
from isospace.vectors.vector_files import FileLayout, quantise


def test_a_vector_of_zeros_has_an_int8():
    values, scales = quantise(np.zeros((1, 3), np.float32), "int8")
    assert values.tolist() == [[0, 0, 0]]
    assert scales.tolist() == [0.0]


def test_a_vector_that_is_no_number_is_refused(tmp_path):
    layout = FileLayout("npy", "float16", 2, "text", {})
    with pytest.raises(UserError, match="row 1"):
        layout.write(tmp_path / "x.npy", ["a", "b"], np.array([[1, 2], [1e6, 0]], np.float32))
    assert list(tmp_path.iterdir()) == []
