"""TSDAE against vectors of its authors' code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from golden_files import DTYPES, File, files, precisions, read, scalar, vector
from torch import Tensor
from toy import write_toy_model

from isospace.encoders.batch import Batch
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.objectives import TSDAE
from isospace.objectives.decoders import Decoder
from isospace.views import TokenIds, View, Views

SHARED = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "type": "embeddings.token_type_embeddings.weight",
    "emb_ln_weight": "embeddings.LayerNorm.weight",
    "emb_ln_bias": "embeddings.LayerNorm.bias",
}
LAYER = {
    "self_q": "attention.self.query",
    "self_k": "attention.self.key",
    "self_v": "attention.self.value",
    "self_o": "attention.output.dense",
    "self_ln": "attention.output.LayerNorm",
    "ffn_in": "intermediate.dense",
    "ffn_out": "output.dense",
    "ffn_ln": "output.LayerNorm",
}
OWN = {
    "head_dense_weight": "head.dense.weight",
    "head_dense_bias": "head.dense.bias",
    "head_ln_weight": "head.norm.weight",
    "head_ln_bias": "head.norm.bias",
    "head_bias": "head.bias",
}
CROSS = {"cross_v": "value", "cross_o": "output", "cross_ln": "norm"}


def names(layers: int) -> tuple[dict[str, str], dict[str, str]]:
    """Golden names of the parameters of encoder and decoder -> ours."""
    shared, own = dict(SHARED), dict(OWN)
    for i in range(layers):
        for part in ("weight", "bias"):
            shared |= {
                f"l{i}_{k}_{part}": f"encoder.layer.{i}.{v}.{part}" for k, v in LAYER.items()
            }
            own |= {f"l{i}_{k}_{part}": f"crosses.{i}.{v}.{part}" for k, v in CROSS.items()}
    return shared, own


def recorded(
    file: File, folder: Path, precision: str
) -> tuple[Encoder, Decoder, Callable[..., Any]]:
    """Encoder and decoder with the file's weights, and the gradient of a golden name."""
    sizes = {
        "vocab_size": int(file["vocab"]),
        "hidden_size": int(file["hidden"]),
        "num_attention_heads": int(file["heads"]),
        "intermediate_size": int(file["intermediate"]),
        "num_hidden_layers": int(file["layers"]),
        "max_position_embeddings": len(file["position"]),
        "layer_norm_eps": float(file["layer_norm_eps"]),
    }
    encoder = load_encoder(str(write_toy_model(folder, **sizes)), "cls", "cpu")
    encoder.noise.set(0.0)
    decoder = Decoder(encoder, 0)
    modules = [module.to(DTYPES[precision]) for module in (encoder, decoder)]
    parameters = [dict(encoder.model[0].model.named_parameters()), dict(decoder.named_parameters())]
    found = {}
    with torch.no_grad():
        for ours, theirs in zip(parameters, names(sizes["num_hidden_layers"]), strict=True):
            for golden, name in theirs.items():
                ours[name].copy_(file[golden])
                found[golden] = ours[name]
    assert set(dict(decoder.named_parameters())) == set(
        names(sizes["num_hidden_layers"])[1].values()
    )
    return *modules, lambda golden: found[golden].grad


def token_losses(decoder: Decoder, sentences: Tensor, target: TokenIds) -> Tensor:
    """Of each token, as the decoder's loss is their mean."""
    states, labels = decoder.states(sentences, target)
    return torch.stack(
        [decoder.head(states[i : i + 1], labels[i : i + 1]) for i in range(len(labels))]
    )


def targets(file: File) -> TokenIds:
    ids = file["target_ids"]
    return TokenIds(ids, (ids != file["pad_id"]).long())


def check_gradients(file: File, precision: str, gradient: Callable[[str], Tensor | None]) -> None:
    limit = {"f64": 1e-8, "f32": 2e-5}[precision]
    known = [key for key in file if key.startswith("official_grad_") and key.endswith(precision)]
    assert known
    for key in known:
        name = key.removeprefix("official_grad_").removesuffix(f"_{precision}")
        found = gradient(name)
        assert found is not None, name
        vector(found, file[key], limit)


@precisions
@files("baselines/tsdae_decoder")
def test_decoder_is_the_authors(path, precision, tmp_path):
    file = read(path)
    _, decoder, gradient = recorded(file, tmp_path, precision)
    s = file["s"].to(DTYPES[precision]).requires_grad_()
    loss = decoder(s, targets(file))
    scalar(loss, file[f"official_loss_{precision}"], {"f64": 1e-10, "f32": 5e-6}[precision])
    if precision == "f64":
        losses = token_losses(decoder, s, targets(file))
        expected = file["official_token_nll_f64"][file["predicted"].bool()]
        np.testing.assert_allclose(losses.detach().numpy(), expected.numpy(), atol=1e-10)
    loss.backward()
    check_gradients(file, precision, lambda name: s.grad if name == "s" else gradient(name))


@precisions
@files("baselines/tsdae_tied")
def test_tied_gradients_are_the_authors(path, precision, tmp_path):
    file = read(path)
    encoder, decoder, gradient = recorded(file, tmp_path, precision)
    batch = Batch(file["source_ids"], file["source_mask"])
    encoded = torch.stack(encoder(batch, (View(dropout=0.0),)))
    vector(encoded[0], file["sentence_f64"], {"f64": 1e-10, "f32": 1e-6}[precision])
    views = Views(encoded, encoded, {}, {"decoder": decoder}, (targets(file),))
    [loss] = TSDAE()(views).values()
    scalar(loss, file[f"official_loss_{precision}"], {"f64": 1e-10, "f32": 5e-6}[precision])
    loss.backward()
    check_gradients(file, precision, gradient)


def test_a_later_token_changes_no_earlier_prediction(toy_model):
    encoder = load_encoder(str(toy_model), "cls", "cpu")
    encoder.noise.set(0.0)
    decoder = Decoder(encoder, 0)
    ids = torch.tensor(encoder.tokens.ids(["the cat sat on the big red mat"]))
    other = ids.clone()
    other[0, 6:] = 30
    mask, s = torch.ones_like(ids), torch.randn(1, encoder.dim, generator=torch.manual_seed(0))
    first, second = (token_losses(decoder, s, TokenIds(x, mask)) for x in (ids, other))
    torch.testing.assert_close(first[:5], second[:5])  # of places 1 to 5
    assert not torch.allclose(first[6:], second[6:])


def test_dropout_of_the_decoder_comes_from_its_own_generator(toy_model):
    encoder = load_encoder(str(toy_model), "cls", "cpu")
    decoder, again = (Decoder(encoder, 0) for _ in range(2))
    ids = torch.tensor(encoder.tokens.ids(["the cat sat on the big red mat"]))
    target, s = TokenIds(ids, torch.ones_like(ids)), torch.ones(1, encoder.dim)
    before = torch.get_rng_state()
    first, second = decoder(s, target), decoder(s, target)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, second)
    assert torch.equal(again(s, target), first)
    resumed = Decoder(encoder, 1)
    resumed.load_state_dict(copy.deepcopy(again.state_dict()))
    assert torch.equal(resumed(s, target), second)


def test_the_trained_head_for_masked_words_is_taken(tmp_path):
    encoder = load_encoder(str(write_toy_model(tmp_path, masked_words=True)), "cls", "cpu")
    head = Decoder(encoder, 0).head
    theirs: Any = encoder.language_model()
    assert torch.equal(head.dense.weight, theirs.model.cls.predictions.transform.dense.weight)
    assert torch.equal(head.bias, theirs.model.cls.predictions.bias)


def test_layers_of_another_kind_are_refused(toy_model, tmp_path):
    from toy import write_toy_t5

    encoder = load_encoder(str(write_toy_t5(toy_model, tmp_path / "t5")), device="cpu")
    with pytest.raises(ValueError, match="layers of t5 are not built like BERT's"):
        Decoder(encoder, 0)
