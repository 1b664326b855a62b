"""Counts of values in narrow buckets, for quantiles of rows that are no longer kept."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

BUCKETS = 256
"""Buckets in each doubling of the value: one is 0.4 % wide, and values below 512 have one each."""

Histogram = Mapping[int, tuple[int, int]]
"""How many values each bucket has, and their sum."""

Ints = npt.NDArray[np.int64]


def histogram(values: Ints) -> dict[int, tuple[int, int]]:
    """The histogram of ``values``, none of them negative."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    buckets = exponent.astype(np.int64) * BUCKETS + (mantissa * 2 * BUCKETS).astype(np.int64)
    found, where = np.unique(buckets, return_inverse=True)
    counts = np.bincount(where, minlength=len(found))
    totals = np.zeros(len(found), dtype=np.int64)
    np.add.at(totals, where, values)
    pairs = zip(counts.tolist(), totals.tolist(), strict=True)
    return dict(zip(found.tolist(), pairs, strict=True))


def added(one: Histogram, other: Histogram) -> dict[int, tuple[int, int]]:
    """The histogram of the values of both."""
    both = dict(one)
    for bucket, (count, total) in other.items():
        before = both.get(bucket, (0, 0))
        both[bucket] = before[0] + count, before[1] + total
    return both


class Weighed:
    """Values known one by one together with those of which only a histogram is known.

    A value of the histogram is taken for the mean of its bucket, which is off by 0.4 % at most;
    without a histogram everything is exact.
    """

    def __init__(self, values: Ints, downsampled: Histogram | None = None) -> None:
        downsampled = downsampled or {}
        counts = [count for count, _ in downsampled.values()]
        totals = [total for _, total in downsampled.values()]
        counted = np.array(counts, dtype=np.int64)
        summed = np.array(totals, dtype=np.int64)
        means = summed // np.maximum(counted, 1)
        every = np.concatenate((values, means))
        order = np.argsort(every, kind="stable")
        self._values = every[order]
        self._totals = np.concatenate((values, summed))[order]
        self._weights = np.concatenate((np.ones(len(values), dtype=np.int64), counted))[order]
        self._ends = np.cumsum(self._weights)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def nearest_rank(self, percent: int) -> int:
        """The smallest value that at least ``percent`` of all do not exceed."""
        rank = max(-(-percent * len(self) // 100), 1)
        return int(self._values[np.searchsorted(self._ends, rank)])

    def trimmed_mean(self, share: int) -> int:
        """The mean without the smallest and the largest ``1 / share`` of the values."""
        cut = len(self) // share
        begins = self._ends - self._weights
        inside = np.clip(self._ends, cut, len(self) - cut) - np.clip(begins, cut, len(self) - cut)
        whole = inside == self._weights
        total = int(self._totals[whole].sum())
        total += int((self._values[~whole] * inside[~whole]).sum())
        return total // int(inside.sum())
