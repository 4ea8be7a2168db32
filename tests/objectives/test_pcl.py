"""PCL against loops and against vectors of its authors' code."""

from __future__ import annotations

from functools import partial

import torch
from golden_files import BASELINE, check, files, precisions, read
from objective_views import random

from isospace.losses import group_cross_entropy, group_logits, info_nce, softmax_divergence
from isospace.objectives.pcl import PCL
from isospace.views import Views, Vocabulary
from isospace.views.edits import DeleteTokens, InsertTokens, Reverse, Shuffle


def see(views):
    return Views(views, views)


def test_both_networks_see_the_same_edits():
    plan = PCL(copies=1).views
    assert [view.edit for view in plan[:6]] == [view.edit for view in plan[6:]]
    assert {view.by for view in plan[6:]} == {"peer"}
    assert len({view.edit.stream for view in plan if view.edit}) == 4


def test_a_frozen_peer_is_a_constant():
    objective = PCL(copies=1, peer="frozen")
    views = random(12, 4, 5).requires_grad_()
    sum(objective(see(views)).values()).backward()
    reached = views.grad.abs().sum((1, 2)) > 0
    assert reached.tolist() == [True] * 6 + [False] * 6


@precisions
@files("baselines/pcl_loss")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    tau = float(file["temperature"])

    def loss(peer, p, q):
        views = torch.cat([p, q], dim=1).transpose(0, 1)
        return sum(PCL(temperature=tau, peer=peer, variant="released").terms(see(views)).values())

    inputs = {name: file[name] for name in ("p", "q")}
    check(file, "official_", precision, inputs, partial(loss, "trained"), rel=BASELINE)
    check(file, "official_fixed_peer_", precision, inputs, partial(loss, "frozen"), rel=BASELINE)


@precisions
@files("baselines/pcl_terms")
def test_terms_are_the_authors(path, precision):
    file = read(path)
    tau, copies = float(file["temperature"]), int(file["num_copies"])

    def rows(x, y):
        return group_logits(x[:, 0], y.transpose(0, 1), tau)

    def group(x, released):
        return group_cross_entropy(rows(x, x), copies, released=released)

    def contrast(x):
        return info_nce(x[:, 0], x[:, 1], tau)

    def kl_within(p, q):
        return softmax_divergence(rows(p, p), rows(q, q))

    def kl_cross(p, q):
        return softmax_divergence(rows(p, q), rows(q, p))

    both = {name: file[name] for name in ("p", "q")}
    for name, x in both.items():
        check(file, f"infonce_{name}_", precision, {name: x}, contrast, rel=BASELINE)
        code = partial(group, released=True)
        check(file, f"group_bce_{name}_", precision, {name: x}, code, rel=BASELINE)
    probabilities, p = partial(group, released=False), {"p": both["p"]}
    check(file, "variant_bce_on_probabilities_", precision, p, probabilities, rel=BASELINE)
    check(file, "kl_within_", precision, both, kl_within, rel=BASELINE)
    check(file, "kl_cross_", precision, both, kl_cross, rel=BASELINE)


@files("baselines/pcl_views")
def test_edits_are_the_authors(path):
    """Of the recorded draws, in their order."""
    golden = {name: array.numpy() for name, array in read(path).items()}
    vocabulary = Vocabulary(frozenset({101, 102}), None, lambda text: [])
    rate, longest = float(golden["ratio"]), int(golden["max_length"])
    for i, length in enumerate(golden["lengths"]):
        ids = golden["input_ids"][i, :length]
        for name, edit in (
            ("shuffled", Shuffle()),
            ("reversed", Reverse()),
            ("deleted", DeleteTokens(rate=rate)),
            ("repeated", InsertTokens(rate=rate, max_length=longest)),
        ):
            draws = Recorded(golden, i, "deletion" if name == "deleted" else "repetition")
            found = edit(ids, draws, vocabulary)
            expected = golden[name][i]
            assert found.tolist() == expected[: len(found)].tolist()
            assert (expected[len(found) :] == 0).all()
            if f"{name}_attention_mask" in golden:
                assert golden[f"{name}_attention_mask"][i].sum() == len(found)
            assert draws.left(name) == 0


class Recorded:
    """Draws of one sentence as a file has them, in the place of a generator."""

    def __init__(self, golden, sentence, tokens):
        self.order = golden["shuffle_order"][sentence]
        self.tokens = [x for x in golden[f"{tokens}_tokens"][sentence] if x >= 0]
        self.places = [x for x in golden["repetition_positions"][sentence] if x >= 0]

    def permutation(self, n):
        assert (self.order >= 0).sum() == n
        return self.order[:n]

    def choice(self, words):
        token = self.tokens.pop(0)
        assert token in words
        return token

    def integers(self, n):
        assert self.places[0] < n
        return self.places.pop(0)

    def left(self, edit):
        """How many draws of this edit were not asked for."""
        counts = {"deleted": self.tokens, "repeated": self.tokens + self.places}
        return len(counts.get(edit, []))
