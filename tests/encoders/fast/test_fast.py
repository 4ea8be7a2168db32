"""Which path an encoder takes, and that its vectors do not show it."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

from isospace.encoders import fast
from isospace.encoders.fast import packed
from isospace.encoders.loading import load_encoder
from isospace.views import View

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}


ROTARY = {**SIZES, **{f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}}


def bert(**settings):
    return BertModel(BertConfig(**{**SIZES, **settings}))


def mpnet(**settings):
    return MPNetModel(MPNetConfig(**{**SIZES, **settings}))


def distilbert(**settings):
    sizes = {"vocab_size": 50, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40}
    return DistilBertModel(DistilBertConfig(**{**sizes, **settings}))


def modernbert(**settings):
    return ModernBertModel(ModernBertConfig(**{**ROTARY, **settings}))


def with_a_part(model, part, of, name):
    """The model with a part of one of its modules replaced."""
    setattr(model.get_submodule(of), name, part)
    return model


def adapted():
    model = bert()
    attention = model.encoder.layer[0].attention.self
    attention.query = torch.nn.Sequential(attention.query)
    return model


def adapter():
    return torch.nn.Sequential(torch.nn.Linear(24, 24))


STRETCHED = {
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 160_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}


@pytest.mark.parametrize("make", [bert, mpnet, distilbert, modernbert])
def test_models_with_a_fast_path(make):
    assert fast.fits(make())


@pytest.mark.parametrize(
    "make",
    [
        lambda: bert(is_decoder=True),
        lambda: bert(hidden_act="relu"),
        adapted,
        lambda: with_a_part(bert(), torch.nn.Identity(), "encoder.layer.2.output", "LayerNorm"),
        lambda: with_a_part(mpnet(), adapter(), "encoder.layer.1.attention.attn", "o"),
        lambda: with_a_part(distilbert(), adapter(), "transformer.layer.0.ffn", "lin1"),
        lambda: modernbert(rope_parameters=STRETCHED),
        lambda: with_a_part(modernbert(), adapter(), "layers.2", "mlp_norm"),
        lambda: ElectraModel(ElectraConfig(**SIZES)),
        lambda: torch.nn.Linear(2, 2),
    ],
)
def test_models_without_a_fast_path(make):
    assert not fast.fits(make())


def test_an_encoder_says_its_path(toy_model, monkeypatch):
    encoder = load_encoder(str(toy_model), "mean", device="cpu")
    assert encoder.summary("float32").endswith("cpu, float32; fast path")
    encoder.set_pooling("last2")
    assert encoder.summary("float32").endswith("; transformers' own layers")
    encoder.set_pooling("cls")
    assert encoder.is_fast
    assert not encoder.to("meta").is_fast
    encoder = load_encoder(str(toy_model), device="cpu")
    monkeypatch.delitem(fast.FAMILIES, "bert")
    assert not encoder.is_fast


def test_views_on_the_fast_path_have_their_own_rates(toy_model, monkeypatch):
    encoder = load_encoder(str(toy_model), "mean", device="cpu")
    rates, own = [], packed.keep_mask
    monkeypatch.setattr(packed, "keep_mask", lambda x, rate: rates.append(rate) or own(x, rate))
    encoder(
        encoder.tokens.collate(encoder.tokens.ids(["the cat", "a dog sat"])), [View(0.3), View(0.0)]
    )
    # Embeddings; and in each of 3 layers the attention, its output and the feed-forward block.
    assert rates == [0.3] * 10


def test_a_text_without_a_token_gets_nothing_of_its_neighbours(toy_model, monkeypatch):
    """As of a tokenizer that puts none around a text; the pooling reads the first."""
    encoder = load_encoder(str(toy_model), "cls", device="cpu")
    found = []
    for words in ([5, 6, 7], [8, 9, 10]):
        monkeypatch.setattr(encoder.tokens, "ids", lambda *_, own=words, **__: [own, [], own, []])
        found.append(encoder.embed(["a text", "", "a text", ""])[[1, 3]])
    assert (found[0] == found[1]).all()
