"""CT against loops and against vectors of its authors' code."""

from __future__ import annotations

import torch
from golden_files import files, read
from torch import nn

from isospace.losses import pair_layout
from isospace.objectives.auxiliaries import Network
from isospace.objectives.ct import CT


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
