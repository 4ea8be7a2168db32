"""Gradient caching: the backward pass of a large batch with the activations of few texts in memory.

Gao et al. 2021, https://arxiv.org/abs/2101.06983. The batch is encoded without a gradient; the loss
gives the gradient of its vectors; then each part is encoded again, under the same noise, with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from isospace.training.checkpoint import random_state, set_random_state

Result = TypeVar("Result")


def backward_by_parts(
    parts: Sequence[Tensor],
    encode: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], Result],
) -> Result:
    """Add the gradient of a batch to the encoder's parameters, as its backward pass would.

    Args:
        parts: (example,) places of the examples of each part.
        encode: makes the vectors (view, example, dim) of the examples at such places.
        backward: does the backward pass of the loss of all vectors.

    Returns:
        What `backward` returned.
    """
    states, found = [], []
    for rows in parts:
        states.append(random_state())
        with torch.no_grad():
            found.append(encode(rows))
    after = random_state()
    vectors = torch.cat(found, dim=1)[:, torch.cat(list(parts)).argsort()].requires_grad_()
    result = backward(vectors)
    assert vectors.grad is not None
    for rows, state in zip(parts, states, strict=True):
        set_random_state(state)
        torch.autograd.backward(encode(rows), vectors.grad[:, rows])
    set_random_state(after)
    return result
