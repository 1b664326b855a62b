"""Where the longest of any stretch of values is, for many stretches at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from perftui.trace.columns import native
from perftui.trace.model import Int64

_SHIFT = 4
"""A block is ``2 ** _SHIFT`` values, or as many blocks of the level below: of a stretch, fewer than
that are looked at on each level at each of its ends."""


class LongestIndex:
    """Answers which of ``values[begin:stop]`` is the largest, in time that grows with the number of
    questions and hardly with the number of values: by maxima of blocks, of blocks of blocks, and so
    on."""

    def __init__(self, values: Int64, places: Int64 | None = None) -> None:
        self._values = values
        self._places = block_maxima(values) if places is None else places
        self._maxima: Int64 = values[self._places]
        self._levels = _levels(len(values))

    def argmax(self, begin: Int64, stop: Int64) -> Int64:
        """The first position of the largest value in each ``[begin, stop)``, -1 where that is
        empty."""
        compiled = native.compiled()
        if compiled:
            return native.longest(compiled, self.blocks, begin, stop)
        return self._found(0, begin, stop)

    @cached_property
    def blocks(self) -> native.Blocks:
        """For the compiled loops."""
        return native.Blocks(_SHIFT, self._values, self._maxima, self._places, self._levels)

    def _found(self, level: int, begin: Int64, stop: Int64) -> Int64:
        """``argmax`` of stretches of whole blocks of one level, of values on level 0."""
        if level == len(self._levels) - 1 or not np.any(stop > begin):
            return self._looked_at(level, begin, stop)
        width = 1 << _SHIFT
        first, behind = -(-begin // width), stop // width
        whole = behind > first
        left = self._looked_at(level, begin, np.where(whole, first * width, stop))
        right = self._looked_at(level, np.where(whole, behind * width, stop), stop)
        middle = self._found(level + 1, first, np.where(whole, behind, first))
        return self._larger(self._larger(left, middle), right)

    def _looked_at(self, level: int, begin: Int64, stop: Int64) -> Int64:
        """``argmax`` on one level, by looking at every block, or value."""
        if level == 0:
            return _argmax(self._values, begin, stop)
        blocks = slice(self._levels[level - 1], self._levels[level])
        found = _argmax(self._maxima[blocks], begin, stop)
        return np.where(found < 0, -1, self._places[blocks][found])

    def _larger(self, earlier: Int64, later: Int64) -> Int64:
        """Of two positions that may be -1 the one with the larger value, the earlier of equals."""
        better = (earlier < 0) | ((later >= 0) & (self._values[later] > self._values[earlier]))
        return np.where(better, later, earlier)


def block_maxima(values: Int64) -> Int64:
    """The first position of the largest value of each block, level after level from the narrow
    blocks to the wide; ``LongestIndex`` finds them itself where it is not given them."""
    width = 1 << _SHIFT
    levels = [np.zeros(0, dtype=np.int64)]
    maxima, places = values, None
    while len(maxima) > 1:
        begins = np.arange(0, len(maxima), width, dtype=np.int64)
        found = _argmax(maxima, begins, np.minimum(begins + width, len(maxima)))
        places = found if places is None else places[found]
        levels.append(places)
        maxima = maxima[found]
    return np.concatenate(levels)


def _levels(values: int) -> Int64:
    """Where each level begins in ``block_maxima`` of so many values, and where the last ends."""
    begins = [0]
    while values > 1:
        values = -(-values >> _SHIFT)
        begins.append(begins[-1] + values)
    return np.array(begins, dtype=np.int64)


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
