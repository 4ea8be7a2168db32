"""`isospace corpus`, and a folder of documents through the commands that read one."""

import json

import pytest

from isospace.cli import main

TOPICS = {
    "cats": "A cat sleeps on the warm roof of the house for most of the day. It hunts mice at night.",
    "ships": "A ship carries grain across the sea to the harbour in the north. The crew is small.",
    "songs": "An old song is sung by the river when the harvest is over. Nobody knows who wrote it.",
}


@pytest.fixture
def folder(tmp_path):
    """Nine documents of three formats, and a file that cannot be read."""
    place = tmp_path / "docs"
    place.mkdir()
    for number in range(3):
        for name, text in TOPICS.items():
            body = f"{text} This is note {'i' * (number + 1)} about {name} and what they do."
            title = f"{name.title()} {'abc'[number]}"
            (place / f"{name}{number}.md").write_text(f"# {title}\n\n{body}\n\n```\ncode()\n```\n")
            (place / f"{name}{number}.html").write_text(
                f"<html><body><nav>menu</nav><h1>{title}, a page</h1><p>On {body}</p></body></html>"
            )
    (place / "broken.docx").write_bytes(b"no zip")
    return place


def test_what_was_understood_is_shown(folder, capsys):
    assert main(["corpus", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["documents"] == 18
    assert found["counts"]["unreadable files"] == 1
    assert found["counts"]["code blocks left out"] == 9
    assert found["relations"]["title-passage"]["train"] > 0
    assert found["languages"]["en"] == 1.0
    assert found["tokens"]["unknown"] == 0
    assert "test_pairs" in found
    assert found["files"] == {"html": 9, "markdown": 9}

    assert main(["corpus", str(folder)]) == 0
    shown = capsys.readouterr()
    assert "title-passage" in shown.out
    assert "18 documents" in shown.err
    assert "| title-passage |" in shown.out
    assert "9 html, 9 markdown; 1 not read" in shown.err


def test_how_txt_files_are_read_and_too_little_to_train_on_is_said(folder, tmp_path, capsys):
    (folder / "lines.txt").write_text("The first sentence.\nAnother of the sentences.\n")
    (folder / "notes.txt").write_text("The notes\n=========\n\nA paragraph of the notes.\n")
    assert main(["corpus", str(folder)]) == 0
    shown = capsys.readouterr().err
    assert "1 txt (lines), 1 txt (paragraphs)" in shown
    assert "train and adapt have too little here: " in shown
    few = tmp_path / "few.txt"
    few.write_text("One line with some words in it.\nAnd another one of the kind.\n")
    assert main(["corpus", str(few)]) == 0
    shown = capsys.readouterr().err
    assert "test pairs halves of held-out sentences: no relation of the text has 100" in shown
    assert "fewer than a batch of 16" in shown
    starts = [first + second for first in "abcdefgh" for second in "ijklmnop"][:60]
    lines = [" ".join(start + end for end in "abcdefghij") for start in starts]
    few.write_text("\n".join(lines))
    assert main(["corpus", str(few)]) == 0
    shown = capsys.readouterr().err
    assert "train has too little here: " in shown
    assert "fewer than a batch of 64" in shown
