"""What a CPU thread was doing at each moment, as far as the trace shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.first_use import capturing, compiling, initialising
from perftui.analysis.gpu_idle.host_work import host_work
from perftui.analysis.intervals import EMPTY, Intervals, subtract, union, unite
from perftui.analysis.kinds import Mask
from perftui.analysis.model import GapCause
from perftui.analysis.once import once
from perftui.trace.model import NONE, Trace

States = Mapping[GapCause, Intervals]
"""Exclusive: at most one of them covers any moment."""

_BY_PRECEDENCE = (
    GapCause.INPUT_WAIT,
    GapCause.PROFILER,
    GapCause.COMPILATION,
    GapCause.INITIALISATION,
    GapCause.ALLOCATION,
    GapCause.SYNCHRONISATION,
    GapCause.CPU_OPERATORS,
    GapCause.LAUNCH,
)
"""A moment in several of these counts as the first: an operator that runs while a batch is fetched
is part of the fetch, the memory an operator gets from the driver is allocation."""

SHORT_PAUSE = 50_000
"""ns below which Python between two operators is on its way from one to the next: calls of modules
take 2 to 20 us, what a script does for itself mostly takes milliseconds."""


@once
def main_track(trace: Trace) -> int:
    """The thread that trains: that with most time in steps, fetches and optimizer, or else in
    operators and calls; NONE without any of them."""
    near = kinds.believable(trace)
    for select in (_marks, _busy):
        rows = np.flatnonzero(select(trace) & near)
        if len(rows):
            weights = trace.duration[rows].astype(float) + 1
            return int(np.argmax(np.bincount(trace.track[rows], weights)))
    return NONE


def _marks(trace: Trace) -> Mask:
    own = kinds.ranges_named(
        trace, lambda name: name.startswith(kinds.OWN_MARK) or kinds.STEP.match(name)
    )
    return own | kinds.fetches(trace) | kinds.optimizer(trace)


def _busy(trace: Trace) -> Mask:
    return kinds.operators(trace) | kinds.launches(trace)


@dataclass(frozen=True, eq=False)
class Host:
    """The CPU side of a trace."""

    trace: Trace
    _known: dict[int, States] = field(default_factory=dict, init=False)

    @cached_property
    def span(self) -> Intervals:
        """From the first to the last thing recorded on any CPU thread; empty if there is none."""
        rows = kinds.on_cpu(self.trace) & kinds.believable(self.trace)
        if not rows.any():
            return EMPTY
        return union(
            self.trace.start[rows].min(keepdims=True), self.trace.ends_of(rows).max(keepdims=True)
        )

    @property
    def main_track(self) -> int:
        """The thread that trains, NONE where that is not known."""
        return main_track(self.trace)

    @cached_property
    def _engine_tracks(self) -> list[int]:
        """Threads of the autograd engine."""
        counts = np.bincount(self.trace.track[kinds.backward(self.trace)])
        return [int(track) for track in np.flatnonzero(counts)]

    @cached_property
    def _kinds(self) -> Mapping[GapCause, Mask]:
        trace = self.trace
        return {
            GapCause.INPUT_WAIT: kinds.input_wait(trace),
            GapCause.PROFILER: kinds.profiling(trace),
            GapCause.COMPILATION: compiling(trace),
            GapCause.INITIALISATION: initialising(trace),
            GapCause.ALLOCATION: kinds.allocating(trace),
            GapCause.SYNCHRONISATION: kinds.synchronising(trace),
            GapCause.LAUNCH: _busy(trace),
        }

    def states(self, track: int) -> States:
        """States of the thread that launches from ``track``.

        While it does nothing recorded, the main thread's state counts, which hands out the work,
        and while that does nothing either, the autograd engine's, for which it waits. What is left
        of ``span`` is Python, and where it is short part of launching.
        """
        found = dict.fromkeys(_BY_PRECEDENCE, EMPTY)
        for one in dict.fromkeys((track, self.main_track, *self._engine_tracks)):
            if one != NONE:
                taken, mine = unite(*found.values()), self._recorded(one)
                found = {
                    cause: unite(found[cause], subtract(mine[cause], taken))
                    for cause in _BY_PRECEDENCE
                }
        rest = subtract(self.span, unite(*found.values()))
        short = rest.end - rest.start < SHORT_PAUSE
        between = Intervals(rest.start[short], rest.end[short])
        found[GapCause.LAUNCH] = unite(found[GapCause.LAUNCH], between)
        return {**found, GapCause.PYTHON: Intervals(rest.start[~short], rest.end[~short])}

    def _recorded(self, track: int) -> States:
        if track not in self._known:
            self._known[track] = self._of_thread(track)
        return self._known[track]

    def _of_thread(self, track: int) -> States:
        here = (self.trace.track == track) | kinds.of_any_thread(self.trace)
        here &= kinds.believable(self.trace)
        work = host_work(self.trace, track)
        own = {
            GapCause.CPU_OPERATORS: work.computing,
            GapCause.INITIALISATION: unite(work.setting_up, capturing(self.trace, here)),
        }
        taken, states = EMPTY, {}
        for cause in _BY_PRECEDENCE:
            covered = own.get(cause, EMPTY)
            if cause in self._kinds:
                rows = here & self._kinds[cause]
                covered = unite(covered, union(self.trace.start[rows], self.trace.ends_of(rows)))
            states[cause] = subtract(covered, taken)
            taken = unite(taken, covered)
        return states
