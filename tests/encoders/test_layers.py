"""Only the last layers train: what is below runs once for a text, clean, for all of its views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import sentences
from toy_t5 import write_toy_t5
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    XLNetConfig,
    XLNetModel,
)

from isospace.encoders.hooks import layers_of
from isospace.encoders.loading import load_encoder
from isospace.encoders.noise import Noise
from isospace.encoders.trained import train_last
from isospace.errors import UserError
from isospace.views import View

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 80,
}
ROTARY = {**SIZES, "layer_types": ["full_attention", "sliding_attention", "full_attention"]}
FAMILIES = {
    "bert": lambda **more: BertModel(BertConfig(**SIZES, **more)),
    "roberta": lambda **more: RobertaModel(RobertaConfig(**SIZES, **more)),
    "electra": lambda **more: ElectraModel(ElectraConfig(**SIZES, **more)),
    "mpnet": lambda **more: MPNetModel(MPNetConfig(**SIZES, **more)),
    "distilbert": lambda **more: DistilBertModel(
        DistilBertConfig(dim=32, n_layers=3, n_heads=4, hidden_dim=40, **more)
    ),
    "deberta": lambda **more: DebertaV2Model(
        DebertaV2Config(
            **SIZES, relative_attention=True, pos_att_type=["c2p"], conv_kernel_size=3, **more
        )
    ),
    "modernbert": lambda **more: ModernBertModel(
        ModernBertConfig(**ROTARY, embedding_dropout=0.1, mlp_dropout=0.1, **more)
    ),
    "gemma": lambda **more: Gemma3TextModel(
        Gemma3TextConfig(
            **ROTARY, num_key_value_heads=1, head_dim=8, attention_dropout=0.1,
            use_bidirectional_attention=True, **more,
        )
    ),
}  # fmt: skip
FAST = ("bert", "roberta", "mpnet", "distilbert", "modernbert")


@pytest.fixture(params=[*FAMILIES, "bert, general path", "modernbert, general path"])
def load(request, toy_model, tmp_path, monkeypatch):
    """A function that loads an encoder of a family with random weights, in float64."""
    family, *general = request.param.split(", ")
    tokenizer = AutoTokenizer.from_pretrained(toy_model)
    torch.manual_seed(0)
    ids = {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
    FAMILIES[family](vocab_size=len(tokenizer), **ids).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    def loaded():
        encoder = load_encoder(str(tmp_path), "mean", device="cpu").double()
        assert encoder.path.startswith("fast path") == (family in FAST)
        if general:
            monkeypatch.setattr(encoder, "why_general_path", lambda: "asked for")
        return encoder

    return loaded


def batch_of(encoder, texts=1):
    rows = [text for seed in range(texts) for text in sentences(5, seed)]
    return encoder.tokens.collate(encoder.tokens.ids(rows), texts)


def set_noise_of_the_last(encoder, count):
    """Dropout in so many layers alone."""
    encoder.noise.set(0.0)
    for layer in layers_of(encoder.model[0].model)[-count:]:
        Noise(layer).set(0.2)


PLAN = [View(0.0), View(), View(), View(text=1), View(0.0, text=1)]


def test_views_and_gradients_are_those_over_clean_and_frozen_layers(load):
    plain, apart, count = load(), load(), 2
    train_last(apart, count)
    batch, found = batch_of(plain, 2), []
    for encoder in (plain, apart):
        set_noise_of_the_last(encoder, count)
        torch.manual_seed(1)
        views = torch.stack(encoder(batch, PLAN))
        trained = {n: p for n, p in apart.named_parameters() if p.requires_grad}
        used = {n: p for n, p in encoder.named_parameters() if n in trained}
        weights = torch.randn(views.shape, generator=torch.Generator().manual_seed(2)).double()
        gradients = torch.autograd.grad((views * weights).sum(), used.values(), allow_unused=True)
        found.append((views.detach(), dict(zip(used, gradients, strict=True))))
    (expected, expected_gradients), (views, gradients) = found
    torch.testing.assert_close(views, expected, rtol=1e-10, atol=1e-12)
    for name, gradient in expected_gradients.items():
        if gradient is None:
            assert gradients[name] is None
            continue
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-9, atol=1e-12, msg=name)
    layers = layers_of(apart.model[0].model)
    for place, layer in enumerate(layers):
        assert all(p.requires_grad == (place >= 3 - count) for p in layer.parameters())


def test_a_clean_view_is_bit_identical_to_that_of_the_whole(load):
    plain, apart = load().float(), load().float()
    train_last(apart, 2)
    batch = batch_of(plain)
    with torch.no_grad():
        [expected] = plain(batch, [View(0.0)])
        views = [apart(batch, [View(), View(0.0), View(0.3)])[1], *apart(batch, [View(0.0)])]
    assert all(torch.equal(view, expected) for view in views)
    texts = sentences(20)
    assert np.array_equal(apart.embed(texts), plain.embed(texts))


def test_what_is_below_has_no_noise_and_runs_once_for_a_text(load):
    encoder = load()
    train_last(encoder, 1)
    layers = layers_of(encoder.model[0].model)
    Noise(layers[-1]).set(0.0)
    first, second = encoder(batch_of(encoder), [View(), View()])
    assert torch.equal(first, second)
    assert not torch.equal(*encoder(batch_of(encoder), [View(0.5), View(0.5)]))
    with encoder.noise.at(None):
        states = [encoder._with_states(batch_of(encoder, 2)).states for _ in range(2)]
    assert torch.equal(*states)
    assert states[0].shape[0] == 10
    assert not states[0].requires_grad
    assert all("forward" not in vars(layer) for layer in layers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: train_last(e, 4), "`trained_layers` 4"),
        (
            lambda e: (e.set_pooling("first_last"), train_last(e, 2)),
            "`trained_layers` 2: .* first_last",
        ),
    ],
)
def test_what_cannot_be_is_refused(toy_model, change, message):
    with pytest.raises(UserError, match=message):
        change(load_encoder(str(toy_model), device="cpu"))


def test_layers_that_cannot_be_run_apart_are_refused(toy_model, tmp_path):
    """Albert's are one and the same; T5's first one makes what the others need; XLNet's have the
    batch behind the length."""
    tokenizer = AutoTokenizer.from_pretrained(toy_model)
    words = len(tokenizer)
    AlbertModel(AlbertConfig(vocab_size=words, embedding_size=32, **SIZES)).save_pretrained(
        tmp_path / "albert"
    )
    XLNetModel(
        XLNetConfig(vocab_size=words, d_model=32, n_layer=3, n_head=4, d_inner=40)
    ).save_pretrained(tmp_path / "xlnet")
    write_toy_t5(toy_model, tmp_path / "t5")
    for name in ("albert", "t5", "xlnet"):
        tokenizer.save_pretrained(tmp_path / name)
        encoder = load_encoder(str(tmp_path / name), device="cpu")
        with pytest.raises(UserError, match=rf"`trained_layers` 1: .*\({name}\)"):
            train_last(encoder, 1)
