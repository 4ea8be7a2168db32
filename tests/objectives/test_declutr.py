"""DeCLUTR against loops, invariants and vectors of its authors' code."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from golden_files import files, read
from objective_views import random
from torch import nn

from isospace.losses import nt_xent
from isospace.objectives.declutr import DeCLUTR, Sampling, Span
from isospace.objectives.decoders import MaskedHead
from isospace.views import NO_TARGET, TokenIds, TokenStates, Views, Vocabulary

VOCABULARY = Vocabulary(frozenset({1, 2}), 3, lambda text: [], size=1000)


def test_anchors_of_all_documents_are_contrasted_with_the_mean_of_their_positives():
    encoded = random(6, 3, 5)
    found = DeCLUTR(mlm_weight=0.0)(Views(encoded, encoded))
    positives = torch.cat([encoded[2:4].mean(0), encoded[4:6].mean(0)])
    expected = nt_xent(torch.cat([encoded[0], encoded[1]]), positives, 0.05)
    assert found["nt_xent"].item() == pytest.approx(expected.item())


def test_spans_keep_their_distances():
    sampling = Sampling(3, 2, 4, 16)
    for seed in range(300):
        n = sampling.needs + seed % 60
        anchors, positives = sampling.draw(n, np.random.default_rng(seed))
        starts = sorted(anchor.start // 16 for anchor in anchors)
        assert all(b - a >= 2 for a, b in pairwise(starts))
        for anchor, near in zip(anchors, positives, strict=True):
            for span in (anchor, *near):
                assert 0 <= span.start < span.stop <= n
                assert 4 <= span.stop - span.start < 16
                assert span.start <= anchor.stop
                assert span.stop >= anchor.start


def test_views_of_a_document_are_pieces_of_one_draw():
    ids = np.array([1, *range(100, 200), 2])
    views = DeCLUTR(min_span=4, max_span=16, mlm_weight=0.0).views
    made = [view.edit(ids, np.random.default_rng(5), VOCABULARY) for view in views]
    anchors, positives = views[0].edit.sampling.draw(100, np.random.default_rng(5))
    for piece, span in zip(made, [*anchors, *positives[0], *positives[1]], strict=True):
        assert piece.tolist() == [1, *range(100 + span.start, 100 + span.stop), 2]


def test_masked_tokens_are_what_is_to_be_guessed():
    ids = np.array([1, *range(10, 910), 2])
    plain = Span(sampling=Sampling(1, 1, 400, 450))
    spans = [plain, replace(plain, masked=0.15), replace(plain, masked=0.15, targets=True)]
    counts = np.zeros(4)
    for i in range(40):
        plain, masked, targets = (span(ids, np.random.default_rng(i), VOCABULARY) for span in spans)
        wanted = targets != NO_TARGET
        assert np.array_equal(targets[wanted], plain[wanted])
        assert np.array_equal(masked[~wanted], plain[~wanted])
        now = masked[wanted]
        counts += [wanted.sum(), (now == 3).sum(), (now == plain[wanted]).sum(), len(plain) - 2]
    guessed, hidden, kept, tokens = counts
    assert guessed / tokens == pytest.approx(0.15, abs=0.01)
    assert hidden / guessed == pytest.approx(0.8, abs=0.03)
    assert kept / guessed == pytest.approx(0.1, abs=0.03)


def test_masked_head_is_the_mean_over_what_is_to_be_guessed():
    states = random(2, 3, 6).float()
    targets = torch.tensor([[NO_TARGET, 4, NO_TARGET], [2, NO_TARGET, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])  # a place that is padded asks for nothing
    with torch.random.fork_rng():
        head = MaskedHead(words := nn.Embedding(9, 6), 6)
    hidden = nn.functional.layer_norm(nn.functional.gelu(states[[0, 1], [1, 0]]), (6,))
    expected = nn.functional.cross_entropy(hidden @ words.weight.T, torch.tensor([4, 2]))
    found = head.loss([TokenStates(states, mask)], [TokenIds(targets, mask)])
    torch.testing.assert_close(found, expected)
    assert len(list(head.parameters())) == 5  # and not the words


class Recorded:
    """A generator that gives what was recorded, and sees that it was asked for just that."""

    def __init__(self, script):
        self.script = list(script)

    def _next(self, *asked):
        *expected, value = self.script.pop(0)
        assert list(asked) == expected
        return value

    def beta(self, a, b):
        return self._next("beta", a, b)

    def integers(self, *bounds):
        return self._next("integers", *bounds)


@files("baselines/declutr_spans")
def test_spans_are_the_authors(path):
    golden = {name: array.numpy() for name, array in read(path).items()}
    names = ("num_anchors", "num_positives", "min_span_len", "max_span_len")
    shape = tuple(int(golden[name]) for name in names)
    for case, n in enumerate(golden["num_tokens"]):
        file = {name: array[case] for name, array in golden.items() if array.ndim}
        if file["strategy"]:  # positives within the anchor, or beside it
            continue
        script = []
        for i in range(shape[0]):
            blocks = file["blocks"][i][file["blocks"][i] >= 0]
            place, count = int(file["block_index"][i]), len(blocks)
            if file["block_from_ends"][i]:
                ends = sorted({0, count - 1})
                place, count = ends.index(place), len(ends)
            bounds = (int(file["anchor_low"][i]), int(file["anchor_high"][i]))
            script += [
                ("beta", 4, 2, file["anchor_beta"][i]),
                ("integers", count, place),
                ("integers", *bounds, file["anchor_start"][i]),
            ]
        for i in range(shape[0]):
            for p in range(shape[1]):
                start = int(file["positive_start"][i, p])
                script.append(("beta", 2, 4, file["positive_beta"][i, p]))
                low, high = (int(file[f"positive_{end}"][i, p]) for end in ("low", "high"))
                script.append(("integers", low, high, start))
        random = Recorded(script)
        anchors, positives = Sampling(*shape).draw(int(n), random)
        assert random.script == []
        for kind, found in (("anchor", anchors), ("positive", positives)):
            flat = found if kind == "anchor" else [span for near in found for span in near]
            assert [s.start for s in flat] == file[f"{kind}_start"].flatten().tolist()
            assert [s.stop - s.start for s in flat] == file[f"{kind}_len"].flatten().tolist()
