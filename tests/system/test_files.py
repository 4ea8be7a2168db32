"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import save_file

from isospace.errors import UserError
from isospace.system import typed_json
from isospace.system.files import atomic_folder, atomic_path


def test_a_folder_that_was_filled_meanwhile_is_left_as_it_is(tmp_path):
    folder = tmp_path / "out"

    def write():
        with atomic_folder(folder) as building:
            (building / "ours").touch()
            folder.mkdir()
            (folder / "theirs").touch()

    with pytest.raises(UserError, match="out:"):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in folder.iterdir()] == ["theirs"]


def test_others_may_read_what_safetensors_writes(tmp_path):
    umask = os.umask(0o022)
    try:
        with atomic_path(tmp_path / "a.safetensors") as path:
            save_file({"x": torch.zeros(2)}, path)
        with atomic_folder(tmp_path / "model") as folder:
            save_file({"x": torch.zeros(2)}, folder / "b.safetensors")
    finally:
        os.umask(umask)
    for path in tmp_path.rglob("*.safetensors"):
        assert path.stat().st_mode & 0o777 == 0o644


def test_what_a_killed_process_left_is_removed_and_no_more(tmp_path):
    names = {".out.1.tmp", ".out.99999999.tmp", ".other.99999999.tmp", ".out.x.tmp"}
    names |= {".out.v2.99999999.tmp"}  # of another folder
    for name in names:  # process 1 is always there
        (tmp_path / name / "inside").mkdir(parents=True)
    with atomic_folder(tmp_path / "out") as building:
        (building / "ours").touch()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == names - {".out.99999999.tmp"} | {"out"}


@dataclass(frozen=True)
class Told:
    text: str
    values: tuple[float, ...]
    format: int = 1


def test_texts_that_no_file_takes_and_values_that_are_no_numbers_come_back(tmp_path):
    """Half of a surrogate pair, as JSON escapes of other languages have it."""
    told = Told("half \ud83d of a pair, é", (0.5, math.nan))
    typed_json.write(tmp_path / "a.json", told)
    found = typed_json.read(tmp_path / "a.json", Told, "what was told")
    assert (found.text, found.values[0], math.isnan(found.values[1])) == (told.text, 0.5, True)
    assert json.loads(typed_json.to_json(told))["text"] == told.text
