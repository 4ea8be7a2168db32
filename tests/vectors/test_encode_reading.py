"""How `encode` reads files: what is a row of the output, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.system.progress import Silent
from isospace.vectors.encode import encode
from isospace.vectors.encode_config import AS_LINES, Reading


@pytest.fixture
def config(encode_config, tmp_path):
    return replace(encode_config, output=tmp_path / "v.parquet")


def encoded(config, inputs, reading=AS_LINES, **options) -> list[str]:
    """What the rows of the output are of, in order."""
    config.output.unlink(missing_ok=True)
    names = tuple(map(str, inputs if isinstance(inputs, list) else [inputs]))
    encode(replace(config, inputs=names, reading=reading, **options), Silent())
    table = pq.read_table(config.output)
    return table["id" if "id_column" in options else "text"].to_pylist()


def put(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_documents_are_cut_to_passages_of_the_size_that_was_asked_for(config, tmp_path):
    paragraphs = [" ".join(sentences(3, seed=seed)) for seed in range(3)]
    file = put(tmp_path / "t.md", "\n\n".join(paragraphs))
    whole = encoded(config, file, Reading(layout="lines", passage_words=None))
    assert whole == paragraphs
    few = encoded(config, file, Reading(layout="lines", passage_words=8))
    assert len(few) > 3
    assert " ".join(few) == " ".join(paragraphs)
    assert all(len(text.split()) <= 8 for text in few)


def test_a_title_stands_before_the_text(config, toy_model, tmp_path):
    rows = [("a cat", " On cats "), ("a dog", None), (None, "Alone"), ("", "Empty"), (None, None)]
    lines = [json.dumps({"text": text, "subject": title}) + "\n" for text, title in rows]
    file = put(tmp_path / "t.jsonl", "".join(lines))
    reading = Reading(title_column="subject")
    expected = ["On cats a cat", "a dog", "Alone", "Empty", ""]
    assert encoded(config, file, reading) == expected
    vectors = np.stack(pq.read_table(config.output)["vector"].to_numpy())
    alone = load_encoder(str(toy_model), device="cpu").embed(expected)
    assert np.allclose(vectors, alone, atol=1e-6)
    config.output.unlink()
    with pytest.raises(UserError, match=r'no column "title"\. .* Name one with `title_column`'):
        encoded(config, file, Reading(title_column="title"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.csv", b"words\na dog\n"),
        ("b.md", b"A caf\xe9 that nobody can read."),
    ],
)
def test_a_file_of_a_folder_that_cannot_be_read_is_left_out_or_refused(
    config, tmp_path, caplog, name, content
):
    folder = tmp_path / "in"
    folder.mkdir()
    put(folder / "a.jsonl", '{"text": "a cat"}\n')
    put(folder / "c.txt", "a tree\n")
    (folder / name).write_bytes(content)
    assert encoded(config, folder) == ["a cat", "a tree"]
    assert caplog.text.count(f"not read: {folder / name}") == 1
    config.output.unlink()
    if not name.endswith("md"):  # it was named by itself
        with pytest.raises(UserError, match=name):
            encoded(config, [folder / name, folder / "a.jsonl"])
