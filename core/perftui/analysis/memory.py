"""Which release belongs to which allocation."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int64, Mask


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Every block that a list of events saw: row of its allocation and of its release, one of which
    may be missing."""

    first: Int64
    """NONE where it was allocated before the events."""
    last: Int64
    """One behind the events where it was not released."""

    @classmethod
    def of(cls, address: npt.NDArray[Any], allocated: Mask, released: Mask) -> Lifetimes:
        """The blocks of events in their order, each of which does one of both or neither.

        An address that is handed out again without a release ends the block that had it.
        """
        rows = np.flatnonzero(allocated | released)
        rows = rows[np.argsort(address[rows], kind="stable")]
        own, alloc = address[rows], allocated[rows]
        same = np.zeros(len(rows) + 1, np.bool_)
        same[1:-1] = own[1:] == own[:-1]
        following = np.append(rows[1:], len(address))
        ends = np.where(same[1:], following, len(address))
        began = np.append(False, alloc[:-1]) & same[:-1]
        orphans = ~alloc & ~began
        first = np.concatenate([rows[alloc], np.full(int(orphans.sum()), NONE)])
        return cls(first.astype(np.int64), np.concatenate([ends[alloc], rows[orphans]]))


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


NEVER = np.iinfo(np.int64).max
"""When memory is released that is still held as the recording ends."""


class Phase(enum.IntEnum):
    """What the training did."""

    UNKNOWN = 0
    SETUP = 1
    """A module was made, moved to a device or changed in type."""
    FORWARD = 2
    """Anything in the script that is none of the others."""
    BACKWARD = 3
    OPTIMIZER = 4


@dataclass(frozen=True, eq=False)
class Allocations:
    """Allocations on one axis of time, which may be the number of the event; equal lengths."""

    taken: Int64
    released: Int64
    """``NEVER`` where it is still held as the recording ends."""
    phase: Int64
    """A ``Phase``."""
    of_module: Mask
    """Taken within a call of an ``nn.Module``."""
    of_state: Mask
    """Taken where torch's optimizers make their state."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Phases one after the other: each lasts until the next begins, the last one for ever."""

    start: Int64
    phase: Int64

    @classmethod
    def of(cls, time: Int64, phase: Int64) -> Runs:
        """Runs of equal phases, of marks in any order; unknown ones are left out."""
        known = phase != Phase.UNKNOWN
        order = np.argsort(time[known], kind="stable")
        time, phase = time[known][order], phase[known][order]
        begins = np.ones(len(time), np.bool_)
        begins[1:] = phase[1:] != phase[:-1]
        return cls(time[begins], phase[begins])

    def end_of(self, times: Int64) -> Int64:
        """When the run ends that each of ``times`` lies in; ``NEVER`` for the last."""
        ends: Int64 = np.append(self.start, NEVER)[np.searchsorted(self.start, times, "right")]
        return ends

    def next_start(self, phase: Phase, times: Int64) -> Int64:
        """When the first run of ``phase`` after each of ``times`` begins; ``NEVER`` without one."""
        starts = self.start[self.phase == phase]
        return np.append(starts, NEVER)[np.searchsorted(starts, times, "right")]


def categories(made: Allocations, runs: Runs, cut: bool = False) -> Int64:
    """The ``Category`` of each allocation; ``cut`` says that the last phase was not at its end.

    - optimizer state: taken in an optimizer step and held longer than it, or taken where torch's
      optimizers make their state. What is held where a step was cut off is other.
    - gradients: taken in a backward pass and held longer, or as it is cut off.
    - parameters: taken as a module is made or moved, and held longer than that.
    - activations: taken in a forward pass, held as the next backward pass begins, and released
      within it. So is what a module's call made and the script holds on to, until the backward
      pass after that at most: the model's output. Where no backward pass follows in the recording
      it is what a module's call made and is held at its end.
    - temporary: released before the phase that took it ends, or the backward pass begins.
    - other: all else, such as batches, losses that are kept, and whatever no phase is known of.
    """
    found = np.full(len(made.taken), int(Category.OTHER), np.int64)
    end = runs.end_of(made.taken)
    outlives = made.released >= end
    for phase, category in _LASTING.items():
        own = made.phase == phase
        found[own & outlives] = category
        found[own & ~outlives] = Category.TEMPORARY
    if cut:
        found[(made.phase == Phase.OPTIMIZER) & (end == NEVER) & outlives] = Category.OTHER
    found[made.of_state] = Category.OPTIMIZER
    forward = made.phase == Phase.FORWARD
    begins = runs.next_start(Phase.BACKWARD, made.taken)
    followed = begins != NEVER
    ends = np.where(followed, runs.end_of(begins), NEVER)
    again = np.where(followed, runs.next_start(Phase.BACKWARD, begins), NEVER)
    released = made.released != NEVER
    in_backward = followed & (made.released >= begins) & released & (made.released <= ends)
    # A pass that the recording ends in has no end: what a module made is still held for it.
    in_backward |= made.of_module & followed & (ends == NEVER) & ~released
    kept = made.of_module & (made.released >= begins) & (made.released <= again)
    kept &= released | (again == NEVER)
    found[forward & (made.released < begins)] = Category.TEMPORARY
    found[forward & ~followed & released] = Category.TEMPORARY
    found[forward & ~followed & ~released & made.of_module] = Category.ACTIVATIONS
    found[forward & (in_backward | (followed & kept))] = Category.ACTIVATIONS
    return found


_LASTING = {
    Phase.SETUP: Category.PARAMETERS,
    Phase.BACKWARD: Category.GRADIENTS,
    Phase.OPTIMIZER: Category.OPTIMIZER,
}
"""What is held longer than the phase that took it."""
