"""Is a difference a difference? Paired bootstrap and the verdict that is made of it.

Source: the percentile bootstrap over test items (Efron & Tibshirani 1993, chapter 13), paired as in
Koehn 2004. It measures how far a gain depends on the choice of test items, not on the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.statistics.correlation import FloatArray

RESAMPLES = 10_000
CONFIDENCE = 0.95

SMALLEST_GAIN = 0.01
"""The smallest gain worth having: one point of 100.

A judgement, not an estimate: less is seldom worth another model to keep and new vectors for all
texts, however sure it is.
"""

_CHUNK_ENTRIES = 1 << 20  # resampled items held at once: 8 MB an array


@dataclass(frozen=True)
class Interval:
    """A gain (after - before) with its bootstrap interval, in the units of the score."""

    gain: float
    low: float
    high: float
    p: float
    """Two-sided: twice the smaller share of resamples on either side of zero."""
    n: int
    """Number of test items."""

    def __str__(self) -> str:
        """The gain of a score from 0 to 1, in points of 100."""
        return (
            f"{100 * self.gain:+.2f} points (95 % interval {100 * self.low:+.2f} to "
            f"{100 * self.high:+.2f})"
        )


class VerdictKind(str, Enum):
    """The three things a comparison can say."""

    ADAPTED = "adapted"
    NO_DIFFERENCE = "no difference worth having"
    KEEP_START = "keep the start"


@dataclass(frozen=True)
class Verdict:
    """What a comparison says, in one word and in one sentence."""

    kind: VerdictKind
    text: str
    protocol: str
    interval: Interval


def paired_bootstrap(
    before: FloatArray, after: FloatArray, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Gain of the mean of per-item scores, such as reciprocal ranks, resampling the items.

    `before` and `after` are the scores of the same items in the same order, `(item,)`.
    """
    _require_same_items(before, after)
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    [gains] = resampled_means(difference[None], resamples, seed)
    return _interval(float(difference.mean()), gains, len(difference))


def resampled_means(rows: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Mean of each row (row, item) in each bootstrap resample of the items, (row, resample)."""
    n = rows.shape[1]
    parts = [
        # Row by row: one product of all would give equal rows unequal last bits.
        np.stack([counts @ row / n for row in rows])
        for counts in _counts(n, resamples, seed)
    ]
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class PairSet:
    """Pairs that were scored by people and by several encoders.

    Attributes:
        columns: (column, pair) cosines, a column an encoder.
        gold: (pair,).
        ids: (pair,) of each pair; equal for one pair that stands in several sets, or twice in one.
    """

    columns: FloatArray
    gold: FloatArray
    ids: NDArray[np.int64]


def resampled_spearmans(sets: Sequence[PairSet], resamples: int, seed: int) -> list[FloatArray]:
    """Spearman of each column with gold in each bootstrap resample of the pairs of all sets.

    A pair that is drawn is drawn for every set that has it: sets that share pairs vary together.
    Exact, and without a sort per resample: a resample is a count for each pair, and the mean rank
    of a value in it is the number of drawn pairs below it plus half of those that equal it.

    Returns:
        (column, resample) of each set.
    """
    all_ids = np.concatenate([pairs.ids for pairs in sets])
    distinct_ids, places = np.unique(all_ids, return_inverse=True)
    ends = np.cumsum([len(pairs.ids) for pairs in sets])[:-1]
    places_by_set = np.split(places, ends)
    prepared = [([_Column(row) for row in pairs.columns], _Column(pairs.gold)) for pairs in sets]
    chunks_by_set: list[list[FloatArray]] = [[] for _ in sets]
    for drawn in _counts(len(distinct_ids), resamples, seed):
        for chunks, (columns, gold), places in zip(
            chunks_by_set, prepared, places_by_set, strict=True
        ):
            counts = drawn[:, places]
            gold_ranks = gold.ranks(counts)
            correlations = [
                _weighted_pearson(column.ranks(counts), gold_ranks, counts) for column in columns
            ]
            chunks.append(np.stack(correlations))
    return [np.concatenate(chunks, axis=1) for chunks in chunks_by_set]


def judge(interval: Interval, protocol: str, start_kept: str | None = None) -> Verdict:
    """Say what a gain means.

    - "adapted": the interval lies above zero and the gain is at least `SMALLEST_GAIN`;
    - "keep the start": the interval lies below zero, or selection kept the start;
    - "no difference worth having": all else, also a gain that too few items leave uncertain.

    Args:
        interval: of the gain, in units of 0 to 1.
        protocol: how the scores were made, for the sentence.
        start_kept: why selection kept the starting encoder, where it did.
    """
    if start_kept is not None or interval.high < 0:
        kind = VerdictKind.KEEP_START
    elif interval.low > 0 and interval.gain >= SMALLEST_GAIN:
        kind = VerdictKind.ADAPTED
    else:
        kind = VerdictKind.NO_DIFFERENCE
    reason = start_kept or _reason(kind, interval)
    text = f"{kind.value.capitalize()}: {interval} in {protocol}, n = {interval.n:,}; {reason}."
    return Verdict(kind, text, protocol, interval)


def _reason(kind: VerdictKind, interval: Interval) -> str:
    smallest = f"{100 * SMALLEST_GAIN:.2f}"
    if kind is VerdictKind.KEEP_START:
        return "the adapted encoder is worse"
    if kind is VerdictKind.ADAPTED:
        return f"the interval lies above zero and the gain is at least {smallest} points"
    if interval.low <= 0:
        return "the interval includes zero"
    return f"less than the {smallest} points worth having"


class _Column:
    """One column of values, prepared for ranking inside many resamples."""

    def __init__(self, values: FloatArray) -> None:
        distinct, self._group = np.unique(values, return_inverse=True)
        self._order = np.argsort(self._group, kind="stable")
        self._starts = np.searchsorted(self._group[self._order], np.arange(len(distinct)))

    def ranks(self, counts: FloatArray) -> FloatArray:
        """Mean rank, from 0, of each item in each resample, `(resample, item)`."""
        drawn = np.add.reduceat(counts[:, self._order], self._starts, axis=1)
        below = np.cumsum(drawn, axis=1) - drawn
        ranks: FloatArray = (below + (drawn - 1) / 2)[:, self._group]
        return ranks


def _weighted_pearson(x: FloatArray, y: FloatArray, counts: FloatArray) -> FloatArray:
    """Pearson's correlation of ranks in each resample, `(resample,)`; 0 where one is constant."""
    # The mean rank of n drawn items is (n - 1) / 2, whichever they are.
    middle = (counts.sum(axis=1, keepdims=True) - 1) / 2
    x, y = x - middle, y - middle
    covariance = np.einsum("rn,rn,rn->r", counts, x, y)
    scale = np.sqrt(np.einsum("rn,rn,rn->r", counts, x, x) * np.einsum("rn,rn,rn->r", counts, y, y))
    correlation: FloatArray = covariance / np.where(scale > 0, scale, 1.0)
    return correlation


def _counts(n: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """How often each of n items is drawn in each resample, `(resample, item)`, in chunks."""
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK_ENTRIES // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        draws = random.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(draws.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _interval(gain: float, gains: FloatArray, n: int) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(gains, [tail, 1 - tail])
    smaller = min((gains <= 0).mean(), (gains >= 0).mean())
    # A share of zero would claim more than this many resamples can show.
    p = min(1.0, 2 * max(float(smaller), 1 / len(gains)))
    return Interval(gain, float(low), float(high), p, n)


def _require_same_items(*columns: NDArray[Any]) -> None:
    shapes = [np.shape(column) for column in columns]
    if len(set(shapes)) != 1 or len(shapes[0]) != 1 or shapes[0][0] < 2:
        raise ValueError(f"expected vectors of the same two or more items, got shapes {shapes}")
