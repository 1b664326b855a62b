"""Where the longest of any stretch of values is, for many stretches at once."""

from __future__ import annotations

import numpy as np

from perftui.trace import native
from perftui.trace.model import Int64

_WIDTH = 16
"""Values in a block: of a stretch, at most this many at each end are looked at one by one."""


class LongestIndex:
    """Answers which of ``values[begin:stop]`` is the largest, in time that grows with the number of
    questions and hardly with the number of values: maxima of blocks, of blocks of blocks, and so
    on."""

    def __init__(self, values: Int64, places: Int64 | None = None) -> None:
        self._values = values
        self._places = block_maxima(values) if places is None else places
        self._maxima: Int64 = values[self._places]
        self._blocks: LongestIndex | None = None
        if len(values) > _WIDTH * _WIDTH and native.compiled() is None:
            self._blocks = LongestIndex(self._maxima)

    def argmax(self, begin: Int64, stop: Int64) -> Int64:
        """The first position of the largest value in each ``[begin, stop)``, -1 where that is
        empty."""
        compiled = native.compiled()
        if compiled:
            blocks = self._maxima, self._places
            return native.longest(compiled, self._values, _WIDTH, blocks, begin, stop)
        if self._blocks is None or not np.any(stop > begin):
            return _argmax(self._values, begin, stop)
        first, behind = -(-begin // _WIDTH), stop // _WIDTH
        whole = behind > first
        left = _argmax(self._values, begin, np.where(whole, first * _WIDTH, stop))
        right = _argmax(self._values, np.where(whole, behind * _WIDTH, stop), stop)
        block = self._blocks.argmax(first, np.where(whole, behind, first))
        middle = np.where(block < 0, -1, self._places[block])
        return self._larger(self._larger(left, middle), right)

    def _larger(self, earlier: Int64, later: Int64) -> Int64:
        """Of two positions that may be -1 the one with the larger value, the earlier of equals."""
        better = (earlier < 0) | ((later >= 0) & (self._values[later] > self._values[earlier]))
        return np.where(better, later, earlier)


def block_maxima(values: Int64) -> Int64:
    """The first position in each block of ``values`` that holds its largest; ``LongestIndex`` finds
    them itself where it is not given them."""
    begins = np.arange(0, len(values), _WIDTH, dtype=np.int64)
    return _argmax(values, begins, np.minimum(begins + _WIDTH, len(values)))


def _argmax(values: Int64, begin: Int64, stop: Int64) -> Int64:
    """``LongestIndex.argmax`` by looking at every value."""
    found = np.full(len(begin), -1, dtype=np.int64)
    asked = np.flatnonzero(stop > begin)
    if not len(asked):
        return found
    lengths = (stop - begin)[asked]
    offsets = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(begin[asked] - offsets, lengths)
    chosen = values[places]
    hits = np.flatnonzero(chosen == np.repeat(np.maximum.reduceat(chosen, offsets), lengths))
    found[asked] = places[hits[np.searchsorted(hits, offsets)]]
    return found
