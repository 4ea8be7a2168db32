from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encode_files import ROWS, TEXTS, files, run
from sentence_transformers.util import quantize_embeddings

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.vectors import encode as module
from isospace.verbs.encode import Encode


@pytest.fixture
def config(encode_config):
    return encode_config


KILLED = """
import os, signal, sys
from pathlib import Path
from isospace.vectors import encode
from isospace.vectors.encode import EncodeConfig
import torch
torch.set_num_threads(1)
encode.WINDOW = 64
rename, wanted = Path.replace, sys.argv[4]
def replace(self, target):
    if Path(target).name == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
if sys.argv[5] == "1":
    Path.replace = replace
else:
    encode.Shards.finish = lambda self, index, digest: os.kill(os.getpid(), signal.SIGKILL)
encode.encode(
    EncodeConfig(sys.argv[1], (sys.argv[2],), Path(sys.argv[3]), shard_size=128, workers=int(sys.argv[5])),
    lambda progress: None,
)
"""


def vectors_of(folder):
    parts = [pq.read_table(path, partitioning=None) for path in sorted(folder.glob("part-*"))]
    return np.concatenate([np.stack(part["vector"].to_numpy()) for part in parts])


def test_every_row_gets_its_vector(config, toy_model):
    seen = run(config)
    encoder = load_encoder(str(toy_model), device="cpu")
    alone = np.concatenate([encoder.embed([text]) for text in TEXTS])  # without neighbours
    assert np.allclose(vectors_of(config.output), alone, atol=1e-6)
    texts = pq.read_table(config.output / "part-00004.parquet", partitioning=None)["text"]
    assert texts.to_pylist() == TEXTS[512:]
    assert [seen[0].done, seen[-1].done, seen[-1].rows] == [0, ROWS, ROWS]
    assert seen[-1].speed > 0
    assert seen[-1].seconds_left == 0


@pytest.mark.parametrize("shard_size", [64, 192, 1024])
def test_the_size_of_shards_changes_no_bit(config, tmp_path, shard_size):
    run(config)
    run(replace(config, output=tmp_path / "other", shard_size=shard_size))
    assert len(list((tmp_path / "other").glob("part-*"))) == -(-ROWS // shard_size)
    assert np.array_equal(vectors_of(config.output), vectors_of(tmp_path / "other"))


@pytest.mark.slow
def test_the_number_of_workers_changes_no_byte(config, tmp_path):
    run(config)
    run(replace(config, output=tmp_path / "other", workers=2))
    assert files(config.output) == files(tmp_path / "other")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_files(config, tmp_path, workers):
    """With two workers the pipe to us stays open until both are gone: they end with their parent."""
    killed = replace(config, output=tmp_path / "killed", workers=workers)
    arguments = [config.model, config.inputs[0], str(killed.output), "part-00002.parquet", str(workers)]  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, timeout=300
    )
    assert child.returncode == -9, child.stderr
    left = files(killed.output)
    assert "part-00004.parquet" not in left
    entered = json.loads(left["manifest.json"])
    assert entered["complete"] is False
    seen = run(replace(killed, workers=1))
    if workers == 1:
        assert len(entered["shards"]) == 2
        assert any(name.endswith(".tmp") for name in left)  # torn in the middle of the third
        assert seen[0].before == 256
        assert seen[-1].done == ROWS - 256
    run(config)
    assert files(killed.output) == files(config.output)


def test_a_kill_while_the_shards_of_one_file_are_removed(config, tmp_path, monkeypatch):
    one = replace(config, output=tmp_path / "v.npy")

    def remove_a_part(folder, **options):
        if folder.exists():
            (folder / "manifest.json").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "shutil", SimpleNamespace(rmtree=remove_a_part))
        with pytest.raises(KeyboardInterrupt):
            run(one)
    with pytest.raises(UserError, match=r"v\.npy: exists already\. Remove it"):
        run(one)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy", "v.npy.json"]


def test_a_kill_before_the_first_manifest_leaves_a_folder_to_use(config):
    config.output.mkdir()
    for name in (".lock", ".manifest.json.123.tmp"):
        (config.output / name).touch()
    assert run(config)[-1].done == ROWS


def test_a_finished_output_is_left_alone(config):
    run(config)
    before = {path: path.stat().st_mtime_ns for path in config.output.glob("part-*")}
    assert [progress.done for progress in run(config)] == [0]
    assert before == {path: path.stat().st_mtime_ns for path in config.output.glob("part-*")}


@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
def test_every_type_round_trips_within_its_error(config, toy_model, tmp_path, dtype, kind):
    output = tmp_path / f"vectors.{kind}"
    run(replace(config, output=output, dtype=dtype, shard_size=256))
    exact = load_encoder(str(toy_model), device="cpu").embed(TEXTS)
    if kind == "npy":
        stored = np.load(output)
        about = json.loads((tmp_path / "vectors.npy.json").read_text())["settings"]
    else:
        table = pq.read_table(output)
        stored = np.stack(table["vector"].to_numpy())
        about = json.loads(table.schema.metadata[b"isospace"])
    assert about["dtype"] == dtype
    assert about["dim"] == 32
    if dtype == "float32":
        assert np.allclose(stored, exact, atol=1e-6)
    elif dtype == "float16":
        assert np.all(np.abs(stored - exact) <= 2.0**-11 * np.abs(exact) + 1e-6)
    elif dtype == "int8" and kind == "parquet":
        scales = table["scale"].to_numpy()[:, None]
        assert np.all(np.abs(scales * stored - exact) <= scales / 2 + 1e-6)
    elif dtype == "int8":
        cosines = (stored * exact).sum(1) / np.linalg.norm(stored.astype(float), axis=1)
        assert np.all(cosines / np.linalg.norm(exact, axis=1) > 1 - 1e-4)
    else:
        assert stored.shape == (ROWS, 4)
        assert np.array_equal(stored, quantize_embeddings(exact, "ubinary"))
    assert not (tmp_path / f"vectors.{kind}.parts").exists()


def write_table(path, rows):
    if path.suffix == ".parquet":
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\r\n" for row in rows))
    else:
        path.write_text("id,words\n" + "".join(f'{row["id"]},"{row["words"]}"\n' for row in rows))
    return path


@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.csv"])
def test_ids_are_written_instead_of_texts(config, tmp_path, toy_model, name):
    rows = [{"id": 7, "words": "the cat"}, {"id": 70, "words": ""}, {"id": 3, "words": "a dog"}]
    file = write_table(tmp_path / name, rows)
    output = tmp_path / "o.parquet"
    run(replace(config, inputs=(str(file),), column="words", id_column="id", output=output))
    table = pq.read_table(output)
    assert table.column_names == ["id", "vector"]
    assert table["id"].to_pylist() == ["7", "70", "3"]
    expected = load_encoder(str(toy_model), device="cpu").embed(["the cat", "", "a dog"])
    assert np.allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-6)


def test_what_is_no_text_is_replaced(config, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": "half \\ud83d pair"}\n')
    run(replace(config, inputs=(str(file),)))
    table = pq.read_table(config.output / "part-00000.parquet", partitioning=None)
    assert table["text"].to_pylist() == ["half ? pair"]


def test_standard_input(config, monkeypatch):
    raw = io.BytesIO(b"one line\r\n\r\nand another")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
    run(replace(config, inputs=("-",)))
    table = pq.read_table(config.output / "part-00000.parquet", partitioning=None)
    assert table["text"].to_pylist() == ["one line", "", "and another"]


def test_a_shard_that_was_deleted_is_made_again(config):
    run(config)
    before = files(config.output)
    (config.output / "part-00001.parquet").unlink()
    assert run(config)[-1].done == 128
    assert files(config.output) == before


def test_the_verb_tells_the_story(config, capsys):
    assert Encode(config).run() == 0
    story = capsys.readouterr().err
    assert f"{ROWS}/{ROWS}" in story
    assert "sentences/s" in story
    assert Encode(config, json=True).run() == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"rows": ROWS, "before": ROWS, "done": 0, "speed": 0.0, "output": str(config.output)}  # fmt: skip


def test_an_interruption_says_how_to_go_on(config, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("isospace.verbs.encode.encode", interrupt)
    assert Encode(config).run() == 1
    story = capsys.readouterr().err
    assert "the same command goes on" in story
    assert "is kept" not in story
    config.output.mkdir()
    assert Encode(config).run() == 1
    assert f"{config.output} is kept; the same command goes on" in capsys.readouterr().err
