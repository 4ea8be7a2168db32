"""Cross-entropy over a vocabulary without all logits in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LOGITS = 1 << 24
"""Number of logits in memory: 64 MB in float32. A batch of 64 passages has 100 million or more."""


def word_loss(states: Tensor, words: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    r"""Return the negative log-likelihood of the labels, summed over tokens.

    $$-\sum_t \log \mathrm{softmax}(W h_t + b)_{y_t}$$

    $h$ (`states`) is (token, dim), $W$ (`words`) is (word, dim), $b$ (`bias`) is (word,), and $y$
    (`labels`) is (token,). The result is a scalar, 0 without tokens, and can be differentiated
    once.

    Logits are computed for a slice of tokens at a time, together with their gradients. So none is
    kept for the backward pass or computed twice.
    """
    apply: Callable[..., Tensor] = _WordLoss.apply
    return apply(states, words, bias, labels)


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, words: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
        total = states.new_zeros(())
        gradients = [
            torch.zeros_like(x) if wanted else None
            for x, wanted in zip((states, words, bias), ctx.needs_input_grad, strict=False)
        ]
        of_states, of_words, of_bias = gradients
        step = max(1, _LOGITS // len(words))
        for start in range(0, len(states), step):
            part = slice(start, start + step)
            own, right = states[part], labels[part, None]
            logits = torch.addmm(bias, own, words.T)
            whole = logits.logsumexp(dim=1, keepdim=True)
            total += (whole - logits.gather(1, right)).sum()
            shares = logits.sub_(whole).exp_()
            shares.scatter_add_(1, right, shares.new_full(right.shape, -1.0))
            if of_states is not None:
                torch.mm(shares, words, out=of_states[part])
            if of_words is not None:
                of_words.addmm_(shares.T, own)
            if of_bias is not None:
                of_bias += shares.sum(dim=0)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None if x is None else gradient * x for x in ctx.saved_tensors), None)
