"""Checks of a model folder: its vectors are those that were measured, its files unchanged."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest

from isospace.encoders.loading import load_encoder
from isospace.encoders.parity import SUMS, damage, require_parity
from isospace.encoders.saving import save_model
from isospace.errors import UserError


@pytest.fixture(scope="module")
def written(toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sums") / "model"
    save_model(load_encoder(str(toy_model), device="cpu"), folder, "# Card\n")
    return folder


@pytest.fixture
def model(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


def turn_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_the_file_is_that_of_sha256sum(model):
    lines = (model / SUMS).read_text().splitlines()
    weights = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert f"{weights}  model.safetensors" in lines
    assert {line.split("  ")[1] for line in lines} >= {"model.safetensors", "tokenizer.json"}
    assert SUMS not in (model / SUMS).read_text()


def test_a_turned_bit_is_refused_with_what_to_do(model):
    name = "tokenizer.json"
    turn_a_bit(model / name)
    message = rf"{name}: damaged: .*Make or copy the model again; .*remove .*{SUMS}"
    with pytest.raises(UserError, match=message):
        load_encoder(str(model), device="cpu")
    (model / SUMS).unlink()
    assert damage(model) is None


@pytest.mark.parametrize("line", ["no sum", f"{'0' * 64}  ../outside", f"{'0' * 64}  /outside"])
def test_what_is_no_sum_of_a_file_of_the_folder_is_refused(tmp_path, line):
    (tmp_path / SUMS).write_text(f"{line}\n")
    assert damage(tmp_path).endswith("line 1: not a SHA-256 and a file of the folder")


def test_vectors_of_another_direction_or_width_are_no_parity():
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    for other in (np.ones((1, 4)), np.full((1, 3), np.nan)):
        with pytest.raises(UserError, match="1 - cosine"):
            require_parity(one, other, "x", 1e-5)
    with pytest.raises(UserError, match="1 - cosine 1,"):
        require_parity(zero, one, "x", 1e-5)
    both = np.concatenate([zero, one])
    assert require_parity(both, both, "x", 0.0) <= 0
    assert require_parity(np.ones((1, 2)), np.array([[1.0, 1.002]]), "x", 1e-5) == pytest.approx(
        1 - 2.002 / np.sqrt(2 * (1 + 1.002**2)), rel=1e-6
    )
