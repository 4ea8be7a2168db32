"""Losses on tokens: replaced words (ELECTRA, DiffCSE), mutual information (IS-BERT)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:  # `isospace train --help` does without torch
    from torch import Tensor


def replace_words(
    original: Tensor, masked: Tensor, guesses: Tensor, mask: Tensor, *, everywhere: bool
) -> Tensor:
    """Return the sentences with a generator's words; the first token stays, padding is 0.

    All tensors are (n, length): ids of the sentences, with mask tokens (`masked`), of the generator
    (`guesses`), and `mask`, 1 for tokens. `everywhere` replaces all words, not only the masked.
    Chuang et al. 2022, "DiffCSE".
    """
    stays = torch.zeros_like(mask, dtype=torch.bool)
    stays[:, 0] = True
    if not everywhere:
        stays |= masked == original
    return torch.where(stays, original, guesses) * mask


def replacement_detection(
    logits: Tensor,
    shown: Tensor,
    original: Tensor,
    mask: Tensor,
    *,
    positions: Literal["tokens", "all"] = "tokens",
) -> Tensor:
    r"""Return the cross-entropy of original against replaced words.

    $$-\mathrm{mean}_{it} \log \mathrm{softmax}(D_{it})_{[x''_{it} \ne x_{it}]}$$

    D: `logits` (n, length, 2) of original and replaced; x'': the ids that were `shown`, x: the
    `original` ids, and the mask, (n, length). The mean is over tokens, or over "all" places, with
    padding. Clark et al. 2020, "ELECTRA"; with the sentence's vector Chuang et al. 2022, "DiffCSE".
    """
    labels = (shown != original).long() * mask
    losses = torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none")
    counted = torch.ones_like(mask) if positions == "all" else mask
    return (losses * counted).sum() / counted.sum()


def token_information(
    local: Tensor, sentence: Tensor, mask: Tensor, *, constants: bool = True
) -> tuple[Tensor, Tensor]:
    r"""Return the two expectations of the Jensen-Shannon estimate of mutual information.

    $$E^+ = \mathbb{E}_{t \in i}[\log 2 - \mathrm{sp}(-s_{ti})], \quad
      E^- = \mathbb{E}_{t \notin i}[\mathrm{sp}(s_{ti}) - \log 2], \qquad
      s_{ti} = c_t^\top h_i$$

    sp: softplus; c: `local` (batch, length, dim), features of tokens; h: `sentence` (batch, dim);
    `mask` (batch, length) is 1 for tokens. Without `constants` log 2, which is the code's, is left
    out. The estimate is $E^+ - E^-$. Zhang et al. 2020, "An Unsupervised Sentence Embedding Method
    by Mutual Information Maximization" (IS-BERT).
    """
    count = len(sentence)
    scores = local[mask.bool()] @ sentence.T  # (token of the batch, sentence)
    own = torch.arange(count, device=mask.device).repeat_interleave(mask.sum(1))
    shift = torch.tensor(2.0, dtype=scores.dtype).log() if constants else 0.0
    of_own = scores.gather(1, own.unsqueeze(1)).squeeze(1)
    positive = shift - torch.nn.functional.softplus(-of_own)
    every = torch.nn.functional.softplus(scores) - shift
    others = every.sum(1) - every.gather(1, own.unsqueeze(1)).squeeze(1)
    return positive.mean(), others.mean() / (count - 1)
