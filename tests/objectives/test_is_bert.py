"""IS-BERT against a loop and against vectors of its authors' code."""

from __future__ import annotations

import math

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, scalar, vector

from isospace.errors import UserError
from isospace.objectives.base import TokenStates, Views
from isospace.objectives.companions import Convolutions
from isospace.objectives.heads import seeded
from isospace.objectives.is_bert import ISBERT, jensen_shannon


def softplus(x):
    return math.log1p(math.exp(x))


def drawn_tokens():
    random = torch.Generator().manual_seed(0)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    states = torch.randn(3, 4, 6, generator=random) * mask.unsqueeze(-1)
    return TokenStates(states, mask)


def test_estimate_is_the_formula_token_by_token():
    tokens = drawn_tokens()
    sentence = tokens.states.sum(1) / tokens.mask.sum(1, keepdim=True)
    own, others = [], []
    for i in range(3):
        for t in range(int(tokens.mask[i].sum())):
            for j in range(3):
                s = float(tokens.states[i, t] @ sentence[j])
                if i == j:
                    own.append(math.log(2) - softplus(-s))
                else:
                    others.append(softplus(-s) + s - math.log(2))
    found = jensen_shannon(tokens.states, sentence, tokens.mask, constants=True)
    assert [float(x) for x in found] == pytest.approx(
        [sum(own) / len(own), sum(others) / len(others)], rel=1e-5
    )


def terms(objective, tokens, dim):
    encoded = tokens.states.sum(1).unsqueeze(0)
    beside = objective.build_companions(torch.nn.Identity(), dim, 0)
    return objective(Views(encoded, encoded, {0: tokens}, beside))


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_padding_changes_nothing(variant):
    tokens = drawn_tokens()
    longer = TokenStates(
        *(torch.cat([x, torch.zeros_like(x)], dim=1) for x in (tokens.states, tokens.mask))
    )
    objective = ISBERT(channels=5, variant=variant)
    for name, value in terms(objective, tokens, 6).items():
        torch.testing.assert_close(terms(objective, longer, 6)[name], value)


def test_a_kernel_without_a_middle_is_refused():
    with pytest.raises(UserError, match="`kernels` 4: expected odd"):
        ISBERT(kernels=(1, 4))


@precisions
@files("baselines/isbert_jsd")
def test_estimate_is_the_authors(path, precision):
    file = read(path)

    def loss(local, sentence, constants=True):
        own, others = jensen_shannon(local, sentence, file["mask"], constants=constants)
        return others - own

    inputs = {name: file[name] for name in ("local", "sentence")}
    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    local, sentence = (x.double() for x in inputs.values())
    scalar(loss(local, sentence, constants=False), file["paper_loss_f64"], 1e-10)


@precisions
@pytest.mark.parametrize("key", ["official", "official_pads_zeroed", "paper_relu"])
@files("baselines/isbert_conv")
def test_convolutions_are_the_authors(path, key, precision):
    file = read(path)
    dim, kernels = file["h"].shape[2], file["kernel_sizes"].tolist()
    dtype = torch.float64 if precision == "f64" else torch.float32
    relu = key == "paper_relu"
    convolutions = Convolutions(
        dim, int(file["channels"]), kernels, relu=relu, generator=seeded(0)
    ).to(dtype)
    for kernel, layer in zip(kernels, convolutions.layers, strict=True):
        layer.load_state_dict({n: file[f"conv{kernel}_{n}"] for n in ("weight", "bias")})
    mask, objective = file["mask"], ISBERT(variant="paper" if relu else "released")

    def loss(h):
        # What the encoder gives is zero at the padding; the release lets it leak.
        states = h if key == "official" else h * mask.unsqueeze(-1)
        tokens = TokenStates(states, mask)
        encoded = states.mean(1).unsqueeze(0)
        found = objective(Views(encoded, encoded, {0: tokens}, {"convolutions": convolutions}))
        own, others = found.values()
        if precision == "f64":
            scalar(-own, file[f"{key}_e_pos_f64"], 1e-10)
            scalar(others, file[f"{key}_e_neg_f64"], 1e-10)
            local = convolutions(tokens)
            vector(local, file[f"{key}_local_f64_as_f32"], 1e-6)
            vector(local.sum(1) / mask.sum(1, keepdim=True), file[f"{key}_global_f64"], 1e-10)
        return own + others

    check(file, f"{key}_", precision, {"h": file["h"]}, loss, rel=BASELINE)
    for kernel, layer in zip(kernels, convolutions.layers, strict=True):
        for name, parameter in layer.named_parameters():
            expected = file.get(f"{key}_grad_conv{kernel}_{name}_{precision}")
            if expected is not None:
                vector(parameter.grad, expected, 1e-8 if precision == "f64" else 1e-5)
