"""Golden files: reference numbers of the authors' code and of the papers' formulas.

The folder is ISOSPACE_GOLDEN (default: ../shared/golden beside the repository); its README states
the layouts and tolerances. `tests/golden` holds small files of the same layouts. Every file whose
name begins like a layout is taken; sizes, seeds and constants come from the file.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from isospace.objectives.base import Objective
from isospace.views import Views

ROOT = Path(__file__).parents[2]
GOLDEN = Path(os.environ.get("ISOSPACE_GOLDEN", ROOT.parent / "shared" / "golden"))
SUBSET = Path(__file__).parents[1] / "golden"
SCALAR = {"f64": 1e-10, "f32": 2e-6}
BASELINE = 5e-6
"""Of a loss in float32 in the folder `baselines`."""
GRADIENT = {"f64": 1e-8, "f32": 1e-5}
DTYPES = {"f64": torch.float64, "f32": torch.float32}


def files(*prefixes):
    """Parametrise over every golden file whose name begins with one of the prefixes."""
    params = [
        pytest.param(path, id=f"{kind}-{path.stem}")
        for kind, folder in (("small", SUBSET), ("golden", GOLDEN))
        for prefix in prefixes
        for path in sorted(folder.rglob(f"{prefix}*.npz"))
    ]
    if not GOLDEN.is_dir():
        reason = f"{GOLDEN} is not there; set ISOSPACE_GOLDEN to the folder of golden files"
        params.append(pytest.param(None, id="golden", marks=pytest.mark.skip(reason=reason)))
    return pytest.mark.parametrize("path", params)


precisions = pytest.mark.parametrize("precision", ["f64", "f32"])


def read(path):
    with np.load(path) as data:
        return {k: torch.as_tensor(v) for k, v in data.items() if v.dtype.kind != "U"}


def leaf(x, precision):
    return x.to(DTYPES[precision], copy=True).requires_grad_()


def scalar(value, expected, rel):
    assert value.item() == pytest.approx(expected.item(), rel=rel, abs=1e-6 if rel > 1e-9 else 0)


def vector(value, expected, rel):
    difference = (value.double() - expected.double()).norm() / expected.double().norm()
    assert difference.item() <= rel


def check(file, key, precision, inputs, loss, *, rel=SCALAR["f32"]):
    """The loss, and the gradient to every input that the file has one for."""
    leaves = {name: leaf(x, precision) for name, x in inputs.items()}
    value = loss(*leaves.values())
    limit = SCALAR["f64"] if precision == "f64" else rel
    scalar(value, file.get(f"{key}loss_{precision}", file[f"{key}loss_f64"]), limit)
    value.backward()
    for name, x in leaves.items():
        check_gradient(file, f"{key}grad_{name}", precision, x)


def check_gradient(file, key, precision, x):
    """The gradient of a leaf, if the file has one for it; some are stored in half the digits."""
    limit = GRADIENT[precision]
    expected = file.get(f"{key}_{precision}", file.get(f"{key}_f64"))
    if expected is None and f"{key}_f64_as_f32" in file:
        expected, limit = file[f"{key}_f64_as_f32"], max(limit, 1e-6)
    if expected is not None:
        assert x.grad is not None
        vector(x.grad, expected, limit)


def golden(*prefixes, rel=BASELINE):
    """Make a test of a function from a file to rows.

    A row is the key of a loss in the file, the names of its inputs, and an objective or a loss.
    """

    def decorate(rows):
        @precisions
        @files(*prefixes)
        def test(path, precision):
            file = read(path)
            checked = 0
            for key, names, loss in rows(file):
                inputs = {name: file[name] for name in names.split()}
                by = partial(total, loss) if isinstance(loss, Objective) else loss
                check(file, key, precision, inputs, by, rel=rel)
                checked += 1
            assert checked

        return test

    return decorate


def total(objective, *projected, **auxiliaries):
    views = torch.stack(projected)
    made = Views(views[: len(objective.views)], views, {}, auxiliaries)
    return torch.stack(list(objective(made).values())).sum()
