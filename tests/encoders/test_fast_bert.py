"""The packed layers equal transformers' own, values and gradients; their dropout is dropout."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isospace.encoders.encoder import Encoder
from isospace.encoders.fast import bert as packed
from isospace.encoders.loading import load_encoder
from isospace.objectives.base import View

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}
MODELS = {
    "bert": (BertModel, BertConfig(**SIZES)),
    "roberta": (RobertaModel, RobertaConfig(**SIZES, type_vocab_size=1)),
    "xlm-roberta": (XLMRobertaModel, XLMRobertaConfig(**SIZES, type_vocab_size=1)),
}


def _make(name, seed=0):
    kind, config = MODELS[name]
    torch.manual_seed(seed)
    model = kind(config).eval()
    for parameter in model.parameters():  # not the initial zeros and ones
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def _batch(lengths=(5, 30, 1, 17), seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.ones(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(3, 50, (length,), generator=generator)
        mask[row, :length] = 1
    return ids, mask


def _check_equal(model, ids, mask, tolerance, first_only=False):
    used = [(n, p) for n, p in model.named_parameters() if "pooler" not in n]
    wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask.unsqueeze(-1)
    wanted = wanted[:, :1] if first_only else wanted
    weights = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1)).to(wanted)
    wanted_gradients = torch.autograd.grad((wanted * weights).sum(), [p for _, p in used])
    got = packed.forward(model, ids, mask, first_only)
    gradients = torch.autograd.grad((got * weights).sum(), [p for _, p in used])
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
    for (name, _), a, b in zip(used, gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance * float(b.abs().max() + 1), msg=name
        )


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_the_models_own(name, first_only):
    model = _make(name).double()
    assert packed.packable(model)
    _check_equal(model, *_batch(), 1e-10, first_only)


def test_rounding_up_the_number_of_tokens_changes_nothing():
    ids, mask = _batch(lengths=(39, 31, 40, 40, 7))  # 157 tokens, rounded up to 256
    _check_equal(_make("bert").double(), ids, mask, 1e-10)


def test_bf16_autocast_is_as_near_as_the_models_own():
    model, (ids, mask) = _make("bert"), _batch()
    with torch.inference_mode():
        exact = packed.forward(model, ids, mask)
        with torch.autocast("cpu", torch.bfloat16):
            ours = packed.forward(model, ids, mask)
            theirs = model(input_ids=ids, attention_mask=mask).last_hidden_state
    theirs = theirs * mask.unsqueeze(-1)
    assert ours.dtype == torch.float32
    assert (ours - exact).norm() < 1.1 * (theirs - exact).norm()
    assert (ours - exact).norm() < 0.02 * exact.norm()


def test_padding_is_never_looked_at():
    model, (ids, mask) = _make("bert"), _batch()
    other = torch.where(mask == 1, ids, torch.full_like(ids, 7))
    assert torch.equal(packed.forward(model, ids, mask), packed.forward(model, other, mask))


def test_a_rate_just_below_one_keeps_something():
    assert packed.keep_mask(torch.empty(4), 0.999_999).isfinite().all()


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.15, 0.5])
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
        both = (flat[:-distance] * flat[distance:]).mean()
        assert abs(both - rate**2) < spread


def test_dropout_has_the_models_own_mean_and_spread():
    model, (ids, mask) = _make("bert"), _batch()
    model.train()
    torch.manual_seed(0)
    with torch.no_grad():
        ours = torch.stack([packed.forward(model, ids, mask) for _ in range(400)])
        theirs = torch.stack(
            [model(input_ids=ids, attention_mask=mask).last_hidden_state for _ in range(400)]
        )
    ours, theirs = ours[:, mask == 1], theirs[:, mask == 1]
    error = (theirs.var(0) / 400 * 2).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)) / error).abs().mean() < 1.0  # 0.8 for equal means
    assert ours.std(0).mean() == pytest.approx(float(theirs.std(0).mean()), rel=0.03)


def test_gradients_under_dropout_are_those_of_the_drawn_masks():
    model, (ids, mask) = _make("bert").double().train(), _batch(lengths=(3, 5))

    def loss():
        torch.manual_seed(3)  # the same masks at every call
        return packed.forward(model, ids, mask).pow(2).sum()

    for name in ("encoder.layer.0.attention.self.query.weight", "encoder.layer.2.output.dense.bias",
                 "embeddings.word_embeddings.weight"):  # fmt: skip
        parameter = model.get_parameter(name)
        row = int(ids[0, 1]) if "word" in name else 0
        index = (row, 1) if parameter.dim() == 2 else (1,)
        (gradient,) = torch.autograd.grad(loss(), [parameter])
        with torch.no_grad():
            kept, values = parameter[index].item(), []
            for shift in (1e-6, -1e-6):
                parameter[index] = kept + shift
                values.append(loss().item())
            parameter[index] = kept
        assert gradient[index].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def test_what_cannot_be_packed_is_left_alone():
    decoder = BertModel(BertConfig(**SIZES, is_decoder=True))
    other = BertModel(BertConfig(**SIZES, hidden_act="relu"))
    distil = DistilBertModel(DistilBertConfig(vocab_size=50, dim=24, n_layers=2, n_heads=4))
    adapted = _make("bert")
    part = adapted.encoder.layer[0].attention.self
    part.query = torch.nn.Sequential(part.query)
    later = _make("bert")
    later.encoder.layer[2].output.LayerNorm = torch.nn.Identity()
    for model in (decoder, other, distil, adapted, later, torch.nn.Linear(2, 2)):
        assert not packed.packable(model)


@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last"])
def test_an_encoders_vectors_do_not_show_which_path_made_them(toy_model, pooling, monkeypatch):
    encoder = load_encoder(str(toy_model), pooling)
    texts = ["the cat sat", "a big red house runs fast over the small green tree", "on"]
    fast = encoder.embed(texts)
    monkeypatch.setattr(Encoder, "_packs", lambda self, batch: False)
    torch.testing.assert_close(fast, encoder.embed(texts), rtol=1e-5, atol=1e-5)


def test_views_are_packed_under_their_own_rates(toy_model, monkeypatch):
    encoder = load_encoder(str(toy_model), "mean")
    rates, own = [], packed.keep_mask
    monkeypatch.setattr(packed, "keep_mask", lambda x, rate: rates.append(rate) or own(x, rate))
    encoder(encoder.batch(encoder.token_ids(["the cat", "a dog sat"])), [View(0.3), View(0.0)])
    # Embeddings; and in each of 3 layers the attention, its output and the feed-forward block.
    assert rates == [0.3] * 10
