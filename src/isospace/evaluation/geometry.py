"""The geometry of an embedding: alignment and uniformity by named protocols, rank, neighbours.

Every function takes numpy arrays or torch tensors of shape `(sentence, dim)`, computes in float64
(the neighbours in float32) and works through pairs of rows in chunks of bounded memory. How evenly
the space is used (IsoScore, hubs, redundant dimensions) is in `isotropy`, with `isotropy.describe`
for all measures of one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.evaluation.pairs import Encode, ScoredPairs, encode_distinct
from isospace.evaluation.sts import STSTask
from isospace.operators.nearest import nearest, unit_rows
from isospace.statistics.correlation import FloatArray

Embeddings = NDArray[Any] | torch.Tensor

_CHUNK_ENTRIES = 1 << 22  # pairwise values held at once: 32 MB in float64
COLLAPSED = 1e-6
"""A spread below this share of the vectors' length is rounding of float32."""


def alignment(x: Embeddings, y: Embeddings) -> float:
    r"""Mean squared distance of positive pairs, 0 (best) to 4; rows are L2-normalised first.

    $\frac1N \sum_i \|x_i - y_i\|^2$, Wang & Isola 2020, equation 1 with alpha = 2.

    >>> alignment(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
    2.0
    """
    a, b = normalised(x), normalised(y)
    _require_same_rows(a, b)
    return float(((a - b) ** 2).sum(1).mean())


def uniformity(x: Embeddings) -> float:
    r"""Logarithm of the mean Gaussian potential, 0 (all equal) down to about -4; rows normalised.

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
        # 1, or 0 where a row is zero: the distance to that one is not 2 - 2 cos.
        distances = squares[start : start + step, None] + squares[start:] - 2.0 * cosines
        potentials = np.exp(-2.0 * np.maximum(distances, 0.0))
        total += float(np.triu(potentials, k=1).sum())
    return float(np.log(total / (n * (n - 1) / 2)))


def effective_rank(x: Embeddings) -> float:
    r"""How many directions the centred embeddings really use, 1 to min(sentences - 1, dim).

    $\exp(-\sum_k p_k \log p_k)$ with $p_k = \sigma_k / \sum_l \sigma_l$ of the singular values of
    $X - \bar X$; Roy & Vetterli 2007, definition 1. Collapsed embeddings (all rows equal) have 0;
    where a row is not finite, it is NaN.

    >>> round(effective_rank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 6)
    2.0
    """
    values = as_array(x)
    require_two_rows(values)
    if not np.isfinite(values).all():
        return float("nan")  # numpy would not find singular values
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    if np.linalg.norm(singular) <= COLLAPSED * np.linalg.norm(values):
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
    units = normalised(x)
    n = require_two_rows(units)
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
    n = len(a)
    if len(b) != n or not 0 < k < n:
        raise ValueError(
            f"expected embeddings of the same more than k={k} sentences, got {n} and {len(b)}"
        )
    return int(common_neighbours(a, b, k).sum()) / (n * k)


def common_neighbours(a: Embeddings, b: Embeddings, k: int) -> NDArray[np.int64]:
    """How many of each sentence's k nearest others by cosine in `a` it has in `b`, `(sentence,)`.

    Of equally near sentences the first are its neighbours. Arguments as for `neighbour_overlap`.
    """
    near_a, near_b = (_neighbour_rows(x, k) for x in (a, b))
    counts: NDArray[np.int64] = (near_a[:, :, None] == near_b[:, None, :]).any(2).sum(1)
    return counts


def _neighbour_rows(x: Embeddings, k: int) -> NDArray[np.int64]:
    units = unit_rows(as_array(x))
    return np.array([near.rows for near in nearest(units, units, k, np.arange(len(units)))])


@dataclass(frozen=True)
class STSBProtocol:
    """The sentences and positive pairs of STS-B that alignment and uniformity are taken over.

    Attributes:
        splits: of STS-B, put together.
        positives: a key of `_REACHES` (encoded without dropout), or `DROPOUT_VIEWS`.
        used_by: whose numbers it is for.
        repeated: whether uniformity counts a sentence once for every pair that it is in.
    """

    splits: tuple[str, ...]
    positives: str
    used_by: str
    repeated: bool = False

    @property
    def where(self) -> str:
        """The splits in words."""
        return " + ".join(self.splits)


DROPOUT_VIEWS = "two dropout views"
_REACHES = {"gold >= 4": np.greater_equal, "gold > 4": np.greater}
_WHOLE = ("train", "dev", "test")

PROTOCOLS = {
    "stsb-dev >= 4": STSBProtocol(
        ("dev",), "gold >= 4", "isospace's tables; WhitenedCSE looks at dev (threshold not said)"
    ),
    "stsb-dev > 4": STSBProtocol(("dev",), "gold > 4", "SimCSE's wording (higher than 4), on dev"),
    "stsb-test >= 4": STSBProtocol(
        ("test",), "gold >= 4", "DiffCSE's split, with the threshold of released code"
    ),
    "stsb-test > 4": STSBProtocol(("test",), "gold > 4", "DiffCSE's split, with SimCSE's wording"),
    "stsb-all >= 4": STSBProtocol(
        _WHOLE, "gold >= 4", "near SCD's code, which takes the three splits one by one"
    ),
    "stsb-all > 4": STSBProtocol(_WHOLE, "gold > 4", "SimCSE, by its authors' answer in issue 52"),
    **{
        f"stsb-{name} >= 4, repeated": STSBProtocol(
            splits, "gold >= 4", "code that takes the files' columns as they are", repeated=True
        )
        for name, splits in {"dev": ("dev",), "test": ("test",), "all": _WHOLE}.items()
    },
    "dropout-views": STSBProtocol(
        ("dev",), DROPOUT_VIEWS, "SimCSE++, whose code takes the batches it trains on"
    ),
}
"""The definitions in use. Uniformity is over all sentences of the splits, without dropout: the
distinct ones, each once, or as many as the pairs have (in STS-B dev 2,909 or 3,000)."""


@dataclass(frozen=True)
class STSBGeometry:
    """Alignment and uniformity on STS-B, and how they were made."""

    alignment: float
    uniformity: float
    name: str
    n_positives: int
    n_sentences: int

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        named = PROTOCOLS[self.name]
        sentences = "sentences as the pairs have them" if named.repeated else "distinct sentences"
        return (
            f"STS-B {named.where}, L2-normalised; alignment over {self.n_positives} "
            f"pairs ({named.positives}), uniformity over {self.n_sentences} {sentences}, no dropout"
        )

    def to_json(self) -> dict[str, Any]:
        """All fields, the protocol in words, and whose numbers it is for."""
        named = {"protocol": self.protocol, "used_by": PROTOCOLS[self.name].used_by}
        return asdict(self) | named


def possible_protocols(tasks: Mapping[str, STSTask], rates: Sequence[float]) -> list[str]:
    """The protocols that data and encoder allow.

    Args:
        tasks: copies of STS-B on the Hub lack its train split; one's own may have other scores.
        rates: the encoder's own dropout rates; without dropout two views are one.
    """
    subsets = tasks["STSBenchmark"].subsets
    return [
        name
        for name, protocol in PROTOCOLS.items()
        if set(protocol.splits) <= set(subsets)
        and (any(rates) if protocol.positives == DROPOUT_VIEWS else _positives(subsets, protocol))
    ]


def _positives(subsets: Mapping[str, ScoredPairs], protocol: STSBProtocol) -> list[int]:
    """Positions of the positives among the pairs of its splits."""
    gold = np.concatenate([subsets[split].gold for split in protocol.splits])
    return list(np.flatnonzero(_REACHES[protocol.positives](gold, 4.0)))


def stsb_geometry(
    encode: Encode,
    tasks: Mapping[str, STSTask],
    protocol: str = "stsb-dev >= 4",
    encode_noisy: Encode | None = None,
) -> STSBGeometry:
    """Alignment and uniformity on STS-B, as the papers draw them.

    Papers differ in split, threshold and noise and seldom say so: the result names all three.

    Args:
        encode: sentences -> `(sentence, dim)`, without dropout.
        tasks: as `sts.load_sts` gives them, with STSBenchmark.
        protocol: a key of `PROTOCOLS`.
        encode_noisy: the same under dropout, drawn anew at each call; for "dropout-views".

    Raises:
        ValueError: where a split is missing, where no pair reaches the threshold, or where
            "dropout-views" has no `encode_noisy`.
    """
    named, subsets = PROTOCOLS[protocol], tasks["STSBenchmark"].subsets
    for split in named.splits:
        if split not in subsets:
            raise ValueError(f"{protocol} needs STS-B {split}; there is {', '.join(subsets)}")
    pairs = [pair for split in named.splits for pair in subsets[split]]
    texts = [text for pair in pairs for text in pair]
    rows, clean = encode_distinct(encode, texts)
    if named.positives == DROPOUT_VIEWS:
        if encode_noisy is None:
            raise ValueError(f"{protocol} needs encode_noisy")
        x, y = encode_noisy(list(rows)), encode_noisy(list(rows))
    else:
        chosen = _positives(subsets, named)
        if not chosen:
            raise ValueError(f"{protocol}: no pair of STS-B {named.where} has {named.positives}")
        x, y = (clean[[rows[pairs[i][side]] for i in chosen]] for side in (0, 1))
    spread = clean[[rows[text] for text in texts]] if named.repeated else clean
    return STSBGeometry(alignment(x, y), uniformity(spread), protocol, len(x), len(spread))


def as_array(x: Embeddings) -> FloatArray:
    """Embeddings `(sentence, dim)` in float64, without gradient."""
    array = x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x
    if array.ndim != 2:
        raise ValueError(f"expected embeddings (sentence, dim), got shape {array.shape}")
    return array.astype(np.float64)


def normalised(x: Embeddings) -> FloatArray:
    """Rows of length one in float64; a zero row stays zero, NaN stays NaN."""
    array = as_array(x)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0, norms, 1.0)


def require_two_rows(x: FloatArray) -> int:
    """The number of rows, where it is two or more."""
    if len(x) < 2:
        raise ValueError(f"expected at least two embeddings, got {len(x)}")
    return len(x)


def _require_same_rows(x: FloatArray, y: FloatArray) -> None:
    if x.shape != y.shape or len(x) == 0:
        raise ValueError(f"expected two arrays of one shape, got {x.shape} and {y.shape}")
