"""Shuffled group whitening of a batch, for use before a loss (WhitenedCSE)."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.operators import whitening


def shuffled_group_whitening(
    views: torch.Tensor,
    groups: int,
    generator: torch.Generator | None = None,
    *,
    layout: Literal["view", "sentence"] = "view",
    method: Literal["zca", "pca"] = "zca",
    eps: float = 1e-5,
    stop_gradient: bool = True,
) -> torch.Tensor:
    r"""Whiten the columns of every view in groups, which are dealt by a random permutation.

    $$\mathrm{SGW}_\pi(X) = \pi^{-1}\big[(X_g - \mu_g)\, \Sigma_g^{-1/2}\big]_{g = 1 .. k}$$

    $\pi$ deals columns to k groups, $\mu_g$ and $\Sigma_g$ are batch statistics of group g. Zhuo et
    al. 2023, "WhitenedCSE".

    Args:
        views: X, (view, batch, dim).
        groups: k, must divide dim. One group is plain whitening and is never shuffled.
        generator: a CPU generator of the permutations, one for each view; `None` leaves neighbours
            together.
        layout: the rows of one permutation and one set of statistics. "view": a view (the paper).
            "sentence": all views of one of `view` equal parts of the batch (the released code).
        method: the inverse square root.
        eps: added to every variance.
        stop_gradient: treat the whitening matrix as a constant (released code).

    Returns:
        A tensor like `views`.

    Raises:
        ValueError: `groups` does not divide dim.
    """
    count, batch, dim = views.shape
    order = None
    if generator is not None and groups > 1:
        order = torch.stack([torch.randperm(dim, generator=generator) for _ in range(count)])
    # Sentence by sentence (s1v1, s1v2, ..), cut into as many equal blocks as there are views.
    rows = views.transpose(0, 1).reshape(views.shape) if layout == "sentence" else views
    out = whitening.whiten(
        rows, groups=groups, permutation=order, method=method, eps=eps, stop_gradient=stop_gradient
    )
    return out.reshape(batch, count, dim).transpose(0, 1) if layout == "sentence" else out
