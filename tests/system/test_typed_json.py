"""Results in files: what was written is what is read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from isospace.system import typed_json


@dataclass(frozen=True)
class Told:
    text: str
    values: tuple[float, ...]
    format: int = 1


def test_texts_that_no_file_takes_and_values_that_are_no_numbers_come_back(tmp_path):
    """Half of a surrogate pair, as JSON escapes of other languages have it."""
    told = Told("half \ud83d of a pair, é", (0.5, math.nan))
    typed_json.write(tmp_path / "a.json", told)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["text"] == told.text
    found = typed_json.read(tmp_path / "a.json", Told, "what was told")
    assert found.text == told.text
    assert found.values[0] == 0.5
    assert math.isnan(found.values[1])


def test_texts_that_no_file_takes_are_printed_with_json_s_escapes():
    told = Told("half \ud83d of a pair", (0.5,))
    assert json.loads(typed_json.to_json(told))["text"] == told.text
