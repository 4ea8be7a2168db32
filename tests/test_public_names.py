"""`isospace` itself: the names that Python users call, imported when they are used."""

from __future__ import annotations

import pytest

import isospace


def test_every_public_name_is_there_and_no_other_is_shown():
    assert dir(isospace) == sorted(isospace.__all__)
    for name in isospace.__all__:
        assert getattr(isospace, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = isospace.nothing
