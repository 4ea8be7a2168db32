import io
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import encode_files
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from encode_files import ROWS, TEXTS, Watched, column, files, run
from sentence_transformers.util import quantize_embeddings
from toy import sentences, write_rows
from warm import WarmProcess

from isospace.commands.searching import Encode
from isospace.config import AS_LINES, Reading
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.vectors import encode as module


def test_every_row_gets_its_vector(config, encoder):
    watched = Watched()
    encoded = module.encode(config, watched)
    rows = [*range(0, ROWS, 9), *range(ROWS - 4, ROWS)]
    alone = np.concatenate([encoder.embed([TEXTS[row]]) for row in rows])  # without neighbours
    assert np.allclose(column(config.output)[rows], alone, atol=1e-6)
    texts = pq.read_table(config.output / "part-00004.parquet", partitioning=None)["text"]
    assert texts.to_pylist() == TEXTS[512:]
    assert [encoded.before, encoded.done, encoded.rows] == [0, ROWS, ROWS]
    assert encoded.speed > 0
    assert [watched.bars[0], watched.bars[-1]] == [0, ROWS]
    assert watched.lines == []


@pytest.fixture
def threads():
    """Set the number of threads for the test: on busy cores they wait for each other."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_number_of_threads_changes_no_bit(config, tmp_path, threads):
    threads(2)
    run(config)
    threads(1)
    run(replace(config, output=tmp_path / "other"))
    assert np.array_equal(column(config.output), column(tmp_path / "other"))


def test_a_killed_run_goes_on_to_the_same_files(config, tmp_path):
    killed = replace(config, output=tmp_path / "killed")
    process = WarmProcess(encode_files.encode_until_killed, killed, "part-00002.parquet")
    assert process.wait() == -signal.SIGKILL, process.err
    left = files(killed.output)
    assert "part-00004.parquet" not in left
    assert json.loads(left["manifest.json"])["format"] == 4
    assert any(name.endswith(".tmp") for name in left)  # torn in the middle of the third
    watched = Watched()
    encoded = module.encode(killed, watched)
    assert [encoded.before, encoded.done] == [256, ROWS - 256]
    assert [watched.bars[0], watched.bars[-1]] == [256, ROWS]
    assert watched.lines == ["encode 256 of 600 rows were there already"]
    assert run(killed).done == 0
    run(config)
    assert files(killed.output) == files(config.output)


def test_a_kill_while_the_shards_are_removed_leaves_nothing_for_good(config, tmp_path):
    config = replace(config, output=tmp_path / "v" / "v.npy")
    process = WarmProcess(encode_files.encode_until_removal, config)
    assert process.wait() == -signal.SIGKILL, process.err
    assert len(list(config.output.parent.iterdir())) == 3
    with pytest.raises(UserError, match="exists already"):
        run(config)
    assert sorted(files(config.output.parent)) == ["v.npy", "v.npy.json"]


@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("numbers", ["float32", "binary"])
def test_one_file_holds_the_vectors_and_says_their_type(config, toy_model, tmp_path, numbers, kind):
    output = tmp_path / f"vectors.{kind}"
    run(replace(config, output=output, compress=numbers))
    exact = load_encoder(str(toy_model), device="cpu").embed(TEXTS)
    if kind == "npy":
        stored = np.load(output)
        about = json.loads((tmp_path / "vectors.npy.json").read_text())["settings"]
    else:
        table = pq.read_table(output)
        stored = np.stack(table["vector"].to_numpy())
        about = json.loads(table.schema.metadata[b"isospace"])
    assert (about["dtype"], about["dim"]) == (numbers, 32)
    if numbers == "float32":
        assert np.allclose(stored, exact, atol=1e-6)
    else:
        assert np.array_equal(stored, quantize_embeddings(exact, "ubinary"))
    assert not (tmp_path / f"vectors.{kind}.parts").exists()


@pytest.mark.parametrize("output", ["at-12:30", "s3:v.parquet"])
def test_a_path_that_looks_like_a_url_is_a_path(config, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    run(replace(config, output=Path(output)))
    assert Path(output).exists()


def test_ids_are_written_instead_of_texts_and_a_null_is_the_empty_text(config, tmp_path, toy_model):
    rows = [{"id": 7, "words": "the cat"}, {"id": 70, "words": None}, {"id": 3, "words": "a dog"}]
    file = write_rows(tmp_path / "in.parquet", rows)
    output = tmp_path / "o.parquet"
    reading = Reading(column="words", id_column="id")
    run(replace(config, inputs=(str(file),), reading=reading, output=output))
    table = pq.read_table(output)
    assert table.column_names == ["id", "vector"]
    assert table["id"].to_pylist() == ["7", "70", "3"]
    expected = load_encoder(str(toy_model), device="cpu").embed(["the cat", "", "a dog"])
    assert np.allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-6)


def test_standard_input(config, monkeypatch):
    raw = io.BytesIO(b"one line\r\n\r\nand another")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
    run(replace(config, inputs=("-",)))
    table = pq.read_table(config.output / "part-00000.parquet", partitioning=None)
    assert table["text"].to_pylist() == ["one line", "", "and another"]


def test_the_command_says_what_was_done(config, capsys):
    Encode(config).run()
    assert f"{ROWS}/{ROWS}" in capsys.readouterr().err
    Encode(config, json=True).run()
    counts = {"rows": ROWS, "before": ROWS, "done": 0, "speed": 0.0}
    assert json.loads(capsys.readouterr().out) == counts | {"output": str(config.output)}


def encoded(config, *inputs, reading=AS_LINES):
    """The texts of the rows of the output `v.parquet`, in order."""
    output = config.output.with_name("v.parquet")
    output.unlink(missing_ok=True)
    run(replace(config, inputs=tuple(map(str, inputs)), reading=reading, output=output))
    return pq.read_table(output)["text"].to_pylist()


def test_documents_are_cut_to_passages_of_the_size_that_was_asked_for(config, tmp_path):
    paragraphs = [" ".join(sentences(3, seed=seed)) for seed in range(3)]
    file = tmp_path / "t.md"
    file.write_text("\n\n".join(paragraphs))
    assert encoded(config, file, reading=Reading(passage_words=None)) == paragraphs
    few = encoded(config, file, reading=Reading(passage_words=8))
    assert len(few) > 3
    assert " ".join(few) == " ".join(paragraphs)
    assert all(len(text.split()) <= 8 for text in few)


def test_every_passage_of_docstrings_is_a_row_once(config, tmp_path):
    summary = "Return the rows in ascending order."
    after = "Equal rows stay in the order in which they were given by the caller of the function."
    other = "The argument is never changed in place by this."
    docstring = f'"""{summary}\n\n{after}\n\nArgs:\n    x: {other}\n"""'
    for number in range(2):
        (tmp_path / f"m{number}.py").write_text(f"def sort(x):\n    {docstring}\n")
    reading = Reading(passage_words=None)
    name = f"docstrings:{tmp_path}"
    assert encoded(config, name, reading=reading) == [summary, after, other]
    (tmp_path / "m2.py").write_text(f'"""{other[:-1]} and any function."""')
    expected = [summary, after, other, f"{other[:-1]} and any function."]
    assert encoded(config, name, reading=reading) == expected


def test_a_title_stands_before_the_text(config, toy_model, tmp_path):
    rows = [("a cat", " On cats "), ("a dog", None), (None, "Alone"), ("", "Empty"), (None, None)]
    named = [{"text": text, "subject": title} for text, title in rows]
    file = write_rows(tmp_path / "t.jsonl", named)
    expected = ["On cats a cat", "a dog", "Alone", "Empty", ""]
    assert encoded(config, file, reading=Reading(title_column="subject")) == expected
    vectors = np.stack(pq.read_table(tmp_path / "v.parquet")["vector"].to_numpy())
    alone = load_encoder(str(toy_model), device="cpu").embed(expected)
    assert np.allclose(vectors, alone, atol=1e-6)
    with pytest.raises(UserError, match=r'no column "title"\. .* Name one with `title_column`'):
        encoded(config, file, reading=Reading(title_column="title"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("b.csv", b"words\na dog\n"), ("b.md", b"A caf\xe9 that nobody can read.")],
)
def test_an_unreadable_file_is_left_out_or_refused(config, tmp_path, caplog, name, content):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "a cat"}\n')
    (folder / "c.txt").write_text("a tree\n")
    (folder / name).write_bytes(content)
    assert encoded(config, folder) == ["a cat", "a tree"]
    assert caplog.text.count(f"not read: {folder / name}") == 1
    if not name.endswith("md"):  # it was named by itself
        with pytest.raises(UserError, match=name):
            encoded(config, folder / name, folder / "a.jsonl")
