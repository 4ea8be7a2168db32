"""What columns of metadata hold, and values brought to that."""

from __future__ import annotations

import pytest

from isospace.search.columns import TypeGuess, convert


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1460323737035677698", "3"], "int", [1460323737035677698, 3]),
        (["9460323737035677698", "3"], "str", ["9460323737035677698", "3"]),
        (["12345678901234567890123", "1.5"], "str", ["12345678901234567890123", "1.5"]),
        (["4e999", "1.5"], "str", ["4e999", "1.5"]),
        (["1e3", "-1.5"], "float", [1000.0, -1.5]),
        (["caf\udce9", ""], "str", ["caf?", None]),
    ],
)
def test_no_digit_of_a_cell_is_lost(cells, kind, values):
    guess = TypeGuess(["c"])
    for cell in cells:
        guess.see({"c": cell}, cell=True)
    assert guess.columns == {"c": kind}
    assert [convert(cell, kind, cell=True) for cell in cells] == values


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_finite_number_is_none(number):
    assert convert(number, "float", cell=False) is None
    guess = TypeGuess(["c"])
    for value in (number, 1.5):
        guess.see({"c": value}, cell=False)
    assert guess.columns == {"c": "float"}
