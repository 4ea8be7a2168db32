"""TSDAE against vectors of its authors' code, and the loss of words of decoders."""

import copy
from itertools import product

import pytest
import torch
from golden_files import DTYPES, files, leaf, precisions, read, scalar, vector
from toy import write_toy_model, write_toy_t5

from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.encoders.tokenisation import Batch
from isospace.objectives import TSDAE, decoders
from isospace.objectives.decoders import Decoder, word_loss
from isospace.views import TokenIds, View, Views

CLS = EncoderSettings(pooling="cls")
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


def recorded(file, folder, precision):
    """Encoder and decoder with the file's weights, and these parameters by their golden names."""
    layers = int(file["layers"])
    sizes = {
        "vocab_size": int(file["vocab"]),
        "hidden_size": int(file["hidden"]),
        "num_attention_heads": int(file["heads"]),
        "intermediate_size": int(file["intermediate"]),
        "num_hidden_layers": layers,
        "max_position_embeddings": len(file["position"]),
        "layer_norm_eps": float(file["layer_norm_eps"]),
    }
    encoder = load_encoder(str(write_toy_model(folder, **sizes)), CLS, "cpu")
    encoder.noise.set(0.0)
    decoder = Decoder(encoder, 0)
    shared, own = dict(SHARED), dict(OWN)
    for i, part in product(range(layers), ("weight", "bias")):
        shared |= {f"l{i}_{k}_{part}": f"encoder.layer.{i}.{v}.{part}" for k, v in LAYER.items()}
        own |= {f"l{i}_{k}_{part}": f"crosses.{i}.{v}.{part}" for k, v in CROSS.items()}
    assert set(own.values()) == set(dict(decoder.named_parameters()))
    found = {}
    for module, names in ((encoder.model[0].model, shared), (decoder, own)):
        module.to(DTYPES[precision])
        parameters = dict(module.named_parameters())
        found |= {golden: parameters[name] for golden, name in names.items()}
    for golden, parameter in found.items():
        parameter.data.copy_(file[golden])
    return encoder, decoder, found


def targets(file):
    ids = file["target_ids"]
    return TokenIds(ids, (ids != file["pad_id"]).long())


def check_loss(file, precision, loss, parameters):
    scalar(loss, file[f"official_loss_{precision}"], {"f64": 1e-10, "f32": 5e-6}[precision])
    loss.backward()
    known = [key for key in file if key.startswith("official_grad_") and key.endswith(precision)]
    assert known
    for key in known:
        name = key.removeprefix("official_grad_").removesuffix(f"_{precision}")
        vector(parameters[name].grad, file[key], {"f64": 1e-8, "f32": 2e-5}[precision])


@precisions
@files("baselines/tsdae_decoder")
def test_decoder_is_the_authors(path, precision, tmp_path):
    file = read(path)
    _, decoder, parameters = recorded(file, tmp_path, precision)
    s = leaf(file["s"], precision)
    check_loss(file, precision, decoder(s, targets(file)), parameters | {"s": s})


@precisions
@files("baselines/tsdae_tied")
def test_tied_gradients_are_the_authors(path, precision, tmp_path):
    file = read(path)
    encoder, decoder, parameters = recorded(file, tmp_path, precision)
    batch = Batch(file["source_ids"], file["source_mask"])
    encoded = torch.stack(encoder(batch, (View(dropout=0.0),)))
    vector(encoded[0], file["sentence_f64"], {"f64": 1e-10, "f32": 1e-6}[precision])
    views = Views(encoded, encoded, {}, {"decoder": decoder}, (targets(file),))
    check_loss(file, precision, TSDAE()(views)["reconstruction"], parameters)


def test_dropout_of_the_decoder_comes_from_its_own_generator(toy_model):
    encoder = load_encoder(str(toy_model), CLS, "cpu")
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
    encoder = load_encoder(str(write_toy_model(tmp_path, masked_words=True)), CLS, "cpu")
    head = Decoder(encoder, 0).head
    theirs = encoder.language_model()
    assert torch.equal(head.dense.weight, theirs.model.cls.predictions.transform.dense.weight)
    assert torch.equal(head.bias, theirs.model.cls.predictions.bias)


def test_layers_of_another_kind_are_refused(toy_model, tmp_path):
    encoder = load_encoder(str(write_toy_t5(toy_model, tmp_path / "t5")), device="cpu")
    with pytest.raises(ValueError, match="layers of t5 are not built like BERT's"):
        Decoder(encoder, 0)


# The loss of words is that of all their logits, and so are its gradients


TOKENS, WORDS, DIM = 7, 11, 5


def drawn(dtype=torch.float64, scale=1.0):
    """States, words and bias; and labels, of which one is asked for twice, and the last one too."""
    random = torch.Generator().manual_seed(0)
    shapes = (TOKENS, DIM), (WORDS, DIM), (WORDS,)
    states, words, bias = (torch.randn(s, generator=random, dtype=dtype) for s in shapes)
    leaves = tuple(part.requires_grad_() for part in (states * scale, words, bias))
    return leaves, torch.tensor([3, 3, 0, WORDS - 1, 5, 2, 1])


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_it_is_the_cross_entropy_of_all_logits(at_once, monkeypatch):
    monkeypatch.setattr(decoders, "_LOGITS", at_once * WORDS)
    leaves, labels = drawn()
    states, words, bias = leaves
    wanted = torch.nn.functional.cross_entropy(states @ words.T + bias, labels, reduction="sum")
    found = word_loss(*leaves, labels)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(3 * loss, leaves) for loss in (found, wanted)))


def test_no_logits_are_kept_for_the_backward_pass(monkeypatch):
    monkeypatch.setattr(decoders, "_LOGITS", WORDS)
    leaves, labels = drawn()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
        word_loss(*leaves, labels)
    assert kept
    assert all(shape[-1:] != (WORDS,) for shape in kept if len(shape) == 2)


@pytest.mark.parametrize("trained", [0, 1, 2])
def test_only_what_is_trained_has_a_gradient(trained):
    leaves, labels = drawn()
    for number, part in enumerate(leaves):
        part.requires_grad_(number == trained)
    word_loss(*leaves, labels).backward()
    assert [part.grad is not None for part in leaves] == [n == trained for n in range(3)]


def test_logits_that_overflow_are_finite_and_no_token_has_no_loss():
    leaves, labels = drawn(torch.float32, scale=1e4)
    found = word_loss(*leaves, labels)
    assert found.isfinite()
    assert torch.autograd.grad(found, leaves[0])[0].isfinite().all()
    nothing = word_loss(leaves[0][:0], *leaves[1:], labels[:0])
    assert nothing == 0
    assert not torch.autograd.grad(nothing, leaves[1])[0].any()
