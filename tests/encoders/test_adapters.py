"""Adapters beside frozen layers: what they leave as it is, what they come to, where they fit."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from toy import sentences, tiny_tokenizer, write_toy_t5
from toy_decoder import write_toy_decoder
from transformers import AlbertConfig, AlbertModel

from isospace.encoders import adapters
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.views import View

TEXTS = sentences(6)


@pytest.fixture(params=["bert", "albert", "t5", "gpt2"])
def model(request, toy_model, tmp_path):
    """The folder of a model: of layers of their own, shared ones, without bias, transposed ones."""
    folder = tmp_path / request.param
    if request.param == "bert":
        return toy_model
    if request.param == "t5":
        return write_toy_t5(toy_model, folder)
    if request.param == "gpt2":
        return write_toy_decoder(folder, "gpt2")
    tokenizer = tiny_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "embedding_size": 16}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
    torch.manual_seed(0)
    AlbertModel(AlbertConfig(**sizes, pad_token_id=0)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def adapted(folder, rank=4, seed=1):
    encoder = load_encoder(str(folder), device="cpu")
    encoder.add_adapters(rank, seed)
    return encoder


def move(encoder):
    """Something of a size that training could have come to."""
    torch.manual_seed(5)
    for parameter in encoder.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)


def test_the_start_is_as_it_was_and_the_adapters_alone_get_gradients(model):
    plain, encoder = load_encoder(str(model), device="cpu"), adapted(model)
    np.testing.assert_allclose(encoder.embed(TEXTS), plain.embed(TEXTS), atol=1e-6)
    assert weights_hash(encoder) == weights_hash(plain)
    assert not encoder.is_fast
    move(encoder)
    batch = encoder.tokens.collate(encoder.tokens.ids(TEXTS))
    [vectors] = encoder(batch, [View(dropout=0.0)])
    vectors.square().sum().backward()
    with_gradient = {name for name, p in encoder.named_parameters() if p.grad is not None}
    trained = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert with_gradient
    assert with_gradient <= trained
    assert all(adapters.IN in name or adapters.OUT in name for name in trained)


def test_the_plain_weights_are_what_the_adapters_come_to(model, tmp_path):
    """In sentence-transformers too, which needs no peft for the folder."""
    encoder, bare = adapted(model), load_encoder(str(model), device="cpu")
    start = weights_hash(encoder)
    move(encoder)
    vectors, state = encoder.embed(TEXTS), adapters.plain_state(encoder.model)
    assert np.abs(vectors - bare.embed(TEXTS)).max() > 1e-3
    assert state.keys() == bare.model.state_dict().keys()
    moved = weights_hash(encoder)
    assert moved != start
    adapters.load_plain(encoder.model, state)
    assert not adapters.has_adapters(encoder.model)
    np.testing.assert_allclose(encoder.embed(TEXTS), vectors, atol=1e-6)
    assert weights_hash(encoder) == moved
    save_model(encoder, tmp_path / "folder")
    assert not list((tmp_path / "folder").glob("adapter*"))
    theirs = SentenceTransformer(str(tmp_path / "folder"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, vectors, atol=1e-6)


def test_a_model_without_linear_layers_is_refused(encoder, monkeypatch):
    encoder.model[0].model.encoder.layer = torch.nn.ModuleList()
    encoder.model[0].model.pooler = None
    with pytest.raises(UserError, match=r"`lora` 4: .* \(bert\)"):
        encoder.add_adapters(4, 1)
