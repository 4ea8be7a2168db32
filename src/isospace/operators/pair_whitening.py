r"""Whitening by pairs: a map fitted once on pairs of texts that belong together, without training.

With vectors x_i and y_i of the two texts of pair i, the covariance *within* pairs is

$$W = \frac{1}{2 n} \sum_i (x_i - y_i) (x_i - y_i)^T,$$

is large in directions that vary between texts that should be close. The map shortens them:

$$x \mapsto x \, W_\rho^{-p/2} R, \qquad
  W_\rho = (1 - \rho) W + \rho \frac{\mathrm{tr} W}{d} I,$$

for a power p and a shrinkage rho. R rotates the result to the principal axes of all texts, largest
variance first, so that vectors can be cut to fewer dimensions; it changes no cosine. No mean is
removed. The vectors are taken before an encoder's final normalisation, and the difference between
the means of the two sides is part of W.

Sources: relevant component analysis (Bar-Hillel et al., ICML 2003); within-class covariance
normalisation in speaker recognition (Hatch et al., Interspeech 2006); learned whitening in image
retrieval (Mikolajczyk & Matas, ICCV 2007; Radenovic et al., TPAMI 2018, who add R).

Relations: BERT-whitening (Su et al. 2021, `fitted_whitening`) uses the covariance of all texts. It
shortens directions of large variance, even if they distinguish texts. WhitenedCSE whitens batches
during training. Linear discriminant analysis also whitens by W, and keeps the directions in which
the whitened classes differ most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from isospace.operators import inverse_sqrt
from isospace.operators.fitted_whitening import Moments, WhiteningMap
from isospace.operators.whitening import regularise

SHRINKAGE = 0.25
"""Least shrinkage. Ledoit and Wolf's estimate is best for new pairs of the corpus, but on other
text more shrinkage loses less."""


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Sums over pairs, to fit a map from; `a + b` merges two sets exactly.

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
        """Return the moments of the pairs of two matrices (n, dim), n >= 0.

        Raises:
            ValueError: the arguments are not matrices, or have different shapes.
        """
        if first.dim() != 2 or first.shape != second.shape:
            raise ValueError(
                "expected two sides of one shape (n, dim); got "
                f"{tuple(first.shape)} and {tuple(second.shape)}"
            )
        x, y = (inverse_sqrt.in_float64(side.detach()) for side in (first, second))
        d = x - y
        zero, fourth = d.new_zeros(d.shape[1]), d.square().sum(1).square().sum() / 4
        within = Moments(len(d), zero, d.T @ d / 2, zero, fourth)
        return cls(within, Moments.from_vectors(torch.cat([x, y])))

    def __add__(self, other: PairMoments) -> PairMoments:
        return PairMoments(self.within + other.within, self.texts + other.texts)

    def fit(
        self, power: float, *, shrinkage: float | None = None, dim: int | None = None
    ) -> WhiteningMap:
        """Fit the map for queries and documents, in float64.

        Args:
            power: p, 0 to 1; 0 keeps the cosines.
            shrinkage: rho, 0 to 1; default: Ledoit and Wolf's, but at least `SHRINKAGE`.
            dim: number of dimensions to keep, largest variance first; default: all.

        Raises:
            ValueError: `power` or `shrinkage` is outside 0..1, `dim` is too large, or the pairs
                are not finite or all of equal texts.
        """
        kernel = self._inverse_power(power, shrinkage)
        width = len(kernel)
        if dim is not None and not 1 <= dim <= width:
            raise ValueError(f"`dim` must lie in 1..{width}; got {dim}")
        _, axes = inverse_sqrt.eigensystem(kernel.T @ self.texts.covariance(ddof=0) @ kernel)
        return WhiteningMap(kernel.new_zeros(width), kernel @ axes[:, :dim])

    def fit_queries(self, power: float, *, shrinkage: float | None = None) -> WhiteningMap:
        r"""Fit a map for queries only, $q \mapsto q W_\rho^{-p}$; documents do not change.

        Two vectors mapped by `fit` have the inner product $q W_\rho^{-p} x^T$. This map applies the
        whole matrix to the query, so that documents and their index stay valid. The only difference
        is that documents keep their lengths from before the map.

        For the arguments see `fit`.
        """
        half = self._inverse_power(power, shrinkage)
        return WhiteningMap(half.new_zeros(len(half)), half @ half)

    def _inverse_power(self, power: float, shrinkage: float | None) -> torch.Tensor:
        """Return the symmetric matrix W_rho^(-p/2), (dim, dim)."""
        if not 0.0 <= power <= 1.0:
            raise ValueError(f"power must lie in 0..1; got {power}")
        if shrinkage is not None and not 0.0 <= shrinkage <= 1.0:
            raise ValueError(f"`shrinkage` must lie in 0..1; got {shrinkage}")
        if not self.within.fourth.isfinite():
            raise ValueError("the vectors contain NaN or infinity")
        covariance = self.within.covariance(ddof=0)
        if not self.within.count or covariance.trace().sqrt() <= self.texts.rounding:
            raise ValueError(
                f"expected pairs of different texts; got {self.within.count}, all of equal texts"
            )
        if shrinkage is None:
            shrinkage = max(SHRINKAGE, self.within.ledoit_wolf())
        values, axes = inverse_sqrt.eigensystem(regularise(covariance, shrinkage=shrinkage))
        present = values.sqrt() > self.texts.rounding
        return (axes * torch.where(present, values, 1.0) ** (-power / 2) * present) @ axes.T
