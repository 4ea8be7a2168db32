"""CT against loops and against vectors of its authors' code."""

from __future__ import annotations

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read
from torch import nn

from isospace.losses import contrastive_tension, pair_layout
from isospace.objectives.auxiliaries import Network
from isospace.objectives.ct import CT, CTInBatch
from isospace.views import Views


def see(objective, a, b):
    auxiliaries = objective.build_auxiliaries(nn.Linear(1, 1), 0)
    encoded = torch.stack([a, b])
    return Views(encoded, encoded, {}, {k: c.to(a.dtype) for k, c in auxiliaries.items()})


def test_towers_start_equal_and_both_train():
    encoder = nn.Linear(3, 3)
    tower = CT().build_auxiliaries(encoder, 0)["second"]
    assert isinstance(tower, Network)
    assert torch.equal(tower.encoder.weight, encoder.weight)
    assert tower.encoder.weight.requires_grad


@files("baselines/ct_pairs")
def test_pairs_are_the_authors(path):
    file = read(path)
    positives, k = file["positive_draws"], int(file["num_negatives"])
    draws = file["negative_draws"].view(len(positives), 2, k)
    for with_positive, key in ((False, "official"), (True, "paper")):
        first, second, labels = pair_layout(positives, draws, with_positive=with_positive)
        assert first.tolist() == file[f"{key}_first"].tolist()
        assert second.tolist() == file[f"{key}_second"].tolist()
        assert labels.tolist() == file["official_labels"].tolist()


@precisions
@files("baselines/ct_loss")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    inputs = {name: file[name] for name in ("a", "b")}
    labels = file["labels"]
    for key, reduce in (("official_", torch.mean), ("official_sum_", torch.sum)):

        def loss(a, b, reduce=reduce):
            return reduce(contrastive_tension(a, b, labels))

        check(file, key, precision, inputs, loss, rel=BASELINE)
    losses = contrastive_tension(*(x.double() for x in inputs.values()), labels)
    for label, name in ((1, "positive"), (0, "negative")):
        expected = float(file[f"official_{name}_sum_f64"])
        assert float(losses[labels == label].sum()) == pytest.approx(expected, rel=1e-10)


@precisions
@files("baselines/ct_inbatch")
def test_in_batch_loss_is_the_authors(path, precision):
    file = read(path)

    def loss(a, b, log_scale):
        views = Views(torch.stack([a, b]), torch.stack([a, b]), {}, {"scale": {"log": log_scale}})
        return sum(CTInBatch()(views).values())

    inputs = {name: file[name] for name in ("a", "b", "log_scale")}
    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    objective = CTInBatch(scale=float(file["log_scale"].double().exp()))
    terms = objective(see(objective, *(file[name].double() for name in ("a", "b"))))
    for name, key in zip(terms, ("a_to_b", "b_to_a"), strict=True):
        if f"official_loss_{key}_f64" in file:
            expected = float(file[f"official_loss_{key}_f64"]) / 2
            assert terms[name].item() == pytest.approx(expected, rel=1e-6)
