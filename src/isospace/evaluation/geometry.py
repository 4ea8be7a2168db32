"""Geometry of embeddings: alignment, uniformity, rank, neighbours, isotropy; the task.

Every measure takes arrays or tensors `(sentence, dim)` of two or more sentences. It computes in
float64 (neighbours in float32), in chunks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.evaluation.pairs import Encode, ScoredPairs
from isospace.evaluation.task import Conditions, Request, TitledRows
from isospace.operators.nearest import nearest, unit_rows
from isospace.statistics.gains import FloatArray

Embeddings = NDArray[Any] | torch.Tensor

_CHUNK_ENTRIES = 1 << 22  # pairwise values held at once: 32 MB in float64
NEIGHBOURS = 10
"""Number k of nearest neighbours in measures of neighbourhoods."""
COLLAPSED = 1e-6
"""A spread below this share of the vectors' length is a rounding error of float32."""
SAMPLE = 5000
"""Largest number of texts in `evaluate_geometry`; the measures depend on the number of texts."""
_SEED = 0
_LOWEST = 4.0
"""Lowest gold score of a positive pair."""


def alignment(x: Embeddings, y: Embeddings) -> float:
    r"""Return the mean squared distance of positive pairs after L2 normalisation, 0 (best) to 4.

    $\frac1N \sum_i \|x_i - y_i\|^2$, Wang & Isola 2020, equation 1 with alpha = 2.

    >>> alignment(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
    2.0
    """
    a, b = normalised(x), normalised(y)
    return float(((a - b) ** 2).sum(1).mean())


def uniformity(x: Embeddings) -> float:
    r"""Return the logarithm of the mean Gaussian potential of L2-normalised rows, 0 to about -4.

    $\log \frac{2}{N(N-1)} \sum_{i<j} e^{-2\|x_i-x_j\|^2}$, Wang & Isola 2020, equation 2, t = 2.

    >>> uniformity(np.array([[1.0, 0.0], [0.0, 1.0]]))
    -4.0
    """
    units = normalised(x)
    n = len(units)
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
    n = len(units)
    total = units.sum(0)
    return float((total @ total - (units * units).sum()) / (n * (n - 1)))


def neighbour_overlap(a: Embeddings, b: Embeddings) -> float:
    """Return the mean share of common sentences among the `NEIGHBOURS` nearest in `a` and `b`.

    The overlap measure of Hamilton et al. 2016 (local neighbourhood change), as a plain share. The
    sentence itself is not counted. Among equally near sentences the first are neighbours.
    """
    k = min(NEIGHBOURS, len(a) - 1)
    both = []
    for units in map(unit_rows, map(as_array, (a, b))):
        both.append([near.rows for near in nearest(units, units, k, np.arange(len(units)))])
    near_a, near_b = map(np.array, both)
    return int((near_a[:, :, None] == near_b[:, None, :]).any(2).sum()) / (len(a) * k)


def as_array(x: Embeddings) -> FloatArray:
    """Return embeddings `(sentence, dim)` in float64, without gradient."""
    array = x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x
    return array.astype(np.float64)


def normalised(x: Embeddings) -> FloatArray:
    """Scale rows to length 1 in float64; zero rows and NaN remain."""
    array = as_array(x)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0, norms, 1.0)


def describe(x: Embeddings) -> dict[str, float]:
    """Return all measures of distinct sentences; time grows with the square of their number."""
    values = as_array(x)
    sentences, dim = values.shape
    return {
        "sentences": sentences,
        "dim": dim,
        "effective_rank": effective_rank(values),
        "mean_cosine": mean_cosine(values),
        "uniformity": uniformity(values),
    }


@dataclass(frozen=True)
class GeometryScores:
    """Measures of one encoder, with their protocol."""

    measures: dict[str, float]
    protocol: str

    def to_json(self) -> dict[str, Any]:
        """Return the measures and the protocol."""
        return {"protocol": self.protocol} | self.measures

    def tables(self, conditions: Conditions) -> list[TitledRows]:
        """Return a row for each measure."""
        rows = [{"measure": name, "value": f"{x:.4g}"} for name, x in self.measures.items()]
        return [TitledRows(f"geometry ({self.protocol})", rows)]


def evaluate_geometry(
    encode: Encode, texts: Iterable[str], name: str, pairs: ScoredPairs | None = None
) -> GeometryScores:
    """Measure the vectors of distinct, shuffled texts, at most `SAMPLE`.

    `pairs` with a gold score of 4 or more also give the alignment. Papers differ in split and
    threshold of these pairs, and rarely report them.
    """
    distinct = list(dict.fromkeys(texts))
    order = np.random.default_rng(_SEED).permutation(len(distinct))[:SAMPLE]
    measures = describe(encode([distinct[i] for i in order]))
    part = f"{len(order):,} of " if len(order) < len(distinct) else ""
    protocol = f"{part}{len(distinct):,} distinct sentences of {name}, shuffled, no dropout"
    positive = [] if pairs is None else np.flatnonzero(pairs.gold >= _LOWEST).tolist()
    if pairs is not None and positive:
        found = pairs.take(positive)
        measures["alignment"] = alignment(encode(found.first), encode(found.second))
        protocol += f"; alignment over {len(positive):,} pairs (gold >= 4)"
    return GeometryScores(measures, protocol)


def geometry_task(request: Request) -> Callable[[Encode], GeometryScores] | None:
    """Measure the geometry on STS-B dev or, without STS data, on the user's own texts."""
    if not request.config.geometry:
        return None
    if not request.sts and not request.own:
        raise UserError(
            "`geometry`: needs texts. Name the folder of the STS sets (`data` FOLDER) or your "
            "own file (`own` FILE)"
        )
    dev = None
    if request.sts:
        dev = request.sts["STSBenchmark"].subsets["dev"]
        name, texts = "STS-B dev", [*dev.first, *dev.second]
    else:
        name = ", ".join(data.file for data in request.own)
        texts = [text for data in request.own for text in data.texts()]
    distinct = len(set(texts))
    if distinct < 2:
        raise UserError(f"`geometry` on {name}: {distinct} distinct texts. Give two or more")
    return lambda encode: evaluate_geometry(encode, texts, name, dev)
