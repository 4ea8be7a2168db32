"""ESimCSE: negatives from a queue of what a momentum copy of the encoder gave in earlier steps.

The loss is `similarity.info_nce` with the queue as further negatives.
"""

from __future__ import annotations

import torch


def enqueue(queue: torch.Tensor, rows: torch.Tensor, size: int) -> torch.Tensor:
    """The last `size` rows of `queue` (m, dim), oldest first, followed by `rows` (batch, dim).

    The result is a constant.

    >>> enqueue(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]), 3).flatten().tolist()
    [2.0, 3.0, 4.0]
    """
    return torch.cat([queue, rows.detach()])[-size:]
