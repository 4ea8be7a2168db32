"""Isotropy of embeddings: IsoScore, hubs, redundant dimensions; and all measures at once.

Every function takes numpy arrays or torch tensors of shape `(sentence, dim)`. `describe` gives the
measures of one array at once, those of `geometry` included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isospace.errors import UserError
from isospace.evaluation.geometry import (
    COLLAPSED,
    Embeddings,
    as_array,
    effective_rank,
    mean_cosine,
    require_two_rows,
    uniformity,
)
from isospace.evaluation.pairs import Encode
from isospace.evaluation.task import Conditions, Request, Subject, Task, TitledRows
from isospace.operators.nearest import other_products, shares_of_places, unit_rows
from isospace.statistics.correlation import FloatArray

NEIGHBOURS = 10
"""k of the hubs, as in Radovanovic et al. 2010."""
BATCH_SIZES = (64, 128, 256, 512, 1024)
"""Of the correlation's rank: from SimCSE++'s 64 to above the width of common encoders."""

SAMPLE = 5000
"""Texts that `evaluate_isotropy` looks at, at most: the measures depend on how many there are."""

_SEED = 0


def isoscore(x: Embeddings) -> float:
    r"""Return the share of directions that the variance spreads over, 0 to 1 (isotropic).

    $\iota = \frac{1}{d-1} \left( (\sum_k \lambda_k)^2 / \sum_k \lambda_k^2 - 1 \right)$ with the d
    eigenvalues $\lambda$ of the covariance; k of d directions used evenly have $(k-1) / (d-1)$.
    Rudman et al. 2022, algorithm 1, whose steps come to this line: rotate to principal components,
    take the variances $\lambda$, scale them to $\hat\lambda = \sqrt d\, \lambda / \|\lambda\|$;
    isotropy defect $\delta = \|\hat\lambda - 1\| / \sqrt{2 (d - \sqrt d)}$, share of dimensions
    $\varphi = (d - \delta^2 (d - \sqrt d))^2 / d^2$, score $\iota = (d \varphi - 1) / (d - 1)$; and
    $d - \delta^2 (d - \sqrt d) = \sum_k \hat\lambda_k$. Both sums follow from the covariance.

    Few sentences look anisotropic (n draws of an isotropic Gaussian have about $1 / (1 + d / n)$):
    compare encoders on the same sentences. Collapsed embeddings (all rows equal) have 0.

    >>> isoscore(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]))
    0.5
    """
    values = as_array(x)
    require_two_rows(values)
    dim = values.shape[1]
    if dim < 2:
        raise ValueError("expected at least two dimensions, got 1")
    centred = values - values.mean(0)
    if np.linalg.norm(centred) <= COLLAPSED * np.linalg.norm(values):
        return 0.0
    covariance = centred.T @ centred
    directions = np.trace(covariance) ** 2 / (covariance * covariance).sum()
    return float((directions - 1) / (dim - 1))


def k_occurrence(x: Embeddings, k: int = NEIGHBOURS) -> FloatArray:
    """Count how often each sentence is among the k nearest by cosine of the others.

    N_k of Radovanovic et al. 2010; its mean is k. The neighbours are exact. Sentences that tie for
    the last places share them, so that the result does not depend on the order of equal rows.

    Raises:
        ValueError: where there are not more than k sentences.

    >>> k_occurrence(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), k=1)
    array([0.5, 2. , 0.5])
    """
    units = unit_rows(as_array(x))
    if not 0 < k < len(units):
        raise ValueError(f"expected more than k={k} embeddings, got {len(units)}")
    occurrence = np.zeros(len(units))
    for _, cosines in other_products(units):
        occurrence += shares_of_places(cosines, k).sum(0)
    return occurrence


def hubness(x: Embeddings, k: int = NEIGHBOURS) -> tuple[float, float]:
    r"""Return the skewness of the k-occurrence (0 is even), and the share of anti-hubs.

    $S = \frac1N \sum_i (N_k(x_i) - k)^3 / \sigma^3$ with the standard deviation $\sigma$ of $N_k$;
    an anti-hub is nobody's neighbour, $N_k(x) = 0$. Radovanovic et al. 2010. The larger the
    skewness, the fewer hubs are the neighbours of the many. Where every sentence is found equally
    often (collapsed embeddings too) it is 0; where a row is not finite, both are NaN.
    """
    if not np.isfinite(as_array(x)).all():
        return float("nan"), float("nan")
    occurrence = k_occurrence(x, k)
    excess = occurrence - k
    deviation = float(np.sqrt((excess**2).mean()))
    skewness = float((excess**3).mean()) / deviation**3 if deviation > COLLAPSED * k else 0.0
    return skewness, float((occurrence == 0).mean())


def mean_correlation(x: Embeddings) -> float:
    r"""Return the mean $|C_{cd}|$ of two different dimensions, 0 to 1 (all the same).

    $C$ is Pearson's correlation of the dimensions over the sentences, whose off-diagonal Barlow
    Twins (Zbontar et al. 2021) drives to 0. Independent dimensions have about
    $\sqrt{2 / (\pi n)}$ at n sentences. Dimensions without spread have no correlation and are left
    out; where fewer than two remain it is 0; where a row is not finite it is NaN.
    """
    values = as_array(x)
    if not np.isfinite(values).all():
        return float("nan")
    columns = _standardised(values)
    dim = columns.shape[1]
    if dim < 2:
        return 0.0
    correlation = np.abs(columns.T @ columns)
    return float((correlation.sum() - np.trace(correlation)) / (dim * (dim - 1)))


def correlation_rank(x: Embeddings, batch_sizes: Sequence[int] = BATCH_SIZES) -> dict[int, int]:
    """Rank of the correlation of the dimensions in the first n sentences, for several n.

    The "feature corruption" of SimCSE++ (Xu et al. 2023, rank bottleneck): over a batch of n the
    correlation matrix `(dim, dim)` has at most rank min(n - 1, dim), so that a loss that drives it
    to the identity cannot reach it. (The paper's columns are not centred: its bound is n.) A rank
    below the bound means that dimensions are copies or sums of others.

    It is the number of singular values of the standardised batch `(n, dim)`, the roots of the
    matrix's eigenvalues, above `max(n, dim) * 1.2e-7` of the largest: numpy's rule with float32's
    rounding, for encoders give float32 whatever the array holds. With float64's, a dimension that
    is a sum of others would count all the same.

    Returns:
        batch size -> rank.

    >>> correlation_rank(np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 0.0], [0.0, 9.0]]), (2, 4))
    {2: 1, 4: 2}
    """
    values = as_array(x)
    if not np.isfinite(values).all():
        raise ValueError("expected finite embeddings, got NaN or infinity")
    for size in batch_sizes:
        if not 2 <= size <= len(values):
            raise ValueError(f"expected batch sizes from 2 to {len(values)}, got {size}")
    return {size: _rank(_standardised(values[:size])) for size in batch_sizes}


def describe(x: Embeddings) -> dict[str, float]:
    """Measure everything about one array, ready for JSON.

    Time grows with the square of the number of sentences (uniformity, hubs): give some thousands.

    Args:
        x: embeddings `(sentence, dim)` of distinct sentences in an order without meaning.

    Returns:
        sentences and dim; effective_rank, mean_cosine, isoscore, uniformity; hubness (skewness of
        the 10-occurrence) and antihubs; mean_correlation, and correlation_rank@n for each n of
        `BATCH_SIZES` that the sentences allow. Where a row is not finite, measures are NaN, and
        there are no ranks.

    Raises:
        ValueError: for up to `NEIGHBOURS` sentences, or one dimension.
    """
    values = as_array(x)
    sentences, dim = values.shape
    skewness, antihubs = hubness(values)
    finite = bool(np.isfinite(values).all())
    sizes = [size for size in BATCH_SIZES if size <= sentences and finite]
    ranks = correlation_rank(values, sizes) if sizes else {}
    return {
        "sentences": sentences,
        "dim": dim,
        "effective_rank": effective_rank(values),
        "mean_cosine": mean_cosine(values),
        "isoscore": isoscore(values),
        "uniformity": uniformity(values),
        "hubness": skewness,
        "antihubs": antihubs,
        "mean_correlation": mean_correlation(values),
    } | {f"correlation_rank@{size}": rank for size, rank in ranks.items()}


@dataclass(frozen=True)
class IsotropyScores:
    """Measures of one encoder, with their protocol."""

    measures: dict[str, float]
    protocol: str

    def to_json(self) -> dict[str, Any]:
        """Return the measures and the protocol."""
        return {"protocol": self.protocol} | self.measures

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """Return a row for each measure."""
        rows = [{"measure": name, "value": f"{x:.4g}"} for name, x in self.measures.items()]
        return [TitledRows(f"isotropy ({self.protocol})", rows)]


def evaluate_isotropy(encode: Encode, texts: Iterable[str], name: str) -> IsotropyScores:
    """Describe the vectors of distinct, shuffled texts, at most `SAMPLE` of them.

    `name` says for the protocol what the texts are.

    Raises:
        ValueError: as `describe`.
    """
    distinct = list(dict.fromkeys(texts))
    order = np.random.default_rng(_SEED).permutation(len(distinct))[:SAMPLE]
    measures = describe(encode([distinct[i] for i in order]))
    part = f"{len(order):,} of " if len(order) < len(distinct) else ""
    protocol = f"{part}{len(distinct):,} distinct sentences of {name}, shuffled, no dropout"
    return IsotropyScores(measures, protocol)


class Isotropy(Task[IsotropyScores]):
    """Isotropy of STS-B dev, or of the user's own texts, where it is asked for."""

    name = "isotropy"

    def __init__(self, texts: Sequence[str], texts_name: str) -> None:
        self.texts, self.texts_name = texts, texts_name

    @classmethod
    def load(cls, request: Request) -> Isotropy | None:
        """Take the texts of STS-B dev or, without STS data, of the user's files."""
        if not request.config.geometry:
            return None
        if request.sts:
            dev = request.sts["STSBenchmark"].subsets["dev"]
            name, texts = "STS-B dev", [*dev.first, *dev.second]
        else:
            name = ", ".join(data.file for data in request.own)
            texts = [text for data in request.own for text in data.texts()]
        distinct = len(set(texts))
        if distinct <= NEIGHBOURS:
            raise UserError(
                f"`geometry` on {name}: {distinct} distinct texts, expected more than "
                f"{NEIGHBOURS}, because it counts {NEIGHBOURS} nearest neighbours. Give more text"
            )
        return cls(texts, name)

    def score(self, subject: Subject) -> IsotropyScores:
        """Measure everything."""
        return evaluate_isotropy(subject.encode, self.texts, self.texts_name)


def _standardised(values: FloatArray) -> FloatArray:
    """Return columns with mean 0 and length 1; leave out those that vary by rounding alone."""
    require_two_rows(values)
    centred = values - values.mean(0)
    # Real encoders have such columns (three of all-MiniLM-L6-v2's 384), and their rounding would
    # pass for a signal once it is scaled to length 1.
    spread = np.linalg.norm(centred, axis=0)
    varies = spread > COLLAPSED * np.linalg.norm(values) / np.sqrt(values.shape[1])
    columns: FloatArray = centred[:, varies] / spread[varies]
    return columns


def _rank(columns: FloatArray) -> int:
    singular = np.linalg.svd(columns, compute_uv=False)
    rounding = max(columns.shape) * np.finfo(np.float32).eps
    return int((singular > rounding * singular.max(initial=0.0)).sum())
