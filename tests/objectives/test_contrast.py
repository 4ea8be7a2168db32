"""Overlays equal the papers' own objectives, whatever plan they wrap."""

import math
from dataclasses import fields

import pytest
import torch
from objective_views import random

from isospace.objectives import DCL, OBJECTIVES, ESimCSE, Iso, OffDropout, SimCSE, SimCSEPP
from isospace.objectives.auxiliaries import Queue
from isospace.objectives.contrast import Contrast
from isospace.objectives.heads import GroupWhitening
from isospace.views import View, Views

BOTH = {"clean_negatives": True, "dimension_weight": 0.1}
ROWS = {name: kind for name, kind in OBJECTIVES.items() if issubclass(kind, Contrast)}


def terms(objective, encoded):
    head = objective.build_head(encoded.shape[-1], 0).double()
    return {name: t.item() for name, t in objective(Views(encoded, head(encoded))).items()}


@pytest.mark.parametrize(
    ("laid_over", "row"),
    [
        ({"clean_negatives": True}, OffDropout(m=1.0)),
        ({"dimension_weight": 0.1}, DCL()),
        (BOTH, SimCSEPP(m=1.0)),
        ({**BOTH, "dimension_temperature": 2.0}, SimCSEPP(m=1.0, dimension_temperature=2.0)),
    ],
)
@pytest.mark.parametrize("head", ["mlp", "none"])
def test_over_simcse_they_are_the_rows_of_simcsepp(laid_over, row, head):
    row = type(row)(**{**row.to_json(), "head": head})
    objective = SimCSE(**laid_over, head=head)
    assert objective.views == row.views
    encoded = random(len(row.views), 7, 6)
    assert terms(objective, encoded) == pytest.approx(terms(row, encoded), rel=1e-12)


@pytest.mark.parametrize("head", ["mlp", "none"])
def test_iso_is_simcse_with_all_that_can_be_laid_over(head):
    objective = SimCSE(**BOTH, group_whitening=True, temperature=0.15, head=head)
    encoded = random(3, 9, 6)
    assert terms(objective, encoded) == terms(Iso(head=head), encoded)
    plain = Iso(clean_negatives=False, dimension_weight=0.0, group_whitening=False, head=head)
    simcse = SimCSE(temperature=0.15, head=head)
    assert terms(plain, encoded[:2]) == pytest.approx(terms(simcse, encoded[:2]), rel=1e-12)


def test_further_negatives_stay():
    encoded = random(4, 5, 6)
    queue = Queue(3, 6, view=2).double()
    queue.push(random(3, 6, seed=1))
    objective = ESimCSE(clean_negatives=True, head="none")
    assert objective.views[-1] == View(dropout=0.0)
    [loss] = objective(Views(encoded, encoded, {}, {"queue": queue})).values()
    z1, z2, _, clean = torch.nn.functional.normalize(encoded, dim=-1)
    rows = torch.nn.functional.normalize(queue.rows, dim=-1)
    expected = 0.0
    for i in range(5):
        row = [float(clean[i] @ clean[j]) / 0.05 for j in range(5)]
        row[i] = float(z1[i] @ z2[i]) / 0.05
        row += [float(z1[i] @ q) / 0.05 for q in rows]
        expected += math.log(sum(map(math.exp, row))) - row[i]
    assert loss.item() == pytest.approx(expected / 5)


@pytest.mark.parametrize("name", ROWS)
def test_every_such_row_tells_what_is_laid_over_it(name):
    off = {"clean_negatives": False, "dimension_weight": 0.0, "group_whitening": False}
    plain = ROWS[name](**off)
    objective = ROWS[name](**BOTH, group_whitening=True)
    assert objective.views == (*plain.views, View(dropout=0.0))
    assert isinstance(objective.build_head(8, 0)[0], GroupWhitening)
    assert {f.name for f in fields(Contrast)} <= {f.name for f in fields(ROWS[name])}
