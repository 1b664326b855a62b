"""Memory of one device as a step function, by category."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis.memory.lifetimes import Lifetimes
from perftui.trace.model import NONE, Int64


class Category(enum.IntEnum):
    """What memory is for; ``by_lifetime`` says how each is recognised."""

    BEFORE = 0
    """Held when the recording began: what for is not known."""
    PARAMETERS = 1
    OPTIMIZER = 2
    """The optimizer's state."""
    GRADIENTS = 3
    ACTIVATIONS = 4
    """Made by the forward pass and held for the backward pass."""
    TEMPORARY = 5
    """Released in the same forward pass, backward pass or optimizer step that took it."""
    OTHER = 6
    """No evidence what it is for."""

    @property
    def label(self) -> str:
        """What it is called on screen and in reports."""
        return _LABELS[self]


_LABELS = {
    Category.BEFORE: "held before the recording",
    Category.PARAMETERS: "parameters",
    Category.OPTIMIZER: "optimizer state",
    Category.GRADIENTS: "gradients",
    Category.ACTIVATIONS: "activations",
    Category.TEMPORARY: "temporary",
    Category.OTHER: "other",
}


@dataclass(frozen=True)
class CategoryUse:
    """What one category held at the peak."""

    category: Category
    bytes: int
    blocks: int | None
    """None where they were not seen: of what was held before the recording, and of files that do
    not name blocks."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A step function in columns of equal width: each shows the highest moment within it."""

    parts: Int64
    """A row for each ``Category``, a column for each of the chart; they sum to the level."""
    reserved: Int64 | None
    """Held by the allocator at the same moments; None where it is not known."""
    peak: int
    """The column of the peak."""


@dataclass(frozen=True, eq=False)
class MemoryOverTime:
    """Bytes held on one device: a point for the start and one for each event that changes them.

    ``parts[:, i]`` holds from ``time[i]`` until ``time[i + 1]``.
    """

    device: int
    """NONE for the CPU."""
    time: Int64
    """ns, never falling; numbers of events where ``timed`` is False."""
    parts: Int64
    """A row for each ``Category``; their sum is the level."""
    peak_blocks: tuple[int, ...]
    """Blocks at the peak of which the allocation was seen, by category."""
    reserved: Int64 | None = None
    """Held by the caching allocator at each point; None where it is not known."""
    timed: bool = True
    absolute: bool = True
    """Whether what was held before the recording is known; else it may have been more."""

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def level(self) -> Int64:
        """Bytes held at each point."""
        total: Int64 = self.parts.sum(axis=0)
        return total

    @cached_property
    def peak(self) -> int:
        """The first point at which most is held."""
        return int(np.argmax(self.level))

    @cached_property
    def has_categories(self) -> bool:
        """Whether anything is known to be for something."""
        known = self.parts[Category.PARAMETERS : Category.OTHER]
        return bool(known.any())

    @property
    def span(self) -> int:
        """From the first point to the last, in the unit of ``time``."""
        return int(self.time[-1] - self.time[0])

    def at_peak(self) -> tuple[CategoryUse, ...]:
        """Categories that hold something at the peak, in order; they sum to the level."""
        sizes = self.parts[:, self.peak].tolist()
        return tuple(
            CategoryUse(category, size, blocks or None)
            for category, size, blocks in zip(Category, sizes, self.peak_blocks, strict=True)
            if size
        )

    def columns(self, count: int) -> Columns:
        """The whole time in ``count`` columns, each at the highest moment within it.

        A moment on the edge of two columns counts in both, so the peak is in one of them.
        """
        steps = np.arange(count + 1) * (self.span / count)
        edges = self.time[0] + np.rint(steps).astype(np.int64)
        begin = np.searchsorted(self.time, edges[:-1], side="left")
        begin -= self.time[np.minimum(begin, len(self) - 1)] > edges[:-1]
        end = np.maximum(np.searchsorted(self.time, edges[1:], side="right"), begin + 1)
        level = self.level
        shown = np.array(
            [one + int(np.argmax(level[one : end[at]])) for at, one in enumerate(begin.tolist())]
        )
        reserved = None if self.reserved is None else self.reserved[shown]
        return Columns(self.parts[:, shown], reserved, int(np.argmax(level[shown])))


def over_time(
    device: int,
    time: Int64,
    sizes: Int64,
    lives: Lifetimes,
    category: Int64,
    before: int | None,
    reserved: Int64 | None = None,
    timed: bool = True,
) -> MemoryOverTime:
    """Replay the blocks of events at ``time``, of ``sizes`` bytes each, at least one event.

    ``category`` has one entry for each of ``lives``; blocks without a seen allocation are held
    before the recording. ``before`` is all that was held then, None where that is not known: then
    it is what was released of it. ``reserved`` has an entry for each event, which tells what is
    held after it, or one more, the first of which is of the start.
    """
    rows, seen = len(time), lives.first != NONE
    first, last = lives.first[seen], lives.last[seen]
    freed_older = lives.last[~seen]
    older = int(sizes[freed_older].sum())
    known = before is not None and before >= older
    changes = np.zeros((len(Category), rows + 1), np.int64)
    changes[Category.BEFORE, 0] = before if before is not None and known else older
    changes[Category.BEFORE, freed_older + 1] -= sizes[freed_older]
    # An event takes one block at most and ends one at most, so no index comes twice.
    changes[category[seen], first + 1] += sizes[first]
    ended = last < rows
    changes[category[seen][ended], last[ended] + 1] -= sizes[first[ended]]
    parts = np.cumsum(changes, axis=1)
    peak = int(np.argmax(parts.sum(axis=0))) - 1
    held = (first <= peak) & (last > peak)
    blocks = np.bincount(category[seen][held], minlength=len(Category))
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=tuple(blocks.tolist()),
        reserved=reserved if reserved is None or len(reserved) > rows else _with_start(reserved),
        timed=timed,
        absolute=known,
    )


def without_blocks(
    device: int, time: Int64, change: Int64, before: int | None, reserved: Int64 | None
) -> MemoryOverTime:
    """Memory of which only the changes are known, not the blocks: all of it is other.

    Where what was held before is not known either, it is what makes the lowest level 0.
    """
    level = np.concatenate([[0], np.cumsum(change)])
    lowest = -int(level.min())
    known = before is not None and before >= lowest
    parts = np.zeros((len(Category), len(level)), np.int64)
    parts[Category.OTHER] = level + (before if before is not None and known else lowest)
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=(0,) * len(Category),
        reserved=None if reserved is None else _with_start(reserved),
        absolute=known,
    )


def _with_start(column: Int64) -> Int64:
    """One entry for each event, with that of the start before them."""
    whole: Int64 = np.concatenate([column[:1], column])
    return whole
