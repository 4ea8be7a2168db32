"""Whitening that is fitted once on a corpus, on single texts or on pairs of texts.

All sums are about the mean and in float64. Two sets of sentences are merged exactly (Chan, Golub &
LeVeque 1983), so the result depends neither on the batch size nor on the number of processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from isospace.operators import whitening

ROUNDING = 1e-6
"""Rounding error of a vector, as a share of its length, when the batch of its sentence changes."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the vectors x_i of n sentences, with mean m and d_i = x_i - m.

    `a + b` merges two sets.

    Attributes:
        count: n, number of sentences.
        mean: m, (dim,).
        scatter: sum_i d_i d_i^T, (dim, dim).
        third: sum_i |d_i|^2 d_i, (dim,); needed to merge `fourth`.
        fourth: sum_i |d_i|^4, a scalar; needed for Ledoit and Wolf's shrinkage.

    >>> rows = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 3.0]])
    >>> merged = Moments.from_vectors(rows[:1]) + Moments.from_vectors(rows[1:])
    >>> merged.count, merged.mean.tolist()
    (3, [3.0, 1.0])
    """

    count: int
    mean: torch.Tensor
    scatter: torch.Tensor
    third: torch.Tensor
    fourth: torch.Tensor

    @classmethod
    def from_vectors(cls, x: torch.Tensor) -> Moments:
        """Return the moments of vectors (n, dim), n >= 0."""
        x = whitening.in_float64(x.detach())
        mean = x.sum(0) / max(len(x), 1)
        centred = x - mean
        squares = centred.square().sum(1)
        fourth = squares.square().sum()
        return cls(len(x), mean, centred.T @ centred, squares @ centred, fourth)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        mean = self.mean + (other.mean - self.mean) * (other.count / max(count, 1))
        sums = zip(self._about(mean), other._about(mean), strict=True)
        return Moments(count, mean, *(a + b for a, b in sums))

    def _about(self, centre: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return scatter, third and fourth about `centre`: d_i + m - centre replaces d_i."""
        shift = self.mean - centre
        square, trace = shift @ shift, self.scatter.trace()
        across = self.scatter @ shift
        scatter = self.scatter + self.count * torch.outer(shift, shift)
        third = self.third + 2 * across + (trace + self.count * square) * shift
        fourth = self.fourth + 4 * (self.third @ shift) + 4 * (across @ shift)
        return scatter, third, fourth + 2 * square * trace + self.count * square.square()

    def covariance(self, *, ddof: int = 1) -> torch.Tensor:
        """Return the covariance (dim, dim), with divisor `count - ddof`."""
        return self.scatter / (self.count - ddof)

    @property
    def rounding(self) -> float:
        """Standard deviation that float32's rounding alone gives a dimension."""
        length = self.mean.square().sum() + self.scatter.trace() / max(self.count, 1)
        return float(ROUNDING * (length / len(self.mean)).sqrt())

    def require_spread(self) -> None:
        """Raise a `ValueError` if the vectors are not finite, fewer than two, or all equal."""
        if not self.fourth.isfinite():
            raise ValueError("the vectors contain NaN or infinity")
        if self.count < 2 or self.covariance().trace().sqrt() <= self.rounding:
            raise ValueError(f"expected two or more different vectors; got {self.count}, all equal")

    def ledoit_wolf(self) -> float:
        r"""Return the optimal shrinkage towards the mean variance, 0 to 1.

        $\rho = \min(1, \beta / \delta)$ with the covariance S (divisor n), its mean variance
        $\mu = tr S / d$, its distance from isotropy $\delta = \|S - \mu I\|_F^2$ and its error of
        estimation $\beta = \frac{1}{n} ( \frac{1}{n} \sum_i |d_i|^4 - \|S\|_F^2 )$. Source: Ledoit
        & Wolf 2004.
        """
        covariance = self.covariance(ddof=0)
        energy = covariance.square().sum()
        distance = energy - covariance.trace().square() / len(covariance)
        error = (self.fourth / self.count - energy) / self.count
        error = torch.minimum(error.clamp(min=0), distance)
        return float(error / distance) if error > 0 else 0.0


@dataclass(frozen=True, eq=False)
class WhiteningMap:
    """A fixed affine map `(x - mean) @ kernel` with mean (dim,) and kernel (dim, k)."""

    mean: torch.Tensor
    kernel: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map vectors `(..., dim) -> (..., k)`, without normalisation."""
        return (x - self.mean.to(x)) @ self.kernel.to(x)

    def dense_layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return (weight (k, dim), bias (k,)) of the one dense layer that equals the map."""
        return [(self.kernel.T, -self.mean @ self.kernel)]


@dataclass(frozen=True)
class Whitening:
    """Settings of a whitening that is fitted once on a corpus.

    `fit(moments, power)` returns the map `(x - mean) U diag(s)^(-power / 2)` for the eigenvectors U
    and the eigenvalues s of the covariance, largest first. Power 1 whitens (covariance I); powers
    below 1 whiten in part ("soft"). Power 0 only centres and rotates.
    """

    kind: Literal["pca", "flow"] = "pca"
    """pca whitens, and sorts the components by variance, so that vectors can be cut anywhere; flow
    trains an invertible network to make the vectors normal (BERT-flow)."""
    shrinkage: float | Literal["ledoit-wolf"] = "ledoit-wolf"
    """Share of the covariance that is replaced by its mean variance, 0 to 1, or ledoit-wolf to
    estimate it."""
    dim: int | None = None
    """Keep this number of components, those of the largest variance; default: all."""

    def require(self, width: int) -> None:
        """Raise a `ValueError` if the settings do not suit vectors (n, width)."""
        if self.kind not in ("pca", "flow"):
            raise ValueError(f"`kind` must be pca or flow; got {self.kind}")
        if self.shrinkage != "ledoit-wolf" and not 0.0 <= self.shrinkage <= 1.0:
            raise ValueError(
                f"`shrinkage` must lie in 0..1, or be ledoit-wolf; got {self.shrinkage}"
            )
        if self.dim is not None and self.kind != "pca":
            raise ValueError(f"`dim` needs the sorted components of `kind` pca; got {self.kind}")
        if self.dim is not None and not 1 <= self.dim <= width:
            raise ValueError(f"`dim` must lie in 1..{width}; got {self.dim}")

    def fit(self, moments: Moments, power: float) -> WhiteningMap:
        """Fit the map of kind pca to the statistics of a corpus.

        Directions in which the corpus does not vary become zero without shrinkage. With shrinkage
        they are kept and lengthened most, since text outside the corpus may vary in them.

        Raises:
            ValueError: as for `require` and `Moments.require_spread`; the power is outside 0..1;
                there are too few sentences for a covariance without shrinkage.
        """
        width = len(moments.mean)
        self.require(width)
        moments.require_spread()
        share = moments.ledoit_wolf() if self.shrinkage == "ledoit-wolf" else self.shrinkage
        components = self.dim or width
        if not share and moments.count <= components:
            raise ValueError(
                f"the covariance of {components} components needs more than {components} "
                f"sentences; got {moments.count}. Give more text, or shrink the covariance"
            )
        axes, scales = _scaled_axes(moments.covariance(), share, power, moments.rounding)
        return WhiteningMap(moments.mean, (axes * scales)[:, :components])


def _scaled_axes(
    covariance: torch.Tensor, shrinkage: float, power: float, rounding: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the principal axes as columns (dim, dim), largest variance s first, and s^(-power/2).

    The latter (dim,) is 0 where a deviation is not above `rounding`, or is float64's rounding.
    """
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"power must lie in 0..1; got {power}")
    values, axes = whitening.eigensystem(whitening.regularise(covariance, shrinkage=shrinkage))
    noise = len(values) * torch.finfo(values.dtype).eps * values[0]
    present = values > noise.clamp(min=rounding**2)
    return axes, torch.where(present, values, 1.0) ** (-power / 2) * present


SHRINKAGE = 0.25
"""Least shrinkage. Ledoit and Wolf's estimate is best for new pairs of the corpus, but on other
text more shrinkage loses less."""


@dataclass(frozen=True, eq=False)
class PairMoments:
    r"""Sums over pairs of texts that belong together; `a + b` merges two sets exactly.

    With vectors x_i and y_i of the two texts of pair i, the covariance *within* pairs

    $$W = \frac{1}{2 n} \sum_i (x_i - y_i) (x_i - y_i)^T,$$

    is large in directions that vary between texts that should be close. The map shortens them:

    $$x \mapsto x \, W_\rho^{-p/2} R, \qquad
      W_\rho = (1 - \rho) W + \rho \frac{\mathrm{tr} W}{d} I,$$

    for a power p and a shrinkage rho. R rotates the result to the principal axes of all texts,
    largest variance first, so that vectors can be cut to fewer dimensions; it changes no cosine. No
    mean is removed. The difference between the means of the two sides is part of W.

    Sources: relevant component analysis (Bar-Hillel et al., ICML 2003); within-class covariance
    normalisation in speaker recognition (Hatch et al., Interspeech 2006); learned whitening in
    image retrieval (Mikolajczyk & Matas, ICCV 2007; Radenovic et al., TPAMI 2018, who add R).

    Relations: BERT-whitening (Su et al. 2021, `Whitening`) uses the covariance of all texts. It
    shortens directions of large variance, even if they distinguish texts. WhitenedCSE whitens
    batches during training. Linear discriminant analysis also whitens by W, and keeps the
    directions in which the whitened classes differ most.

    Attributes:
        within: moments of the differences (x_i - y_i) / sqrt 2. Each pair counts in both orders, so
            the mean is zero.
        texts: moments of all texts, two per pair; they determine only R.

    >>> pairs = PairMoments.from_pairs(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0]]))
    >>> pairs.within.covariance(ddof=0).diagonal().tolist()
    [2.0, 0.0]
    """

    within: Moments
    texts: Moments

    @classmethod
    def from_pairs(cls, first: torch.Tensor, second: torch.Tensor) -> PairMoments:
        """Return the moments of the pairs of two matrices (n, dim), n >= 0."""
        x, y = (whitening.in_float64(side.detach()) for side in (first, second))
        d = x - y
        zero, fourth = d.new_zeros(d.shape[1]), d.square().sum(1).square().sum() / 4
        within = Moments(len(d), zero, d.T @ d / 2, zero, fourth)
        return cls(within, Moments.from_vectors(torch.cat([x, y])))

    def __add__(self, other: PairMoments) -> PairMoments:
        return PairMoments(self.within + other.within, self.texts + other.texts)

    def fit(self, power: float, settings: Whitening = Whitening()) -> WhiteningMap:
        """Fit the map for queries and documents.

        Args:
            power: p, 0 to 1; 0 keeps the cosines.
            settings: shrinkage and width, of kind pca. The shrinkage "ledoit-wolf" is at least
                `SHRINKAGE` here.

        Raises:
            ValueError: `power` is outside 0..1, the settings do not suit the vectors, or the pairs
                are not finite or all of equal texts.
        """
        settings.require(len(self.texts.mean))
        kernel = self._inverse_power(power, settings.shrinkage)
        _, axes = whitening.eigensystem(kernel.T @ self.texts.covariance(ddof=0) @ kernel)
        return WhiteningMap(kernel.new_zeros(len(kernel)), kernel @ axes[:, : settings.dim])

    def fit_queries(self, power: float) -> WhiteningMap:
        r"""Fit a map for queries only, $q \mapsto q W_\rho^{-p}$; documents do not change.

        Two vectors mapped by `fit` have the inner product $q W_\rho^{-p} x^T$. This map applies the
        whole matrix to the query, so that documents and their index stay valid. The only difference
        is that documents keep their lengths from before the map.
        """
        half = self._inverse_power(power, "ledoit-wolf")
        return WhiteningMap(half.new_zeros(len(half)), half @ half)

    def _inverse_power(
        self, power: float, shrinkage: float | Literal["ledoit-wolf"]
    ) -> torch.Tensor:
        """Return the symmetric matrix W_rho^(-p/2), (dim, dim)."""
        if not self.within.fourth.isfinite():
            raise ValueError("the vectors contain NaN or infinity")
        covariance = self.within.covariance(ddof=0)
        if not self.within.count or covariance.trace().sqrt() <= self.texts.rounding:
            raise ValueError(
                f"expected pairs of different texts; got {self.within.count}, all of equal texts"
            )
        estimated = max(SHRINKAGE, self.within.ledoit_wolf())
        share = estimated if shrinkage == "ledoit-wolf" else shrinkage
        axes, scales = _scaled_axes(covariance, share, power, self.texts.rounding)
        return (axes * scales) @ axes.T
