"""The loss of words is that of all their logits, and so are its gradients."""

import pytest
import torch

from isospace.objectives import decoders
from isospace.objectives.decoders import word_loss

TOKENS, WORDS, DIM = 7, 11, 5


def drawn(dtype=torch.float64, scale=1.0):
    """States, words and bias; and labels, of which one is asked for twice, and the last one too."""
    random = torch.Generator().manual_seed(0)
    shapes = (TOKENS, DIM), (WORDS, DIM), (WORDS,)
    states, words, bias = (torch.randn(s, generator=random, dtype=dtype) for s in shapes)
    leaves = tuple(part.requires_grad_() for part in (states * scale, words, bias))
    return leaves, torch.tensor([3, 3, 0, WORDS - 1, 5, 2, 1])


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_it_is_the_cross_entropy_of_all_logits(at_once, monkeypatch):
    monkeypatch.setattr(decoders, "_LOGITS", at_once * WORDS)
    leaves, labels = drawn()
    states, words, bias = leaves
    wanted = torch.nn.functional.cross_entropy(states @ words.T + bias, labels, reduction="sum")
    found = word_loss(*leaves, labels)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * wanted, leaves)
    )


def test_no_logits_are_kept_for_the_backward_pass(monkeypatch):
    monkeypatch.setattr(decoders, "_LOGITS", WORDS)
    leaves, labels = drawn()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
        word_loss(*leaves, labels)
    assert kept
    assert all(shape[-1:] != (WORDS,) for shape in kept if len(shape) == 2)


@pytest.mark.parametrize("trained", [0, 1, 2])
def test_only_what_is_trained_has_a_gradient(trained):
    leaves, labels = drawn()
    for number, leaf in enumerate(leaves):
        leaf.requires_grad_(number == trained)
    word_loss(*leaves, labels).backward()
    assert [leaf.grad is not None for leaf in leaves] == [n == trained for n in range(3)]


def test_logits_that_overflow_are_finite_and_no_token_has_no_loss():
    leaves, labels = drawn(torch.float32, scale=1e4)
    found = word_loss(*leaves, labels)
    assert found.isfinite()
    assert torch.autograd.grad(found, leaves[0])[0].isfinite().all()
    nothing = word_loss(leaves[0][:0], *leaves[1:], labels[:0])
    assert nothing == 0
    assert not torch.autograd.grad(nothing, leaves[1])[0].any()
