from __future__ import annotations

import io
import json
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from encode_files import (
    ROWS,
    TEXTS,
    Watched,
    column,
    encode_until_killed,
    encode_until_removal,
    files,
    run,
)
from row_files import write_rows
from sentence_transformers.util import quantize_embeddings
from warm import WarmProcess

from isospace.commands.encode import Encode
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.vectors import encode as module
from isospace.vectors.encode_config import Reading


@pytest.fixture
def config(encode_config):
    return encode_config


def test_every_row_gets_its_vector(config, toy_model):
    watched = Watched()
    encoded = module.encode(config, watched)
    encoder = load_encoder(str(toy_model), device="cpu")
    rows = [*range(0, ROWS, 9), *range(ROWS - 4, ROWS)]
    alone = np.concatenate([encoder.embed([TEXTS[row]]) for row in rows])  # without neighbours
    assert np.allclose(column(config.output)[rows], alone, atol=1e-6)
    texts = pq.read_table(config.output / "part-00004.parquet", partitioning=None)["text"]
    assert texts.to_pylist() == TEXTS[512:]
    assert [encoded.before, encoded.done, encoded.rows] == [0, ROWS, ROWS]
    assert encoded.speed > 0
    assert [watched.bars[0], watched.bars[-1]] == [0, ROWS]
    assert watched.lines == []


def test_the_size_of_shards_changes_no_bit(config, tmp_path):
    run(config)
    run(replace(config, output=tmp_path / "other", shard_size=192))
    assert len(list((tmp_path / "other").glob("part-*"))) == 4
    assert np.array_equal(column(config.output), column(tmp_path / "other"))


def test_the_number_of_threads_changes_no_byte(config, tmp_path, two_threads):
    run(config)
    torch.set_num_threads(1)
    run(replace(config, output=tmp_path / "other"))
    assert files(config.output) == files(tmp_path / "other")


def test_a_killed_run_goes_on_to_the_same_files(config, tmp_path):
    killed = replace(config, output=tmp_path / "killed")
    process = WarmProcess(encode_until_killed, killed, "part-00002.parquet")
    assert process.wait() == -signal.SIGKILL, process.err
    left = files(killed.output)
    assert "part-00004.parquet" not in left
    entered = json.loads(left["manifest.json"])
    assert (entered["format"], entered["complete"]) == (1, False)
    assert len(entered["shards"]) == 2
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
    process = WarmProcess(encode_until_removal, config)
    assert process.wait() == -signal.SIGKILL, process.err
    assert len(list(config.output.parent.iterdir())) == 3
    with pytest.raises(UserError, match="exists already"):
        run(config)
    assert sorted(files(config.output.parent)) == ["v.npy", "v.npy.json"]


@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("form", [None, "binary"])
def test_one_file_holds_the_vectors_and_says_their_type(config, toy_model, tmp_path, form, kind):
    output = tmp_path / f"vectors.{kind}"
    run(replace(config, output=output, compress=form, shard_size=256))
    exact = load_encoder(str(toy_model), device="cpu").embed(TEXTS)
    if kind == "npy":
        stored = np.load(output)
        about = json.loads((tmp_path / "vectors.npy.json").read_text())["settings"]
    else:
        table = pq.read_table(output)
        stored = np.stack(table["vector"].to_numpy())
        about = json.loads(table.schema.metadata[b"isospace"])
    assert (about["dtype"], about["dim"]) == (form or "float32", 32)
    if form is None:
        assert np.allclose(stored, exact, atol=1e-6)
    else:
        assert np.array_equal(stored, quantize_embeddings(exact, "ubinary"))
    assert not (tmp_path / f"vectors.{kind}.parts").exists()


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
    story = capsys.readouterr().err
    assert f"{ROWS}/{ROWS}" in story
    assert "sentences/s" in story
    Encode(config, json=True).run()
    shown = json.loads(capsys.readouterr().out)
    assert shown == {
        "rows": ROWS,
        "before": ROWS,
        "done": 0,
        "speed": 0.0,
        "output": str(config.output),
    }
