"""Every family's fast layers equal transformers' own, and which path an encoder takes."""

import gc

import pytest
import torch
from model_families import MODELS, SIZES, make, remade
from transformers import ElectraConfig, ElectraModel
from transformers.models.modernbert import modeling_modernbert

from isospace.encoders import fast
from isospace.encoders.fast import packed
from isospace.encoders.loading import as_encoder, load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.views import View

KINDS = ("bert", "mpnet", "distilbert", "modernbert")
"""One of each file of its own."""


def _batch(lengths=(5, 30, 1, 17), padding=0):
    generator = torch.Generator().manual_seed(0)
    ids = torch.full((len(lengths), max(lengths)), padding)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(3, 50, (length,), generator=generator)
        mask[row, :length] = 1
    return ids, mask


@pytest.fixture
def exact_rotation(monkeypatch):
    """ModernBERT's queries and keys pass through float32 in transformers; here they do not."""

    def rotated(query, key, cosine, sine, unsqueeze_dim):
        cosine, sine = cosine.unsqueeze(unsqueeze_dim), sine.unsqueeze(unsqueeze_dim)
        half = modeling_modernbert.rotate_half
        return tuple(x * cosine + half(x) * sine for x in (query, key))

    monkeypatch.setattr(modeling_modernbert, "apply_rotary_pos_emb", rotated)


@pytest.mark.parametrize("name", MODELS)
def test_only_autograd_keeps_numbers_of_the_tokens(name):
    """A part of a batch that is encoded again for its gradient must keep none."""
    model = make(name).train()
    ids, mask = _batch(padding=model.config.pad_token_id)
    earlier = {id(one) for one in gc.get_objects()}
    with torch.autograd.graph.saved_tensors_hooks(lambda _: None, lambda _: None):
        states = fast.forward(model, ids, mask, False)
    made = [x for x in gc.get_objects() if type(x) is torch.Tensor and id(x) not in earlier]
    packed_tokens = int(mask.sum())
    assert states.requires_grad
    assert not [x.shape for x in made if x.is_floating_point() and len(x) == packed_tokens]


@pytest.mark.usefixtures("exact_rotation")
@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_the_models_own(name, first_only):
    """A text may hold the padding's own token."""
    model = make(name).double()
    assert fast.fits(model)
    ids, mask = _batch(padding=model.config.pad_token_id)
    ids[1, 7] = model.config.pad_token_id
    used = [(n, p) for n, p in model.named_parameters() if "pooler" not in n]
    wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask.unsqueeze(-1)
    wanted = wanted[:, :1] if first_only else wanted
    weights = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1)).to(wanted)
    wanted_gradients = torch.autograd.grad((wanted * weights).sum(), [p for _, p in used])
    states = fast.forward(model, ids, mask, first_only)
    gradients = torch.autograd.grad((states * weights).sum(), [p for _, p in used])
    assert states.dtype == wanted.dtype
    torch.testing.assert_close(states, wanted, rtol=1e-10, atol=1e-10)
    for (name, _), a, b in zip(used, gradients, wanted_gradients, strict=True):
        atol = 1e-10 * float(b.abs().max() + 1)
        torch.testing.assert_close(a, b, rtol=1e-10, atol=atol, msg=name)


@pytest.mark.parametrize("name", KINDS)
def test_bf16_autocast_is_as_near_as_the_models_own(name):
    model, (ids, mask) = make(name), _batch()
    with torch.inference_mode():
        exact = fast.forward(model, ids, mask, False)
        with torch.autocast("cpu", torch.bfloat16):
            ours = fast.forward(model, ids, mask, False)
            theirs = model(input_ids=ids, attention_mask=mask).last_hidden_state
    theirs = theirs * mask.unsqueeze(-1)
    assert ours.dtype == torch.float32
    assert (ours - exact).norm() < 1.1 * (theirs - exact).norm()
    assert (ours - exact).norm() < 0.02 * exact.norm()


OF_BERT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
OF_MODERN = {"embedding_dropout": 0.1, "attention_dropout": 0.2, "mlp_dropout": 0.3}
RATES = {
    "bert": (OF_BERT, [0.2, 0.1, 0.1]),
    "mpnet": (OF_BERT, [0.2, 0.1, 0.1]),
    "distilbert": ({"dropout": 0.1, "attention_dropout": 0.2}, [0.2, 0.1]),
    "modernbert": (OF_MODERN, [0.2, 0.2, 0.3]),
}


@pytest.mark.parametrize("name", KINDS)
def test_dropout_is_where_the_model_has_it_and_follows_its_flags(name, monkeypatch):
    rates, of_layer = RATES[name]
    model, (ids, mask) = remade(name, **rates).train(), _batch()
    drawn, own = [], packed.keep_mask
    monkeypatch.setattr(packed, "keep_mask", lambda x, rate: drawn.append(rate) or own(x, rate))
    fast.forward(model, ids, mask, False)
    assert drawn == [0.1, *of_layer * 3]
    drawn.clear()
    model.embeddings.eval()
    fast.forward(model, ids, mask, False)
    assert drawn == of_layer * 3


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("bert", "encoder.layer.0.attention.self.query.weight"),
        ("bert", "encoder.layer.2.output.dense.bias"),
        ("bert", "embeddings.word_embeddings.weight"),
        ("mpnet", "encoder.relative_attention_bias.weight"),
        ("distilbert", "transformer.layer.0.attention.q_lin.weight"),
        ("modernbert", "layers.0.attn.Wqkv.weight"),
        ("modernbert", "layers.2.mlp.Wi.weight"),
        ("modernbert", "embeddings.tok_embeddings.weight"),
    ],
)
def test_gradients_under_dropout_are_those_of_the_drawn_masks(family, name):
    model, (ids, mask) = make(family).double().train(), _batch(lengths=(3, 7))

    def loss():
        torch.manual_seed(3)  # the same masks at every call
        return fast.forward(model, ids, mask, False).pow(3).sum()

    parameter = model.get_parameter(name)
    row = int(ids[0, 1]) if "_embeddings" in name else 0
    index = (row, 1) if parameter.dim() == 2 else (1,)
    (gradient,) = torch.autograd.grad(loss(), [parameter])
    with torch.no_grad():
        before, values = parameter[index].item(), []
        for shift in (1e-6, -1e-6):
            parameter[index] = before + shift
            values.append(loss().item())
        parameter[index] = before
    assert gradient[index].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def with_a_part(model, part, of, name):
    """The model with a part of one of its modules replaced."""
    setattr(model.get_submodule(of), name, part)
    return model


def adapter():
    return torch.nn.Sequential(torch.nn.Linear(24, 24))


STRETCHED = {
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 160_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}


@pytest.mark.parametrize(
    "make",
    [
        lambda: remade("bert", is_decoder=True),
        lambda: remade("bert", hidden_act="relu"),
        lambda: with_a_part(make("bert"), adapter(), "encoder.layer.0.attention.self", "query"),
        lambda: with_a_part(make("bert"), adapter(), "encoder.layer.2.output", "LayerNorm"),
        lambda: remade("modernbert", rope_parameters=STRETCHED),
        lambda: with_a_part(make("modernbert"), adapter(), "layers.2", "mlp_norm"),
        lambda: ElectraModel(ElectraConfig(**SIZES)),
    ],
)
def test_models_without_a_fast_path(make):
    assert not fast.fits(make())


def test_an_encoder_says_its_path(toy_model):
    encoder = load_encoder(str(toy_model), EncoderSettings(pooling="mean"), device="cpu")
    assert encoder.summary("float32").endswith("cpu, float32; fast path")
    layers = as_encoder(encoder, EncoderSettings(pooling="last2"))
    assert layers.summary("float32").endswith("; transformers' own layers")
    assert encoder.is_fast
    assert not encoder.to("meta").is_fast


def test_views_on_the_fast_path_have_their_own_rates(toy_model, monkeypatch):
    encoder = load_encoder(str(toy_model), EncoderSettings(pooling="mean"), device="cpu")
    rates, own = [], packed.keep_mask
    monkeypatch.setattr(packed, "keep_mask", lambda x, rate: rates.append(rate) or own(x, rate))
    batch = encoder.tokens.collate(encoder.tokens.ids(["the cat", "a dog sat"]))
    encoder(batch, [View(0.3), View(0.0)])
    # Embeddings; and in each of 3 layers the attention, its output and the feed-forward block.
    assert rates == [0.3] * 10


def test_a_text_without_a_token_gets_nothing_of_its_neighbours(toy_model, monkeypatch):
    """As of a tokenizer that puts none around a text; the pooling reads the first."""
    encoder = load_encoder(str(toy_model), EncoderSettings(pooling="cls"), device="cpu")
    found = []
    for words in ([5, 6, 7], [8, 9, 10]):
        monkeypatch.setattr(encoder.tokens, "ids", lambda *_, own=words, **__: [own, [], own, []])
        found.append(encoder.embed(["a text", "", "a text", ""])[[1, 3]])
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.5])
def test_keep_mask_keeps_its_rate_and_its_mean(rate):
    torch.manual_seed(0)
    mask = packed.keep_mask(torch.empty(1001, 999), rate)
    dropped = (mask == 0).double()
    spread = 5 * (rate * (1 - rate) / mask.numel()) ** 0.5
    assert abs(dropped.mean() - rate) < spread + 2**-16
    assert mask.unique().numel() == 2
    assert abs(float(mask.double().mean()) - 1) < spread / (1 - rate)
    # Four elements share one draw: each quarter has the rate, and neighbours are independent.
    flat = dropped.flatten()
    for quarter in range(4):
        assert abs(flat[quarter::4].mean() - rate) < 2 * spread + 2**-16
    for distance in (1, 2, 3, 4):
        assert abs((flat[:-distance] * flat[distance:]).mean() - rate**2) < spread
