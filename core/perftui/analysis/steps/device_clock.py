"""Training steps on a device's clock: where the host runs ahead, its own marks mean little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import Mask
from perftui.analysis.links import Links
from perftui.analysis.model import Step
from perftui.trace.categories import KERNEL
from perftui.trace.model import NONE, Int64, Trace

MOSTLY = 0.5
"""Share of launches that have to be known: which of the others came first is guessed."""


def on_device_clock(
    trace: Trace, links: Links, mine: Mask, steps: Sequence[Step]
) -> tuple[Step, ...]:
    """``steps`` of the host as the device whose activity is ``links.activity[mine]`` takes them.

    A step begins on the device when all is done that was launched before the host began it: that is
    later than on the host where work was still queued, and the same where the device was idle. The
    queue is that of the stream with most computing, as copies and collectives on streams of their
    own overtake it. Steps stay as they are where few launches in that stream are known.
    """
    rows, launch = _main_stream(trace, links.activity[mine], links.launch[mine])
    known = launch != NONE
    if not steps or np.count_nonzero(known) < MOSTLY * len(known):
        return tuple(steps)
    launched = np.where(known, trace.start[launch], np.iinfo(np.int64).min)
    latest = np.maximum.accumulate(launched)
    done = np.maximum.accumulate(trace.ends_of(rows))
    linked = int(np.flatnonzero(known)[-1]) + 1

    def reached(times: Int64) -> Int64:
        # Behind the last launch that is known nobody knows what was launched when.
        before = np.minimum(np.searchsorted(latest, times), linked)
        return np.where(before > 0, np.maximum(times, done[before - 1]), times)

    starts = reached(np.array([step.start for step in steps], dtype=np.int64)).tolist()
    ends = reached(np.array([step.end for step in steps], dtype=np.int64)).tolist()
    return tuple(
        replace(step, start=start, end=end)
        for step, start, end in zip(steps, starts, ends, strict=True)
    )


def _main_stream(trace: Trace, rows: Int64, launch: Int64) -> tuple[Int64, Int64]:
    """Rows, by start, and launches of the stream that computes longest."""
    computes = trace.in_category(KERNEL)[rows] & ~kinds.communication(trace)[rows]
    counted = computes if computes.any() else np.ones(len(rows), dtype=bool)
    times = np.bincount(trace.track[rows[counted]], trace.duration[rows[counted]].astype(float) + 1)
    here = trace.track[rows] == np.argmax(times)
    return rows[here], launch[here]
