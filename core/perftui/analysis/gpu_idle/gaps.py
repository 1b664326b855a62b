"""The longest idle intervals of a device, each with its cause and what was going on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perftui import format as fmt
from perftui.analysis.gpu_idle.causes import Idle
from perftui.analysis.gpu_idle.enclosing_op import EnclosingOps
from perftui.analysis.intervals import Intervals
from perftui.analysis.model import Gap, GapCause
from perftui.trace.model import NONE, Int64

MOST = 10_000
"""Gaps that are listed; all of them count in the budget. A large trace has millions."""

SHORTEST = 1_000
"""ns below which an idle interval is not listed: the device itself takes so long from one kernel to
the next."""


def list_gaps(
    device: int, idle: Idle, enclosing: EnclosingOps, phases: Mapping[str, Intervals]
) -> list[Gap]:
    """Idle intervals, also before the first and behind the last activity, longest first.

    The cause of a gap is the one that covers most of it.
    """
    lengths = idle.intervals.end - idle.intervals.start
    listed = np.flatnonzero(lengths >= SHORTEST)
    chosen = listed[np.argsort(-lengths[listed], kind="stable")[:MOST]]
    start, end = idle.intervals.start[chosen], idle.intervals.end[chosen]
    causes = list(idle.causes)
    shares = np.stack([idle.causes[cause].within(start, end) for cause in causes])
    names = _phase_names(phases, start, end)
    largest = np.argmax(shares, axis=0).tolist()
    found = []
    for index, position in enumerate(chosen.tolist()):
        cause, launch = causes[largest[index]], int(idle.launch_row[position])
        begin, stop = int(start[index]), int(end[index])
        gap = Gap(
            device=device,
            start=begin,
            end=stop,
            previous_row=int(idle.previous_row[position]),
            next_row=int(idle.next_row[position]),
            cause=cause,
            launch_row=launch,
            operator_row=enclosing.innermost(launch, begin, stop),
            phase=names[index],
            wait_row=enclosing.wait(launch, begin, stop)
            if cause is GapCause.SYNCHRONISATION
            else NONE,
        )
        found.append(gap)
    return found


def not_listed(idle: Idle) -> str:
    """Which idle intervals ``list_gaps`` leaves out, for a person; empty where it lists all."""
    lengths = idle.intervals.end - idle.intervals.start
    short = lengths[lengths < SHORTEST]
    notes = []
    if len(lengths) - len(short) > MOST:
        notes.append(f"only the {MOST} longest gaps of a device are listed")
    if len(short):
        gaps = fmt.several(len(short), "gap")
        notes.append(
            f"{gaps} below {fmt.duration(SHORTEST)}, {fmt.duration(int(short.sum()))} in all, "
            f"{'is' if len(short) == 1 else 'are'} not listed"
        )
    return "; ".join(notes)


def _phase_names(phases: Mapping[str, Intervals], start: Int64, end: Int64) -> list[str]:
    """The phase that covers most of each gap, empty where none touches it."""
    names = ["", *phases]
    covered = [phase.within(start, end) for phase in phases.values()]
    # A nanosecond for "none", so that it wins over phases that cover nothing.
    shares = np.stack([np.ones(len(start), dtype=np.int64), *(2 * share for share in covered)])
    return [names[index] for index in np.argmax(shares, axis=0).tolist()]
