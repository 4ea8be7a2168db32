"""VICReg and the penalty on the covariance: invariances, cases by hand, golden files."""

from __future__ import annotations

import pytest
import torch
from objective_views import random

from isospace.losses import identity_distance, info_nce
from isospace.objectives import (
    CovarianceIdentity,
)
from isospace.views import Views


def test_covariance_penalty_ignores_scale_and_has_the_stated_floor() -> None:
    x = random(40, 6)
    assert identity_distance(7 * x).item() == pytest.approx(identity_distance(x).item())
    few = random(4, 12)
    centred = few - few.mean(0)
    u, _, v = torch.linalg.svd(centred, full_matrices=False)
    isotropic = u[:, :3] @ v[:3]
    assert identity_distance(isotropic).item() == pytest.approx(12 / 3 - 1)
    assert identity_distance(few).item() > 12 / 3 - 1
    assert identity_distance(torch.zeros(4, 3)).item() == 1.0


def test_covariance_identity_penalises_the_encoder_not_the_head() -> None:
    encoded, projected = random(2, 9, 4), random(2, 9, 4, seed=1)
    terms = CovarianceIdentity()(Views(encoded, projected))
    assert terms["info_nce"].item() == pytest.approx(info_nce(*projected, 0.05).item())
    mean = sum(identity_distance(view).item() for view in encoded) / 2
    assert terms["covariance"].item() == pytest.approx(0.01 * mean)
    alone = CovarianceIdentity(contrast_weight=0.0)(Views(encoded, projected))
    assert alone["info_nce"] == 0
    assert alone["covariance"] == terms["covariance"]
