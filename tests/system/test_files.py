"""Files, folders and built results that appear whole or not at all."""

import errno
import json
import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from isospace.errors import UserError
from isospace.system import typed_json
from isospace.system.files import atomic_folder, atomic_path, built_once


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


def test_a_full_disk_is_reported_with_the_file_that_was_written(tmp_path):
    def write():
        with atomic_path(tmp_path / "a.npy"):
            raise OSError(errno.ENOSPC, "No space left on device")  # as `file.write` raises it

    with pytest.raises(OSError, match="No space left") as full:
        write()
    assert full.value.filename == str(tmp_path / "a.npy")
    assert full.value.errno == errno.ENOSPC


def test_what_a_killed_process_left_is_removed_and_no_more(tmp_path):
    names = {".out.1.tmp", ".out.99999999.tmp", ".other.99999999.tmp", ".out.x.tmp"}
    names |= {".out.v2.99999999.tmp"}  # of another folder
    for name in names:  # process 1 is always there
        (tmp_path / name / "inside").mkdir(parents=True)
    with atomic_folder(tmp_path / "out") as building:
        (building / "ours").touch()
    assert {path.name for path in tmp_path.iterdir()} == names - {".out.99999999.tmp"} | {"out"}


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


def test_a_killed_build_is_not_used(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from isospace.system.files import built_once\n"
        "def build(folder):\n"
        "    (folder / 'part').write_text('half'); os._exit(1)\n"
        "built_once(Path(sys.argv[1], 'result'), build, str)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == 1
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".building-")

    assert built_once(tmp_path / "result", lambda folder: write(folder, "whole"), read) == "whole"
    assert left.exists()  # another process may be at work in it
    week_old = time.time() - 8 * 24 * 3600
    os.utime(left, (week_old, week_old))
    built_once(tmp_path / "other", lambda folder: write(folder, "whole"), read)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "result"]


def write(folder, text):
    (folder / "part").write_text(text)


def read(folder):
    return (folder / "part").read_text()


def test_no_place_for_a_cache_names_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/isospace: Not a directory.* ISOSPACE_CACHE"):
        built_once(tmp_path / "file" / "isospace" / "x", Path.mkdir, Path.exists)


def test_builders_of_the_same_result_leave_one(tmp_path):
    together = threading.Barrier(4)

    def build(folder):
        together.wait()  # all have found no result, and all build
        write(folder, "whole")

    with ThreadPoolExecutor(4) as pool:
        results = [tmp_path / "result"] * 4
        seen = list(pool.map(lambda result: built_once(result, build, read), results))
    assert seen == ["whole"] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_what_cannot_be_read_is_built_again_once(tmp_path):
    def two_words(folder):
        first, second = read(folder).split()
        return [first, second]

    (tmp_path / "result").mkdir()
    write(tmp_path / "result", "cut")
    result = built_once(tmp_path / "result", lambda folder: write(folder, "as it"), two_words)
    assert result == ["as", "it"]
    with pytest.raises(ValueError, match="unpack"):
        built_once(tmp_path / "other", lambda folder: write(folder, "cut"), two_words)
