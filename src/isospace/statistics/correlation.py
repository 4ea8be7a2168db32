"""Cosine of rows and the two correlations that STS is scored with."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

FloatArray: TypeAlias = NDArray[np.float64]


def cosine(x: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    """Return the cosine of `x[i]` and `y[i]`; 0 if it is undefined (a zero row, NaN).

    It is computed in float64 and rounded to float32. So equal rows have exactly 1, and pairs of
    equal sentences tie. Otherwise the last bit would order them, which changes Spearman by up to
    0.0007 in a set with many of them (STS12's SMTeuroparl: 65 of 459).

    >>> cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]]))
    array([0.95999998, 0.        ])
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))
    return np.where(np.isfinite(values), values, 0.0).astype(np.float32).astype(np.float64)


def pearson(x: FloatArray, y: FloatArray) -> float:
    """Return Pearson's correlation; 0 if a column is constant.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([6.0, 4.0, 2.0])), 6)
    -1.0
    """
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1.0, 1.0))


def spearman(x: FloatArray, y: FloatArray) -> float:
    """Return Spearman's correlation: Pearson's of the ranks, with ties at their mean rank.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 9.0])), 6)
    0.5
    """
    return pearson(rankdata(x), rankdata(y))
