from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from isospace.errors import UserError
from isospace.system.files import built_once


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


def write(folder: Path, text: str) -> None:
    (folder / "part").write_text(text)


def read(folder: Path) -> str:
    return (folder / "part").read_text()


def test_no_place_for_a_cache_names_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/isospace: Not a directory.* ISOSPACE_CACHE"):
        built_once(tmp_path / "file" / "isospace" / "x", Path.mkdir, Path.exists)


def test_two_builders_of_the_same_result(tmp_path):
    together = threading.Barrier(4)

    def build(folder: Path) -> None:
        together.wait()  # all have found no result, and all build
        write(folder, "whole")

    threads = [
        threading.Thread(target=lambda: seen.append(built_once(tmp_path / "result", build, read)))
        for _ in range(4)
    ]
    seen: list[str] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["whole"] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_what_cannot_be_read_is_built_again_once(tmp_path):
    def two_words(folder: Path) -> list[str]:
        first, second = read(folder).split()
        return [first, second]

    (tmp_path / "result").mkdir()
    write(tmp_path / "result", "cut")
    result = built_once(tmp_path / "result", lambda folder: write(folder, "as it"), two_words)
    assert result == ["as", "it"]
    with pytest.raises(ValueError, match="unpack"):
        built_once(tmp_path / "other", lambda folder: write(folder, "cut"), two_words)
