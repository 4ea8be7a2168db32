"""The folder of a whitened model: its layers, and that a sentence's vector stands alone."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.operators.fitted_whitening import Moments, Whitening
from isospace.operators.flow import fit_flow
from isospace.whiten.fitting import drop_normalize, fold

TEXTS = sentences(60, seed=3)


@pytest.fixture(scope="module")
def folded(toy_model, tmp_path_factory):
    """(pooled vectors of TEXTS, map, folder) of a whitened toy."""
    encoder = load_encoder(str(toy_model), device="cpu")
    drop_normalize(encoder)
    pooled = torch.from_numpy(encoder.embed(TEXTS)).double()
    fitted = Whitening().fit(Moments.from_vectors(pooled), 0.5)
    fold(encoder, fitted)
    folder = tmp_path_factory.mktemp("folded") / "model"
    save_model(encoder, folder)
    return pooled, fitted, folder


@pytest.fixture(scope="module")
def read_back(folded):
    """(the folder's encoder, its vectors of TEXTS, each encoded alone)."""
    encoder = load_encoder(str(folded[2]), device="cpu")
    return encoder, np.concatenate([encoder.embed([text]) for text in TEXTS])


def test_the_folder_is_the_map_and_has_unit_length(folded):
    pooled, fitted, folder = folded
    found = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    expected = torch.nn.functional.normalize(fitted(pooled)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_the_dense_layer_is_one_that_every_version_reads(folded):
    folder = folded[2]
    modules = json.loads((folder / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    assert all(m["type"].startswith("sentence_transformers.models.") for m in modules)
    assert json.loads((folder / "2_Dense" / "config.json").read_text()) == {
        "in_features": 32,
        "out_features": 32,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    new = load_file(folder / "2_Dense" / "model.safetensors")
    old = torch.load(folder / "2_Dense" / "pytorch_model.bin", weights_only=True)
    assert new.keys() == old.keys() == {"linear.weight", "linear.bias"}
    assert all(torch.equal(new[name], old[name]) for name in new)


@settings(deadline=None, max_examples=15)
@given(
    st.permutations(range(len(TEXTS))), st.integers(1, len(TEXTS)), st.sampled_from([1, 40, 4096])
)
def test_a_sentence_does_not_depend_on_neighbours_batch_size_or_order(
    read_back, order, count, batch_tokens
):
    encoder, alone = read_back
    chosen = order[:count]
    together = encoder.embed([TEXTS[i] for i in chosen], batch_tokens=batch_tokens)
    np.testing.assert_allclose(together, alone[chosen], atol=5e-6)


def test_a_closing_normalisation_is_replaced_and_an_earlier_whitening_stays(folded):
    encoder = load_encoder(str(folded[2]), device="cpu")
    before = encoder.embed(TEXTS)
    drop_normalize(encoder)
    pooled = torch.from_numpy(encoder.embed(TEXTS)).double()
    fold(encoder, Whitening(kind="zca", shrinkage=0.0).fit(Moments.from_vectors(pooled), 0.0))
    assert [type(module).__name__ for module in encoder.model][2:] == [
        "Dense",
        "Dense",
        "Normalize",
    ]
    np.testing.assert_allclose(np.linalg.norm(before, axis=1), 1, atol=1e-6)
    centred = torch.nn.functional.normalize(pooled - pooled.mean(0)).numpy()
    np.testing.assert_allclose(encoder.embed(TEXTS), centred, atol=1e-5)


def test_a_flow_is_a_stack_of_dense_layers_that_others_load(toy_model, tmp_path):
    encoder = load_encoder(str(toy_model), device="cpu")
    drop_normalize(encoder)
    pooled = torch.from_numpy(encoder.embed(TEXTS))
    fitted = fit_flow(pooled)
    fold(encoder, fitted)
    save_model(encoder, tmp_path / "model")
    found = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    expected = torch.nn.functional.normalize(fitted(pooled.double())).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    assert [module["type"].rsplit(".")[-1] for module in modules[2:]] == ["Dense"] * 19 + [
        "Normalize"
    ]
