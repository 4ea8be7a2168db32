"""Every objective trains on another device than the CPU: no step mixes tensors of the two.

The second device, `AWAY`, says it is cpu:1. PyTorch's own fake tensors abort the process where one
of "cuda" has a gradient and PyTorch is built without CUDA. So `Away` is a tensor of the CPU that
says it lies elsewhere, and `OneDevice` refuses what CUDA refuses. The numbers are real, so that
what depends on them (masks, queues, `int`) runs as it does.
"""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from loops import CONFIG, SETTINGS, make_loop, of_each_kind, small, views_of
from objective_views import choices, random
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
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

AWAY, HOME = torch.device("cpu", 1), torch.device("cpu")
aten = torch.ops.aten
MOVES = {aten._to_copy.default, aten.copy_.default}
BY_INDICES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
"""Their indices may lie on the CPU, and a single value for them too."""


class Away(Tensor):
    """A tensor of the CPU, `held`, that says it is on the other device."""

    @staticmethod
    def __new__(cls, held):
        shape, strides = held.shape, held.stride()
        made = Tensor._make_wrapper_subclass(
            cls, shape, strides, held.storage_offset(), dtype=held.dtype, device=AWAY
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function, *_):
        raise AssertionError(f"{function} outside of the mode")

    def tolist(self):
        return self.held.tolist()

    def __reduce_ex__(self, protocol):
        """A checkpoint is read onto the CPU."""
        return self.held.__reduce_ex__(protocol)


class OneDevice(TorchDispatchMode):
    """Runs everything on the CPU, and raises where tensors or a generator lie on the other one."""

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        parts = tree_leaves((args, kwargs))
        there = any(isinstance(part, Away) for part in parts)
        if there and function not in MOVES:
            require_one_device(function, args, parts)
        if kwargs.get("device") is not None:
            there, kwargs["device"] = torch.device(kwargs["device"]) == AWAY, HOME
        elif function is aten.copy_.default:
            there = isinstance(args[0], Away)
        if there and any(isinstance(part, torch.Generator) for part in parts):
            raise RuntimeError(f"{function}: a generator of the CPU for a tensor of {AWAY}")
        if torch.Tag.inplace_view in function.tags:  # what the tensor itself says of its shape
            with no_dispatch():
                function(*args, **kwargs)
        args, kwargs = tree_map(lambda x: x.held if isinstance(x, Away) else x, (args, kwargs))
        with _disable_current_modes():
            made = function(*args, **kwargs)
        return tree_map(lambda x: Away(x) if there and isinstance(x, Tensor) else x, made)


def require_one_device(function, args, parts):
    """What CUDA asks for: single numbers alone may lie on the CPU, where it goes cell by cell."""
    counted = [part for part in parts if isinstance(part, Tensor)]
    if function in BY_INDICES:
        counted = [part for part in (args[0], *args[2:3]) if part.dim()]
    elif torch.Tag.pointwise in function.tags:
        written = args[0] if function._schema.is_mutable else None
        counted = [part for part in counted if part.dim() or part is written]
    if not all(isinstance(part, Away) for part in counted):
        found = [f"{part.device} {tuple(part.shape)}" for part in counted]
        raise RuntimeError(f"{function}: expected all tensors on one device; got {found}")


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
    return write_toy_model(tmp_path_factory.mktemp("small"), masked_words=True, num_hidden_layers=1)


def require_away(loop):
    """The terms of a batch, all gradients, and all that is kept are on the other device."""
    terms = loss_terms(loop.training.config.objective, views_of(loop, 0))
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
    order = torch.stack([torch.randperm(8) for _ in range(2)])  # as heads draw it, on the CPU
    x = random(2, rows, 8).to(AWAY).requires_grad_()
    made = whiten(x, permutation=order, eps=0.0, **options)
    made.square().sum().backward()
    assert made.device == x.grad.device == AWAY


@pytest.mark.usefixtures("away")
def test_fitted_whitening():
    x = random(20, 8).to(AWAY)
    assert Whitening().fit(Moments.from_vectors(x), 0.5)(x).device == AWAY


@pytest.mark.usefixtures("away")
def test_a_flow_is_fitted_there_and_comes_back():
    x = random(80, 16).float()
    x[:, 3] = 1.0
    flow = fit_flow(x.to(AWAY))
    assert {p.device for p in flow.parameters()} == {HOME}
    assert {part.device for layer in flow.to(AWAY).dense_layers() for part in layer} == {AWAY}


def test_draws_leave_the_generator_of_a_gpu_as_it_was(monkeypatch):
    forked, seeded = [], []
    fork = torch.random.fork_rng
    monkeypatch.setattr(torch.random, "fork_rng", lambda given: forked.append(given) or fork([]))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    gpu, draws = torch.device("cuda", 0), Draws(0)
    for device in (HOME, gpu):
        with draws.own_draws(device):
            assert len(seeded) == (device == gpu)
    assert forked == [[], [gpu]]
