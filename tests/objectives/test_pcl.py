"""PCL against loops and against vectors of its authors' code."""

from __future__ import annotations

from golden_files import files, read
from objective_views import random

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
