"""Where the longest of any range of values is, for many ranges at once.

Compiled, in time that grows with the number of ranges and hardly with the number of values: by
maxima of blocks, of blocks of blocks, and so on. Else by looking at every value, which is as fast
up to a million.
"""

from __future__ import annotations

import numpy as np

from perftui.trace.columns import native
from perftui.trace.model import Int64

_SHIFT = 4
"""A block is ``2 ** _SHIFT`` values, or as many blocks of the level below: of a range, fewer than
that are visited on each level at each of its ends."""


def longest(values: Int64, begin: Int64, stop: Int64) -> Int64:
    """The first position of the largest value in each ``[begin, stop)``, -1 where that is empty."""
    found = np.full(len(begin), -1, dtype=np.int64)
    asked = np.flatnonzero(stop > begin)
    ranges = zip(begin[asked].tolist(), stop[asked].tolist(), strict=True)
    found[asked] = [low + int(values[low:high].argmax()) for low, high in ranges]
    return found


def block_maxima(values: Int64) -> Int64:
    """The first position of the largest value of each block, level after level from the narrow
    blocks to the wide."""
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


def blocks(values: Int64, places: Int64) -> native.Blocks:
    """What the compiled loops search; ``places`` are the ``block_maxima`` of ``values``."""
    begins, rest = [0], len(values)
    while rest > 1:
        rest = -(-rest >> _SHIFT)
        begins.append(begins[-1] + rest)
    levels = np.array(begins, dtype=np.int64)
    return native.Blocks(_SHIFT, values, values[places], places, levels)
