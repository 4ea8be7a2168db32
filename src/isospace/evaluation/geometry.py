"""Geometry of embeddings: alignment, uniformity, rank, neighbours.

Every function takes numpy arrays or torch tensors of shape `(sentence, dim)`. It computes in
float64 (neighbours in float32), in chunks of bounded memory. `isotropy` measures how evenly the
space is used (IsoScore, hubs, redundant dimensions), and `isotropy.describe` returns all measures
of an array. `stsb_geometry` measures alignment and uniformity on STS-B.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.operators.nearest import nearest, unit_rows
from isospace.statistics.correlation import FloatArray

Embeddings = NDArray[Any] | torch.Tensor

_CHUNK_ENTRIES = 1 << 22  # pairwise values held at once: 32 MB in float64
COLLAPSED = 1e-6
"""A spread below this share of the vectors' length is a rounding error of float32."""


def alignment(x: Embeddings, y: Embeddings) -> float:
    r"""Return the mean squared distance of positive pairs after L2 normalisation, 0 (best) to 4.

    $\frac1N \sum_i \|x_i - y_i\|^2$, Wang & Isola 2020, equation 1 with alpha = 2.

    >>> alignment(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
    2.0
    """
    a, b = normalised(x), normalised(y)
    _require_same_rows(a, b)
    return float(((a - b) ** 2).sum(1).mean())


def uniformity(x: Embeddings) -> float:
    r"""Return the logarithm of the mean Gaussian potential of L2-normalised rows, 0 to about -4.

    $\log \frac{2}{N(N-1)} \sum_{i<j} e^{-2\|x_i-x_j\|^2}$, Wang & Isola 2020, equation 2, t = 2.

    >>> uniformity(np.array([[1.0, 0.0], [0.0, 1.0]]))
    -4.0
    """
    units = normalised(x)
    n = require_two_rows(units)
    squares = units.any(1).astype(float)
    total, step = 0.0, max(1, _CHUNK_ENTRIES // n)
    for start in range(0, n, step):
        cosines = units[start : start + step] @ units[start:].T
        # 1, or 0 for a zero row, whose distance to another row is not 2 - 2 cos.
        distances = squares[start : start + step, None] + squares[start:] - 2.0 * cosines
        potentials = np.exp(-2.0 * np.maximum(distances, 0.0))
        total += float(np.triu(potentials, k=1).sum())
    return float(np.log(total / (n * (n - 1) / 2)))


def effective_rank(x: Embeddings) -> float:
    r"""Return the number of directions that centred embeddings use, 1 to min(sentences - 1, dim).

    $\exp(-\sum_k p_k \log p_k)$ with $p_k = \sigma_k / \sum_l \sigma_l$ for the singular values of
    $X - \bar X$ (Roy & Vetterli 2007, definition 1). Collapsed embeddings (all rows equal) have 0.
    The result is NaN if a row is not finite.

    >>> round(effective_rank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 6)
    2.0
    """
    values = as_array(x)
    require_two_rows(values)
    if not np.isfinite(values).all():
        return float("nan")  # numpy cannot compute singular values
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    if np.linalg.norm(singular) <= COLLAPSED * np.linalg.norm(values):
        return 0.0
    share = singular[singular > 0] / singular.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def mean_cosine(x: Embeddings) -> float:
    r"""Return the mean cosine of two different sentences (Ethayarajh 2019): 0 is isotropic.

    $\frac{1}{N(N-1)} \sum_{i \ne j} \cos(x_i, x_j)$, computed as
    $(\|\sum_i u_i\|^2 - N) / (N(N-1))$ with the unit rows $u$.

    >>> mean_cosine(np.array([[1.0, 0.0], [0.0, 1.0]]))
    0.0
    """
    units = normalised(x)
    n = require_two_rows(units)
    total = units.sum(0)
    return float((total @ total - (units * units).sum()) / (n * (n - 1)))


def neighbour_overlap(a: Embeddings, b: Embeddings, k: int) -> float:
    """Return the mean share of common sentences among the k nearest in `a` and `b`.

    The overlap measure of Hamilton et al. 2016 (local neighbourhood change), as a plain share. The
    sentence itself is not counted; k must be less than n.
    """
    n = len(a)
    if len(b) != n or not 0 < k < n:
        raise ValueError(
            f"expected embeddings of the same more than k={k} sentences, got {n} and {len(b)}"
        )
    return int(common_neighbours(a, b, k).sum()) / (n * k)


def common_neighbours(a: Embeddings, b: Embeddings, k: int) -> NDArray[np.int64]:
    """Count for each sentence the common sentences of its k nearest (cosine) in `a` and in `b`.

    Among equally near sentences the first are neighbours. Arguments as for `neighbour_overlap`.
    """
    near_a, near_b = (_neighbour_rows(x, k) for x in (a, b))
    counts: NDArray[np.int64] = (near_a[:, :, None] == near_b[:, None, :]).any(2).sum(1)
    return counts


def _neighbour_rows(x: Embeddings, k: int) -> NDArray[np.int64]:
    units = unit_rows(as_array(x))
    return np.array([near.rows for near in nearest(units, units, k, np.arange(len(units)))])


def as_array(x: Embeddings) -> FloatArray:
    """Return embeddings `(sentence, dim)` in float64, without gradient."""
    array = x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x
    if array.ndim != 2:
        raise ValueError(f"expected embeddings (sentence, dim), got shape {array.shape}")
    return array.astype(np.float64)


def normalised(x: Embeddings) -> FloatArray:
    """Scale rows to length 1 in float64; zero rows and NaN remain."""
    array = as_array(x)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0, norms, 1.0)


def require_two_rows(x: FloatArray) -> int:
    """Return the number of rows; refuse fewer than two."""
    if len(x) < 2:
        raise ValueError(f"expected at least two embeddings, got {len(x)}")
    return len(x)


def _require_same_rows(x: FloatArray, y: FloatArray) -> None:
    if x.shape != y.shape or len(x) == 0:
        raise ValueError(f"expected two arrays of one shape, got {x.shape} and {y.shape}")
