"""PromptBERT: the state at the mask of a template, less what the template alone gives."""

from __future__ import annotations

import torch


def denoised(masks: torch.Tensor, templates: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The states at the mask less those of the template alone: (batch, dim).

    `masks` (batch, dim) are of sentences in the template. Row n of `templates` (longest, dim) is of
    the template without a sentence, its tokens where they stand around one of n tokens; `lengths`
    (batch,) are the tokens of the sentences.
    """
    return masks - templates[lengths]


def template_positions(prefix: int, tokens: int, longest: int) -> torch.Tensor:
    """Positions of a template's tokens around sentences of 0 .. longest - 1 tokens.

    Of the `tokens`, [CLS] and the `prefix` stay where they are, the rest is moved by the sentence:
    (longest, tokens). The released code takes the first template's prefix for both templates; for
    the published ones it is the same.

    >>> template_positions(1, 4, 3)
    tensor([[0, 1, 2, 3],
            [0, 1, 3, 4],
            [0, 1, 4, 5]])
    """
    position = torch.arange(tokens)
    moved = torch.arange(longest)[:, None] * (position > prefix)
    return position + moved
