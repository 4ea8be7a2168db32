"""Bad input, settings and folders, and folders of others: one line each, and nothing is touched."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encode_files import ROWS, Watched, files, run
from toy import write_toy_model

from isospace.config import Reading
from isospace.errors import UserError
from isospace.system.lifecycle import working_in
from isospace.vectors import encode as module
from isospace.vectors.vector_files import FileLayout


def damage_manifest(config, tmp_path):
    (config.output / "manifest.json").write_text('{"settings"')
    return config


def change_text(config, tmp_path):
    (tmp_path / "other.txt").write_text("the cat\n" * ROWS)
    return replace(config, inputs=(str(tmp_path / "other.txt"),))


def change_model(config, tmp_path):
    return replace(config, model=str(write_toy_model(tmp_path / "bert", num_hidden_layers=1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damage_manifest, "manifest.json: cannot be read .*The file is damaged. Remove "),
        (change_text, "begun with another text to encode"),
        (change_model, "begun with another model \\("),
        (lambda config, _: replace(config, compress="int8"), "begun with another `compress`"),
    ],
)
def test_what_does_not_fit_is_refused(config, tmp_path, change, message):
    run(config)
    changed = change(config, tmp_path)
    before = files(config.output)
    with pytest.raises(UserError, match=message) as caught:
        run(changed)
    assert "\n" not in str(caught.value)
    assert files(config.output) == before


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("rows", [128, ROWS])
def test_a_text_that_changes_meanwhile_is_refused(config, tmp_path, single, rows):
    path = tmp_path / "text.txt"
    path.write_text("a dog\n" * ROWS)
    output = tmp_path / "v.npy" if single else config.output
    config = replace(config, inputs=(str(path),), output=output)
    with pytest.raises(UserError, match="the text changed while it was encoded"):
        module.encode(config, Watched(lambda: path.write_text("the cat\n" * rows)))
    assert not (tmp_path / "v.npy").exists()


def test_a_folder_that_another_process_writes_is_left_alone(config):
    run(config)
    (config.output / "part-00001.parquet").unlink()
    with working_in(config.output, ""):
        (config.output / ".part-00001.parquet.1.tmp").touch()  # the other's, half written
        before = files(config.output)
        with pytest.raises(UserError, match="out: another process"):
            run(config)
        assert files(config.output) == before
    assert run(config).done == 128


WITH_IDS = Reading(id_column="id", layout="lines")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": ("bytes.parquet",), "reading": WITH_IDS}, r"bytes\.parquet .*'utf-8' codec"),
        ({"inputs": ("header.csv",)}, "no text to encode"),
        ({"inputs": ("rows.jsonl",), "reading": WITH_IDS}, r"rows.jsonl:2: no column \"id\""),
        ({"reading": WITH_IDS}, "has no columns"),
        ({"reading": Reading(title_column="t")}, r"^`title_column` t: .*text.txt"),
        ({"output": Path("folder")}, "manifest.json"),
        ({"output": Path("there.npy")}, "exists already"),
        ({"inputs": ()}, "files"),
        ({"compress": "int7"}, "`compress`"),
        ({"workers": 2}, "`workers` 2: .*`engine` ray"),
        ({"output": Path("a.npy"), "reading": Reading(id_column="id")}, "`id_column`"),
        ({"output": Path("a.csv")}, "`output` a.csv"),
        ({"output": Path("a.h5")}, "`output` a.h5"),
    ],
)
def test_bad_input_is_refused(config, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    Path("header.csv").write_text("text\n")
    Path("rows.jsonl").write_text('{"text": "a", "id": 1}\n{"text": "b"}\n')
    ids = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())
    pq.write_table(pa.table({"text": ["a"], "id": ids}), "bytes.parquet")
    Path("folder").mkdir()
    Path("folder", "mine.txt").touch()
    Path("there.npy").touch()
    with pytest.raises(UserError, match=message):
        run(replace(config, **change))
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_vector_that_is_no_number_is_refused(tmp_path):
    layout = FileLayout("npy", 2, "text", {})
    with pytest.raises(UserError, match=r"x\.npy, row 1: the vector is not finite"):
        layout.write(tmp_path / "x.npy", ["a", "b"], np.array([[1, 2], [np.nan, 0]], np.float32))
    assert list(tmp_path.iterdir()) == []
