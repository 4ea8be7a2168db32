"""The loss of words is that of all their logits, and so are its gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isospace.objectives import decoders
from isospace.objectives.decoders import word_loss

TOKENS, WORDS, DIM = 7, 11, 5


def drawn() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, words, bias, labels; a word is asked for twice, and the last one too."""
    random = torch.Generator().manual_seed(0)
    shapes = (TOKENS, DIM), (WORDS, DIM), (WORDS,)
    parts = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    states, words, bias = (part.requires_grad_() for part in parts)
    return states, words, bias, torch.tensor([3, 3, 0, WORDS - 1, 5, 2, 1])


@pytest.fixture(params=[1, 3, TOKENS, 100])
def at_once(request, monkeypatch):
    """So many tokens."""
    monkeypatch.setattr(decoders, "_LOGITS", request.param * WORDS)
    return request.param


def test_it_is_the_cross_entropy_of_all_logits(at_once):
    states, words, bias, labels = drawn()
    wanted = torch.nn.functional.cross_entropy(states @ words.T + bias, labels, reduction="sum")
    found = word_loss(states, words, bias, labels)
    torch.testing.assert_close(found, wanted)
    leaves = states, words, bias
    for own, theirs in zip(
        torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * wanted, leaves), strict=True
    ):
        torch.testing.assert_close(own, theirs)


@pytest.mark.parametrize("trained", [0, 1, 2])
def test_only_what_is_trained_has_a_gradient(trained):
    *leaves, labels = drawn()
    for number, leaf in enumerate(leaves):
        leaf.requires_grad_(number == trained)
    word_loss(*leaves, labels).backward()
    assert [leaf.grad is not None for leaf in leaves] == [n == trained for n in range(3)]


def test_logits_that_overflow_are_finite():
    states, words, bias, labels = (x.detach().float() for x in drawn())
    states = (states * 1e4).requires_grad_()
    found = word_loss(states, words, bias, labels.long())
    found.backward()
    assert found.isfinite()
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_no_token_has_no_loss():
    states, words, bias, labels = drawn()
    found = word_loss(states[:0], words, bias, labels[:0])
    found.backward()
    assert found.detach() == 0
    assert words.grad is not None
    assert not words.grad.any()
