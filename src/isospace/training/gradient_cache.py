"""Gradient caching: the backward pass of a large batch with little memory.

The batch is encoded without gradients, and the loss gives the gradient of its vectors. Then each
part is encoded again with the same noise, and its gradient is passed on to the encoder. Source: Gao
et al. 2021, https://arxiv.org/abs/2101.06983.
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
    """Add the gradient of a batch to the encoder's parameters, part by part.

    `parts` are (example,) positions, `encode` returns their vectors (view, example, dim), and
    `backward` computes the loss of all vectors and its backward pass.
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
