"""Mutual information between a sentence and its tokens (IS-BERT)."""

from __future__ import annotations

import torch


def token_information(
    local: torch.Tensor, sentence: torch.Tensor, mask: torch.Tensor, *, constants: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return the two expectations of the Jensen-Shannon estimate of mutual information.

    $$E^+ = \mathbb{E}_{t \in i}[\log 2 - \mathrm{sp}(-s_{ti})], \quad
      E^- = \mathbb{E}_{t \notin i}[\mathrm{sp}(s_{ti}) - \log 2], \qquad
      s_{ti} = c_t^\top h_i$$

    sp: softplus. The estimate is $E^+ - E^-$. Zhang et al. 2020, "An Unsupervised Sentence
    Embedding Method by Mutual Information Maximization" (IS-BERT); log 2 is the code's.

    Args:
        local: c, (batch, length, dim), features of tokens.
        sentence: h, (batch, dim).
        mask: (batch, length), 1 for tokens.
        constants: take log 2 off both, so that a score of 0 counts 0.

    Returns:
        Two scalars.
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
