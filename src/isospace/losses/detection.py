"""Detection of replaced words (DiffCSE)."""

from __future__ import annotations

from typing import Literal

import torch


def replace_words(
    original: torch.Tensor,
    masked: torch.Tensor,
    guesses: torch.Tensor,
    mask: torch.Tensor,
    *,
    everywhere: bool,
) -> torch.Tensor:
    """Return the sentences with a generator's words; the first token stays.

    Args:
        original: (n, length) token ids.
        masked: (n, length) token ids, with mask tokens.
        guesses: (n, length) token ids, the generator's.
        mask: (n, length), 1 for tokens.
        everywhere: replace all words, not those that were masked alone.

    Returns:
        (n, length) token ids, 0 at the padding.
    """
    stays = torch.zeros_like(mask, dtype=torch.bool)
    stays[:, 0] = True
    if not everywhere:
        stays |= masked == original
    return torch.where(stays, original, guesses) * mask


def replacement_detection(
    logits: torch.Tensor,
    shown: torch.Tensor,
    original: torch.Tensor,
    mask: torch.Tensor,
    *,
    positions: Literal["tokens", "words", "all"] = "tokens",
) -> torch.Tensor:
    r"""Return the cross-entropy of original against replaced words.

    Clark et al. 2020, "ELECTRA"; with the sentence's vector Chuang et al. 2022, "DiffCSE".

    Args:
        logits: (n, length, 2), of original and replaced.
        shown: (n, length) token ids that the discriminator saw.
        original: (n, length) token ids.
        mask: (n, length), 1 for tokens.
        positions: the mean is over all tokens, over "words" (without the first token), or over
            "all" places, padding included.
    """
    labels = (shown != original).long() * mask
    losses = torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none")
    counted = torch.ones_like(mask) if positions == "all" else mask.clone()
    if positions == "words":
        counted[:, 0] = 0
    return (losses * counted).sum() / counted.sum()
