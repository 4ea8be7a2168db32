"""The outputs on the pages of docs/get-started have the form of what the commands print."""

import runpy
import shlex
from pathlib import Path

import pytest
from toy import write_documents

from isospace.cli import main

ROOT = Path(__file__).parent.parent
SMALLER = {"docstrings:$P/scipy": None, "300000": "5000"}
"""Words of the pages' commands -> those that take seconds; `None` leaves one out."""


def test_shown_outputs_are_of_the_newest_form(toy_model, tmp_path, monkeypatch, capsys):
    """On small text, numbers and rows of candidates differ; labels and headings may not."""
    pytest.importorskip("lancedb")
    script = runpy.run_path(str(ROOT / "scripts" / "refresh_get_started.py"))
    monkeypatch.chdir(tmp_path)
    smaller = SMALLER | {"docstrings:$P/sklearn": str(write_documents(tmp_path / "docs", 100))}

    def run(command):
        program, *words = shlex.split(command)
        if program != "isospace" or words[0] in ("doctor", "--version"):
            return None
        given = [new for word in words if (new := smaller.get(word, word)) is not None]
        if words[0] in ("corpus", "adapt"):
            given += ["--model", str(toy_model)]
        if words[0] == "adapt":  # so that a gain on few pairs of other text is no condition
            given += ["--max-drop", "100"]
        capsys.readouterr()
        assert main(given) == 0
        printed = capsys.readouterr()
        return [*printed.err.splitlines(), *printed.out.splitlines()]

    stale, printed = [], []
    for name in script["ORDER"]:
        page = (script["PAGES"] / name).read_text(encoding="utf-8")
        new, lost = script["refreshed"](page, run, printed)
        stale += [line for line in lost if not line.startswith("row ")]
        assert len(new.splitlines()) == len(page.splitlines())
    assert stale == []
    assert len([line for line in printed if line.startswith("verdict ")]) == 1
