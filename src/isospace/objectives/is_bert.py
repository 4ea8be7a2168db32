"""IS-BERT: mutual information of a sentence and its words, without a second view."""

from __future__ import annotations

import math
from typing import Literal

import torch


def mutual_information(
    local: torch.Tensor,
    sentence: torch.Tensor,
    mask: torch.Tensor,
    *,
    constants: bool = True,
    mean_over: Literal["tokens", "sentences"] = "tokens",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Jensen-Shannon estimates, of words with their own sentence and with the others: two scalars.

    The loss is the second less the first.

    Args:
        local: (batch, length, dim) of the words.
        sentence: (batch, dim).
        mask: (batch, length), 1 where there is a word.
        constants: add log 2 to the first and take it from the second (released code), so that both
            are 0 where nothing is known; the paper's are without, its gradients are the same.
        mean_over: what counts the same: every word of the batch (released code), or every sentence.
    """
    scores = local @ sentence.T
    constant = math.log(2) if constants else 0.0
    own = constant - torch.nn.functional.softplus(-scores)
    other = torch.nn.functional.softplus(scores) - constant
    weights = mask.to(scores.dtype)
    if mean_over == "sentences":
        weights = weights / weights.sum(dim=1, keepdim=True)
    weights = weights / weights.sum()
    # By sentence of the word and sentence that it is scored with.
    own, other = ((weights[:, :, None] * part).sum(dim=1) for part in (own, other))
    total_other = other.sum() - other.diagonal().sum()
    return own.diagonal().sum(), total_other / (len(sentence) - 1)
