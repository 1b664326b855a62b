"""Events of one row of a timeline as few boxes: what is too narrow to be seen is united."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis.intervals import union
from perftui.trace.model import Int64

MOST_BOXES = 1_500
"""Boxes of a whole timeline: some 150 KB of SVG."""

GROWTH = 1.5
"""By how much more is united where there would be more boxes."""


@dataclass(frozen=True)
class Box:
    """One event, or several that are too narrow to be told apart; times in ns."""

    start: int
    end: int
    text: str
    """What is in it, for a person."""
    kind: str
    """What it counts as: a part of the step, or the cause of a gap."""
    name: str = ""
    """The name of the one event in it; empty of several."""

    @property
    def duration(self) -> int:
        """From the first start to the last end."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one row, in order of time and without overlaps; times in ns."""

    label: str
    start: Int64
    end: Int64
    describe: Callable[[int], tuple[str, str]]
    """Name and kind of the event of that number."""
    noun: str
    """What several of them are called: ``kernels``."""
    group: str = ""
    """Rows of one group share what their colours stand for."""

    @property
    def covered(self) -> int:
        """Time that any of them covers."""
        return union(self.start, self.end).total


def boxes_of(rows: Sequence[Events], least: int, most: int = MOST_BOXES) -> list[tuple[Box, ...]]:
    """The boxes of each row.

    Events shorter than ``least`` ns with less than that between them share a box; where more than
    ``most`` boxes would be left, longer ones do too. No event is left out.
    """
    least = max(least, 1)
    while sum(int(_begins(row, least).sum()) for row in rows) > most:
        least = int(least * GROWTH) + 1
    return [_boxes(row, least) for row in rows]


def _begins(row: Events, least: int) -> npt.NDArray[np.bool_]:
    """Which events begin a box."""
    begins = np.ones(len(row.start), dtype=np.bool_)
    wide = row.end - row.start >= least
    apart = row.start[1:] - row.end[:-1] >= least
    begins[1:] = wide[1:] | wide[:-1] | apart
    return begins


def _boxes(row: Events, least: int) -> tuple[Box, ...]:
    first = np.flatnonzero(_begins(row, least)).tolist()
    return tuple(
        _box(row, low, high) for low, high in zip(first, [*first[1:], len(row.start)], strict=True)
    )


def _box(row: Events, low: int, high: int) -> Box:
    durations = row.end[low:high] - row.start[low:high]
    longest = low + int(durations.argmax())
    name, kind = row.describe(longest)
    text, start, end = f"{name}, {fmt.duration(int(durations.max()))}", row.start[low], row.end
    if high - low == 1:
        return Box(int(start), int(end[low]), text, kind, name)
    whole = fmt.duration(int(durations.sum()))
    several = f"{high - low:,} {row.noun}, {whole} in all; the longest is {text}"
    return Box(int(start), int(end[high - 1]), several, kind)
