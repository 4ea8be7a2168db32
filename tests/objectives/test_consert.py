"""ConSERT against a loop and against vectors of its authors' code."""

from __future__ import annotations

import numpy as np
import torch
from golden_files import files, read, scalar

from isospace.encoders.modules import pooling_modules
from isospace.views.edits import CutOff, ShuffledPositions


class Recorded:
    """A generator whose one permutation was recorded."""

    def __init__(self, order):
        self.order = order

    def permutation(self, size):
        assert sorted(self.order) == list(range(size))
        return self.order


@files("baselines/consert_views")
def test_changes_are_the_authors(path):
    golden = {name: array.numpy() for name, array in read(path).items()}
    dim = golden["embeddings"].shape[2]
    for i, (embedded, mask) in enumerate(zip(golden["embeddings"], golden["mask"], strict=True)):
        n = int(mask.sum())
        for name, size in (("feature", dim), ("token", n)):
            edit = CutOff(f"{name}s", float(golden[f"{name}_rate"]))
            kept = edit.kept(n, dim, Recorded(golden[f"{name}_order"][i][:size]))
            expected = golden[f"{name}_cutoff_f32"][i]
            assert np.array_equal(embedded[:n] * kept, expected[:n])
        kept = CutOff("elements", float(golden["element_rate"])).kept(
            n, dim, np.random.default_rng(0)
        )
        assert (~kept).sum() == golden["element_cut"][i].sum()
        places = ShuffledPositions().positions(n, Recorded(golden["shuffle_order"][i][:n]))
        assert np.array_equal(places, golden["position_ids_shuffled"][i][:n])


@files("baselines/consert_views")
def test_the_papers_pooling_is_the_mean_of_two_layers(path):
    file = read(path)
    layers = (file["last_but_one_layer"].double(), file["last_layer"].double())
    features = {"all_layer_embeddings": layers, "attention_mask": file["mask"]}
    for module in pooling_modules("last2", layers[0].shape[-1], 1):
        features = module(features)
    found = features["sentence_embedding"]
    assert torch.allclose(found, file["mean_last_2_f64"], rtol=0, atol=1e-10)
    scalar(found.sum(), file["mean_last_2_f64"].sum(), 1e-9)
