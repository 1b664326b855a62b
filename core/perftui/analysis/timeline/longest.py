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
    """Answers which of ``values[begin:stop]`` is the largest: compiled, in time that grows with the
    number of questions and hardly with the number of values, by maxima of blocks, of blocks of
    blocks, and so on. Else by looking at every value, which is as fast up to a million."""

    def __init__(self, values: Int64, places: Int64 | None = None) -> None:
        self._values = values
        self._places = places

    def argmax(self, begin: Int64, stop: Int64) -> Int64:
        """The first position of the largest value in each ``[begin, stop)``, -1 where that is
        empty."""
        compiled = native.compiled()
        if compiled:
            return native.longest(compiled, self.blocks, begin, stop)
        found = np.full(len(begin), -1, dtype=np.int64)
        asked = np.flatnonzero(stop > begin)
        stretches = zip(begin[asked].tolist(), stop[asked].tolist(), strict=True)
        found[asked] = [low + int(self._values[low:high].argmax()) for low, high in stretches]
        return found

    @cached_property
    def blocks(self) -> native.Blocks:
        """For the compiled loops."""
        places = block_maxima(self._values) if self._places is None else self._places
        levels = _levels(len(self._values))
        return native.Blocks(_SHIFT, self._values, self._values[places], places, levels)


def block_maxima(values: Int64) -> Int64:
    """The first position of the largest value of each block, level after level from the narrow
    blocks to the wide; ``LongestIndex`` finds them itself where it is not given them."""
    width = 1 << _SHIFT
    levels = [np.zeros(0, dtype=np.int64)]
    places, maxima = np.arange(len(values), dtype=np.int64), values
    while len(maxima) > 1:
        rest = np.full(-len(maxima) % width, np.iinfo(np.int64).min)
        inside = np.append(maxima, rest).reshape(-1, width).argmax(axis=1)
        found = np.arange(0, len(maxima), width) + inside
        places, maxima = places[found], maxima[found]
        levels.append(places)
    return np.concatenate(levels)


def _levels(values: int) -> Int64:
    """Where each level begins in ``block_maxima`` of so many values, and where the last ends."""
    begins = [0]
    while values > 1:
        values = -(-values >> _SHIFT)
        begins.append(begins[-1] + values)
    return np.array(begins, dtype=np.int64)
