"""The geometry of an embedding: alignment, uniformity, rank, isotropy, stability of neighbours.

Every function takes numpy arrays or torch tensors of shape `(sentence, dim)`, computes in float64
(the neighbours in float32) and works through pairs of rows in chunks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.evaluation.correlation import FloatArray
from isospace.evaluation.pairs import Encode, encode_distinct
from isospace.evaluation.sts import STSTask

Embeddings = NDArray[Any] | torch.Tensor

POSITIVES = {">= 4": np.greater_equal, "> 4": np.greater}
"""Which scored pairs count as positives: papers say "higher than 4", their code often `>= 4`."""

_CHUNK_ENTRIES = 1 << 22  # pairwise values held at once: 32 MB in float64
_COLLAPSED = 1e-6  # a spread below this share of the vectors' length is rounding of float32


def alignment(x: Embeddings, y: Embeddings) -> float:
    r"""Mean squared distance of positive pairs, 0 (best) to 4; rows are L2-normalised first.

    $\frac1N \sum_i \|x_i - y_i\|^2$, Wang & Isola 2020, equation 1 with alpha = 2.

    >>> alignment(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
    2.0
    """
    a, b = _unit(x), _unit(y)
    _require_same_rows(a, b)
    return float(((a - b) ** 2).sum(1).mean())


def uniformity(x: Embeddings) -> float:
    r"""Logarithm of the mean Gaussian potential, 0 (all equal) down to about -4; rows normalised.

    $\log \frac{2}{N(N-1)} \sum_{i<j} e^{-2\|x_i-x_j\|^2}$, Wang & Isola 2020, equation 2, t = 2.

    >>> uniformity(np.array([[1.0, 0.0], [0.0, 1.0]]))
    -4.0
    """
    units = _unit(x)
    n = _require_two_rows(units)
    total, step = 0.0, max(1, _CHUNK_ENTRIES // n)
    for start in range(0, n, step):
        cosines = units[start : start + step] @ units[start:].T
        potentials = np.exp(-4.0 * (1.0 - np.minimum(cosines, 1.0)))
        total += float(np.triu(potentials, k=1).sum())
    return float(np.log(total / (n * (n - 1) / 2)))


def effective_rank(x: Embeddings) -> float:
    r"""How many directions the centred embeddings really use, 1 to min(sentences - 1, dim).

    $\exp(-\sum_k p_k \log p_k)$ with $p_k = \sigma_k / \sum_l \sigma_l$ of the singular values of
    $X - \bar X$; Roy & Vetterli 2007, definition 1. Collapsed embeddings (all rows equal) have 0.

    >>> round(effective_rank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 6)
    2.0
    """
    values = _array(x)
    _require_two_rows(values)
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    if np.linalg.norm(singular) <= _COLLAPSED * np.linalg.norm(values):
        return 0.0
    share = singular[singular > 0] / singular.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def mean_cosine(x: Embeddings) -> float:
    r"""Mean cosine of two different sentences, the anisotropy of Ethayarajh 2019: 0 is isotropic.

    $\frac{1}{N(N-1)} \sum_{i \ne j} \cos(x_i, x_j)$, computed as
    $(\|\sum_i u_i\|^2 - N) / (N(N-1))$ with the unit rows $u$.

    >>> mean_cosine(np.array([[1.0, 0.0], [0.0, 1.0]]))
    0.0
    """
    units = _unit(x)
    n = _require_two_rows(units)
    total = units.sum(0)
    return float((total @ total - (units * units).sum()) / (n * (n - 1)))


def neighbour_overlap(a: Embeddings, b: Embeddings, k: int) -> float:
    """Mean share of common sentences among the k nearest by cosine in `a` and in `b`, 0 to 1.

    The overlap measure of Hamilton et al. 2016 (local neighbourhood change), as a plain share.

    Args:
        a: embeddings of n sentences, `(n, dim)`.
        b: embeddings of the same sentences by another encoder, `(n, other dim)`.
        k: number of neighbours, the sentence itself not counted; less than n.
    """
    units_a, units_b = _unit(a).astype(np.float32), _unit(b).astype(np.float32)
    n = len(units_a)
    if len(units_b) != n or not 0 < k < n:
        raise ValueError(
            f"expected embeddings of the same more than k={k} sentences, got {n} and {len(units_b)}"
        )
    common, step = 0, max(1, _CHUNK_ENTRIES // n)
    for start in range(0, n, step):
        near_a = _neighbours(units_a, start, start + step, k)
        near_b = _neighbours(units_b, start, start + step, k)
        common += int((near_a[:, :, None] == near_b[:, None, :]).sum())
    return common / (n * k)


@dataclass(frozen=True)
class STSBGeometry:
    """Alignment and uniformity on STS-B, and how they were made."""

    alignment: float
    uniformity: float
    split: str
    positives: str
    n_positives: int
    n_sentences: int

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        return (
            f"STS-B {self.split}, L2-normalised, no dropout; alignment over {self.n_positives} "
            f"pairs with gold {self.positives}, uniformity over {self.n_sentences} "
            "distinct sentences"
        )

    def to_json(self) -> dict[str, Any]:
        """All fields and the protocol."""
        return asdict(self) | {"protocol": self.protocol}


def stsb_geometry(
    encode: Encode, tasks: Mapping[str, STSTask], split: str = "dev", positives: str = ">= 4"
) -> STSBGeometry:
    """Alignment and uniformity on STS-B, as the papers draw them.

    Papers differ in the split and in the threshold and seldom say so: both are named in the result.

    Args:
        encode: sentences -> `(sentence, dim)`, without dropout.
        tasks: as `sts.load_sts` gives them, with STSBenchmark.
        split: "dev" or "test".
        positives: a key of `POSITIVES`.

    Raises:
        ValueError: where no pair reaches the threshold.
    """
    pairs = tasks["STSBenchmark"].subsets[split]
    rows, embeddings = encode_distinct(encode, (*pairs.first, *pairs.second))
    chosen = np.flatnonzero(POSITIVES[positives](pairs.gold, 4.0))
    if len(chosen) == 0:
        raise ValueError(f"no pair of STS-B {split} has gold {positives}")
    return STSBGeometry(
        alignment(
            embeddings[[rows[pairs.first[i]] for i in chosen]],
            embeddings[[rows[pairs.second[i]] for i in chosen]],
        ),
        uniformity(embeddings),
        split,
        positives,
        len(chosen),
        len(rows),
    )


def _array(x: Embeddings) -> FloatArray:
    array = x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x
    if array.ndim != 2:
        raise ValueError(f"expected embeddings (sentence, dim), got shape {array.shape}")
    return array.astype(np.float64)


def _unit(x: Embeddings) -> FloatArray:
    """Rows of length one; a zero row stays zero."""
    array = _array(x)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0, norms, 1.0)


def _neighbours(units: NDArray[np.float32], start: int, stop: int, k: int) -> NDArray[np.intp]:
    """Indices of the k nearest other rows of rows start..stop, `(row, k)`, in no order."""
    cosines = units[start:stop] @ units.T
    rows = np.arange(len(cosines))
    cosines[rows, start + rows] = -np.inf
    return np.argpartition(cosines, -k, axis=1)[:, -k:]


def _require_two_rows(x: FloatArray) -> int:
    if len(x) < 2:
        raise ValueError(f"expected at least two embeddings, got {len(x)}")
    return len(x)


def _require_same_rows(x: FloatArray, y: FloatArray) -> None:
    if x.shape != y.shape or len(x) == 0:
        raise ValueError(f"expected two arrays of one shape, got {x.shape} and {y.shape}")
