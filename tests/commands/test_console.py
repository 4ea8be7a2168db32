"""What a person sees of work where standard error is no terminal."""

from __future__ import annotations

import pytest

from isospace.commands.console import Console


@pytest.mark.parametrize(
    ("seconds", "story", "shown"),
    [
        (0.5, "", []),
        (4.0, "", ["30", "60", "90"]),
        (0.5, "loss 1", [*map(str, range(10, 101, 10))]),
    ],
)
def test_work_without_a_story_has_a_line_in_ten_seconds_at_most(
    monkeypatch, capsys, seconds, story, shown
):
    clock = [0.0]
    monkeypatch.setattr("isospace.commands.console.time.monotonic", lambda: clock[0])
    with Console().bar("encode", 100) as advance:
        for _ in range(10):
            clock[0] += seconds
            advance(10, story)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1].partition("/")[0] for line in lines] == shown
