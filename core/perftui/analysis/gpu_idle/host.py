"""What a CPU thread was doing at each moment, as far as the trace tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, Intervals, subtract, union, unite
from perftui.analysis.kinds import Mask
from perftui.analysis.model import GapCause
from perftui.trace.model import NONE, Trace

States = Mapping[GapCause, Intervals]
"""Exclusive: at most one of them covers any moment."""

_BY_PRECEDENCE = (
    GapCause.INPUT_WAIT,
    GapCause.PROFILER,
    GapCause.ALLOCATION,
    GapCause.SYNCHRONISATION,
    GapCause.LAUNCH,
)
"""A moment in several of these counts as the first: an operator that runs while a batch is fetched
is part of the fetch, the memory an operator gets from the driver is allocation."""


@dataclass(frozen=True, eq=False)
class Host:
    """The CPU side of a trace."""

    trace: Trace

    @cached_property
    def span(self) -> Intervals:
        """From the first to the last thing recorded on any CPU thread; empty if there is none."""
        rows = kinds.on_cpu(self.trace)
        if not rows.any():
            return EMPTY
        return union(
            self.trace.start[rows].min(keepdims=True), self.trace.ends_of(rows).max(keepdims=True)
        )

    @cached_property
    def main_track(self) -> int:
        """The thread that trains: that with most time in steps, fetches and optimizer, or else in
        operators and calls; NONE without any of them."""
        for rows in (self._marks, self._busy):
            if rows.any():
                weights = self.trace.duration[rows].astype(float) + 1
                return int(np.argmax(np.bincount(self.trace.track[rows], weights)))
        return NONE

    @cached_property
    def _marks(self) -> Mask:
        trace = self.trace
        steps = kinds.ranges(trace) & kinds.named(trace, kinds.STEP.match)
        own = kinds.ranges(trace) & kinds.named(trace, lambda name: name.startswith(kinds.OWN_MARK))
        return steps | own | kinds.fetches(trace) | kinds.optimizer(trace)

    @cached_property
    def _busy(self) -> Mask:
        return kinds.operators(self.trace) | kinds.launches(self.trace)

    @cached_property
    def _kinds(self) -> Mapping[GapCause, Mask]:
        trace = self.trace
        return {
            GapCause.INPUT_WAIT: kinds.input_wait(trace),
            GapCause.PROFILER: kinds.profiling(trace),
            GapCause.ALLOCATION: kinds.allocating(trace),
            GapCause.SYNCHRONISATION: kinds.synchronising(trace),
            GapCause.LAUNCH: self._busy,
        }

    def states(self, track: int) -> States:
        """States of the thread that launches from ``track``.

        While the autograd engine's thread does nothing recorded, the main thread's state counts:
        it is the one that hands out the work. What is left of ``span`` is Python.
        """
        own = self._recorded(track)
        if track == self.main_track or self.main_track == NONE:
            recorded = own
        else:
            mine = unite(*own.values())
            others = self._recorded(self.main_track)
            recorded = {
                cause: unite(own[cause], subtract(others[cause], mine)) for cause in _BY_PRECEDENCE
            }
        rest = subtract(self.span, unite(*recorded.values()))
        return {**recorded, GapCause.PYTHON: rest}

    def _recorded(self, track: int) -> States:
        here = (self.trace.track == track) | kinds.of_any_thread(self.trace)
        taken, states = EMPTY, {}
        for cause in _BY_PRECEDENCE:
            rows = here & self._kinds[cause]
            covered = union(self.trace.start[rows], self.trace.ends_of(rows))
            states[cause] = subtract(covered, taken)
            taken = unite(taken, covered)
        return states
