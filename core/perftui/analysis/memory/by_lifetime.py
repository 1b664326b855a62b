"""What memory is for, by where in the training it was taken and when it was released."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis.memory.over_time import Category
from perftui.trace.model import Int64

Mask = npt.NDArray[np.bool_]

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
