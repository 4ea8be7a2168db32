"""The flow of BERT-flow: the released code's numbers, its Jacobian, dense layers, its fit."""

import math

import pytest
import torch
from golden_files import DTYPES, files, leaf, precisions, read, scalar, vector
from objective_views import random

from isospace.operators.flow import Flow, _BertAdam, fit_flow

LIMIT = {"f64": 1e-10, "f32": 2e-5}


def key(file, parameter):
    """What a file calls a parameter: L0S1_nn1_W for steps.1.nn1.W."""
    _, step, layer, part = parameter.split(".")
    level, place = divmod(int(step), int(file["depth"]))
    return f"L{level}S{place}_{layer}_{part}"


def flow_of(file, precision):
    """The flow of a file's sizes, with those of its parameters that the file has."""
    flow = Flow(*(int(file[name]) for name in ("dim", "levels", "depth", "width")))
    for name, parameter in flow.named_parameters():
        recorded = file.get(key(file, name))
        if recorded is not None:
            parameter.data.copy_(recorded)
    return flow.to(DTYPES[precision])


@files("bert_flow_init")
@precisions
@pytest.mark.parametrize("case", ["init", "ddi"])
def test_initialisation_matches_the_released_code(path, precision, case):
    file = read(path)
    flow = flow_of(file, precision)
    if case == "init":  # the last layers are zero, as released
        for name, parameter in flow.named_parameters():
            if ".out." in name:
                parameter.data.zero_()
    flow.initialise(file["x_init"].to(DTYPES[precision]))
    compared = 0
    for name, parameter in flow.named_parameters():
        expected = file.get(f"{case}_{key(file, name)}_f64")
        if expected is not None:
            limit = 1e-10 if precision == "f64" else 2e-6
            torch.testing.assert_close(parameter.double(), expected, rtol=0, atol=limit)
            compared += 1
    assert compared >= 2 * int(file["levels"]) * int(file["depth"])
    for batch in ("x_init", "x"):
        x = file[batch].to(DTYPES[precision])
        near(flow(x), file[f"{case}_z_{batch}_f64"], precision)
        near(flow.bits_per_dim(x), file[f"{case}_bpd_{batch}_f64"], precision)
    near(flow.log_determinant(), file[f"{case}_logdet_f64"], precision)


def near(value, expected, precision):
    torch.testing.assert_close(value.double(), expected, rtol=0, atol=LIMIT[precision])


GENERAL = [path for path in files("bert_flow").args[1] if "init" not in str(path.id)]


@pytest.mark.parametrize("path", GENERAL)
@precisions
def test_values_and_gradients_match_the_released_code(path, precision):
    file = read(path)
    flow = flow_of(file, precision)
    x = leaf(file["x"], precision)
    near(flow(x), file["z_f64"], precision)
    bits = flow.bits_per_dim(x)
    near(bits, file["bpd_f64"], precision)
    near(flow.log_determinant(), file["logdet_f64"], precision)
    scalar(bits.mean(), file["loss_f64"], 1e-10 if precision == "f64" else 5e-6)
    bits.mean().backward()
    limit = 1e-8 if precision == "f64" else 1e-5
    vector(x.grad, file["grad_x_f64"], limit)
    compared = 0
    for name, parameter in flow.named_parameters():
        expected = file.get(f"grad_{key(file, name)}_f64")
        if expected is not None:
            vector(parameter.grad, expected, limit)
            compared += 1
    assert compared == sum(name.startswith("grad_L") for name in file)


@pytest.mark.parametrize(("dim", "levels"), [(8, 1), (16, 2), (16, 3)])
def test_dense_layers_with_relu_between_them_are_the_same_map(dim, levels):
    flow, x = Flow(dim, levels=levels, depth=2, width=5).double(), 3 * random(20, dim)
    for i, parameter in enumerate(flow.parameters()):
        parameter.data += 0.3 * random(*parameter.shape, seed=i)
    layers = flow.dense_layers()
    h = x
    for weight, bias in layers[:-1]:
        h = torch.relu(h @ weight.T + bias)
    weight, bias = layers[-1]
    torch.testing.assert_close(h @ weight.T + bias, flow(x), rtol=0, atol=1e-10)
    assert len(layers) == 2 * 2 * levels + 1


def test_a_width_that_cannot_be_halved_is_refused():
    with pytest.raises(ValueError, match="multiple of 8 dimensions; got 12"):
        Flow(12)


def bent(n=2000, seed=0):
    """Eight columns: four normal ones, and four that are their squares and a little noise."""
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    x[:, 4:] = x[:, :4].square() + 0.1 * x[:, 4:]
    return 3 * x + 5


def test_fitting_raises_the_likelihood_of_new_vectors_above_that_of_scaling_alone():
    x, new = bent(16_000), bent(500, seed=1).double()
    scaled = Flow(8).double()
    scaled.initialise(x.double())
    assert fit_flow(x).bits_per_dim(new).mean() < scaled.bits_per_dim(new).mean() - 0.3


def test_a_constant_coordinate_stays_near_zero_and_does_not_stop_the_others():
    """As three of all-MiniLM-L6-v2: one is 1, up to float32's rounding, the other is 0."""
    x, new = bent(16_000), bent(500, seed=1)
    for rows in (x, new):
        rows[:, 2] = 1 + 1e-8 * rows[:, 2]
        rows[:, 6] = 0
    fitted = fit_flow(x)
    z = fitted(new.double())
    quiet = z.std(0) < 0.3
    assert quiet.sum() == 2
    assert z[:, quiet].abs().max() < 1
    assert fitted.steps[0].out.W.abs().max() > 0.02  # it has learned


def test_the_first_epoch_begins_from_scaled_vectors():
    """One update of 0.001 a parameter: still nearly mean 0 and deviation 1."""
    x = bent(64)
    z = fit_flow(x)(x.double())
    assert z.mean(0).abs().max() < 0.1
    assert (z.std(0, correction=0) - 1).abs().max() < 0.1


def test_no_generator_of_others_decides_and_every_vector_is_reported_once():
    x, done = bent(150), list[int]()
    state = torch.get_rng_state()
    one = fit_flow(x, done.append)(x.double())
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(5)
    torch.testing.assert_close(fit_flow(x)(x.double()), one, rtol=0, atol=0)
    assert done == [64, 64, 22]


@pytest.mark.parametrize("x", [torch.ones(5, 8), torch.full((5, 8), math.nan)])
def test_vectors_that_nothing_can_be_fitted_to_are_refused(x):
    with pytest.raises(ValueError, match=r"two or more different|NaN or infinity"):
        fit_flow(x)


def test_berts_adam_is_neither_corrected_nor_spared_its_decay():
    """Gradients of (3, 4) and (0.3, 0.4): the first is cut to length 1."""
    w = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    adam = _BertAdam([w])
    expected, m, v = [1.0, -2.0], [0.0, 0.0], [0.0, 0.0]
    for gradient, cut in (([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        adam.step()
        for i, g in enumerate(cut):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            expected[i] -= 1e-3 * (m[i] / (math.sqrt(v[i]) + 1e-6) + 0.01 * expected[i])
    assert w.tolist() == pytest.approx(expected, rel=1e-6)
