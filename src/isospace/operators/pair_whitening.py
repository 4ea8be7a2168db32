r"""Whitening by pairs: a map fitted once on texts that belong together, without training.

With vectors x_i and y_i of the two texts of pair i, the covariance *within* pairs is

$$W = \frac{1}{2 n} \sum_i (x_i - y_i) (x_i - y_i)^T,$$

what varies between texts that should be close. The map shortens such directions:

$$x \mapsto x \, W_\rho^{-p/2} R, \qquad
  W_\rho = (1 - \rho) W + \rho \frac{\mathrm{tr} W}{d} I,$$

for a power p and a shrinkage rho. R turns the result to the principal axes of all texts, largest
variance first, so that vectors can be cut anywhere; it changes no cosine. No mean is removed: the
vectors are those before an encoder's closing normalisation, and the difference between the means of
the two sides is part of W.

Sources: relevant component analysis (Bar-Hillel et al., ICML 2003); within-class covariance
normalisation in speaker recognition (Hatch et al., Interspeech 2006); learned whitening in image
retrieval (Mikolajczyk & Matas, ICCV 2007; Radenovic et al., TPAMI 2018, who add R).

Relations: BERT-whitening (Su et al. 2021, `fitted_whitening`) uses the covariance of all texts. It
shortens what varies much, even where that tells texts apart. WhitenedCSE whitens batches while it
trains. Linear discriminant analysis whitens by W too, and keeps the directions in which the
whitened classes differ most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from isospace.operators import inverse_sqrt
from isospace.operators.fitted_whitening import Moments, WhiteningMap
from isospace.operators.whitening import regularise

SHRINKAGE = 0.25
"""The least shrinkage. Ledoit and Wolf's is best for further pairs of the corpus; other text loses
less with at least this share."""


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Sums over pairs, from which a map is fitted; `a + b` merges two sets exactly.

    Attributes:
        within: of the differences (x_i - y_i) / sqrt 2. Each pair counts in both orders, so that
            their mean is zero.
        texts: of all texts, two a pair; they decide R alone.

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
            ValueError: no matrices, or matrices of different shapes.
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
        """Return the map for both sides of a search, in float64.

        Args:
            power: p, 0 to 1; 0 leaves the cosines as they are.
            shrinkage: rho, 0 to 1; default: Ledoit and Wolf's, `SHRINKAGE` at least.
            dim: how many dimensions are kept, those of the largest variance; default: all.

        Raises:
            ValueError: a power or a shrinkage outside 0..1, too many dimensions, or pairs that
                nothing can be estimated from.
        """
        kernel = self._inverse_power(power, shrinkage)
        width = len(kernel)
        if dim is not None and not 1 <= dim <= width:
            raise ValueError(f"`dim` must lie in 1..{width}; got {dim}")
        _, axes = inverse_sqrt.eigensystem(kernel.T @ self.texts.covariance(ddof=0) @ kernel)
        return WhiteningMap(kernel.new_zeros(width), kernel @ axes[:, :dim])

    def fit_queries(self, power: float, *, shrinkage: float | None = None) -> WhiteningMap:
        r"""Return the map of queries alone, $q \mapsto q W_\rho^{-p}$; documents stay as they are.

        The inner product of two vectors that are both mapped by `fit` is $q W_\rho^{-p} x^T$. So
        mapping the query by the whole of it leaves the documents, and any index of them, untouched;
        only the documents' lengths are then those of before.

        The arguments are those of `fit`.
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
