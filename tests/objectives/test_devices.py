"""Every objective trains on another device than the CPU: no step mixes tensors of the two."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from loops import CONFIG, SETTINGS, make_loop, of_each_kind, small, views_of
from objective_views import choices, random
from second_device import AWAY, HOME, OneDevice
from toy import write_toy_model

from isospace.encoders import fast
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES
from isospace.objectives.auxiliaries import Draws
from isospace.operators.fitted_whitening import Moments, Whitening
from isospace.operators.flow import fit_flow
from isospace.operators.whitening import whiten
from isospace.training import checkpoint
from isospace.training.step import loss_terms

FURTHER = {
    "diffcse": [{"generator": None}, {"generator": None, "variant": "paper"}],
    "rankcse": [{"clean_negatives": True, "own_text": "out"}],
    "vicreg": [{"contrast_weight": 1.0}],
    "whitenedcse": [{"whitening": "group", "groups": 4}],
}
"""Options beside each choice alone, which `choices` finds by itself."""


@pytest.fixture
def away(monkeypatch):
    """The other device, where Accelerate puts what is trained; no fast path serves there."""
    monkeypatch.setattr(Accelerator, "device", AWAY)
    monkeypatch.setattr(fast, "fits", lambda _model: False)
    # Parameters are replaced, and not filled; what `torch.tensor` makes is moved like any other.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with OneDevice():
            yield AWAY
    finally:
        torch._C._set_only_lift_cpu_tensors(False)
        torch.__future__.set_overwrite_module_params_on_conversion(False)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """One layer, with a head for masked words."""
    folder = tmp_path_factory.mktemp("small")
    return write_toy_model(folder, masked_words=True, num_hidden_layers=1)


def require_away(loop):
    """The terms of a batch, all gradients, and all that is kept are on the other device."""
    terms = loss_terms(loop.training, views_of(loop, 0))
    assert {term.device for term in terms.values()} == {AWAY}
    torch.stack(list(terms.values())).sum().backward()
    parts = [*loop.training.encoder.parameters(), *loop.training.modules.parameters()]
    gradients = [part.grad for part in parts if part.grad is not None]
    assert {part.device for part in (*parts, *loop.training.modules.buffers())} == {AWAY}
    assert {gradient.device for gradient in gradients} == {AWAY}


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("name", of_each_kind())
def test_training(name, small_model, tmp_path):
    """An update, what auxiliaries remember of it, and a checkpoint."""
    config = replace(CONFIG, **{"objective": small(name), **SETTINGS.get(name, {})})
    loop = make_loop(small_model, tmp_path, config, steps=1)
    assert len(list(loop)) == 1
    checkpoint.save(tmp_path / "state", loop.state())
    loop.load_state(checkpoint.load(tmp_path / "state"))
    require_away(loop)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_options(name, small_model, tmp_path):
    for option in [*choices(name), *FURTHER.get(name, [])]:
        try:
            config = replace(CONFIG, objective=replace(small(name), **option))
        except UserError:  # of a setting that has no effect without another one
            continue
        require_away(make_loop(small_model, tmp_path, config))


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("method", ["zca", "pca"])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("rows", [5, 20])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_whitening_of_batches(method, groups, rows, stop_gradient):
    options = {"groups": groups, "method": method, "stop_gradient": stop_gradient}
    order = torch.randperm(8)  # as heads draw it, on the CPU
    x = random(2, rows, 8).to(AWAY).requires_grad_()
    made = whiten(x, permutation=order, eps=0.0, **options)
    made.square().sum().backward()
    assert x.grad is not None
    assert made.device == x.grad.device == AWAY


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("whitening", [Whitening(), Whitening("zca")], ids=str)
def test_fitted_whitening(whitening):
    x = random(20, 8).to(AWAY)
    moments = Moments.from_vectors(x[:9]) + Moments.from_vectors(x[9:])
    assert whitening.fit(moments, 0.5)(x).device == AWAY


@pytest.mark.usefixtures("away")
def test_a_flow_is_fitted_there_and_comes_back():
    x = random(80, 16).float()
    x[:, 3] = 1.0
    flow = fit_flow(x.to(AWAY))
    assert {p.device for p in flow.parameters()} == {HOME}
    layers = flow.to(AWAY).dense_layers()
    assert {part.device for layer in layers for part in layer} == {AWAY}


def test_draws_leave_the_generator_of_a_gpu_as_it_was(monkeypatch):
    forked, seeded = [], []
    fork = torch.random.fork_rng
    monkeypatch.setattr(
        torch.random, "fork_rng", lambda devices: forked.append(devices) or fork([])
    )
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    gpu, draws = torch.device("cuda", 0), Draws(0)
    for device in (HOME, gpu):
        with draws.own_draws(device):
            assert len(seeded) == (device == gpu)
    assert forked == [[], [gpu]]
