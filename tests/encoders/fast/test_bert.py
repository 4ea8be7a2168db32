"""BERT's and RoBERTa's fast layers equal transformers' own, values and gradients."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isospace.encoders import fast

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
    "camembert": (CamembertModel, CamembertConfig(**SIZES, type_vocab_size=1)),
    "roberta with other padding": (
        RobertaModel,
        RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=2),
    ),
}


def _make(name, seed=0):
    kind, config = MODELS[name]
    torch.manual_seed(seed)
    model = kind(config).eval()
    for parameter in model.parameters():  # not the initial zeros and ones
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def _batch(lengths=(5, 30, 1, 17), padding=0):
    generator = torch.Generator().manual_seed(0)
    ids = torch.full((len(lengths), max(lengths)), padding)
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
    states = fast.forward(model, ids, mask, first_only)
    gradients = torch.autograd.grad((states * weights).sum(), [p for _, p in used])
    assert states.dtype == wanted.dtype
    torch.testing.assert_close(states, wanted, rtol=tolerance, atol=tolerance)
    for (name, _), a, b in zip(used, gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance * float(b.abs().max() + 1), msg=name
        )


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_the_models_own(name, first_only):
    model = _make(name).double()
    assert fast.refusal(model) is None
    _check_equal(model, *_batch(padding=model.config.pad_token_id), 1e-10, first_only)


def test_rounding_up_the_number_of_tokens_changes_nothing():
    ids, mask = _batch(lengths=(39, 31, 40, 40, 7))  # 157 tokens, rounded up to 256
    _check_equal(_make("bert").double(), ids, mask, 1e-10)


def test_bf16_autocast_is_as_near_as_the_models_own():
    model, (ids, mask) = _make("bert"), _batch()
    with torch.inference_mode():
        exact = fast.forward(model, ids, mask, False)
        with torch.autocast("cpu", torch.bfloat16):
            ours = fast.forward(model, ids, mask, False)
            theirs = model(input_ids=ids, attention_mask=mask).last_hidden_state
    theirs = theirs * mask.unsqueeze(-1)
    assert ours.dtype == torch.float32
    assert (ours - exact).norm() < 1.1 * (theirs - exact).norm()
    assert (ours - exact).norm() < 0.02 * exact.norm()


def test_padding_is_never_looked_at():
    model, (ids, mask) = _make("bert"), _batch()
    other = torch.where(mask == 1, ids, torch.full_like(ids, 7))
    assert torch.equal(
        fast.forward(model, ids, mask, False), fast.forward(model, other, mask, False)
    )


def test_dropout_has_the_models_own_mean_and_spread():
    model, (ids, mask) = _make("bert"), _batch()
    model.train()
    torch.manual_seed(0)
    with torch.no_grad():
        ours = torch.stack([fast.forward(model, ids, mask, False) for _ in range(400)])
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
        return fast.forward(model, ids, mask, False).pow(2).sum()

    for name in ("encoder.layer.0.attention.self.query.weight", "encoder.layer.2.output.dense.bias",
                 "embeddings.word_embeddings.weight"):  # fmt: skip
        parameter = model.get_parameter(name)
        row = int(ids[0, 1]) if "word" in name else 0
        index = (row, 1) if parameter.dim() == 2 else (1,)
        (gradient,) = torch.autograd.grad(loss(), [parameter])
        with torch.no_grad():
            before, values = parameter[index].item(), []
            for shift in (1e-6, -1e-6):
                parameter[index] = before + shift
                values.append(loss().item())
            parameter[index] = before
        assert gradient[index].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)
