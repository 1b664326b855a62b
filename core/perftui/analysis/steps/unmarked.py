"""Training steps of a trace that marks none: from one step of the optimizer to the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import Mask
from perftui.analysis.model import Step
from perftui.trace.model import Int64, Trace

FEWEST_MARKS = 3
"""Steps of the optimizer that show a rhythm: two steps lie between them."""


def unmarked_steps(trace: Trace) -> tuple[Step, ...]:
    """Each step ends as the optimizer's does, or without an optimizer begins with the fetch of a
    batch; what comes before the first and behind the last mark is in none.

    Of several optimizers the one that steps least often counts, as several may take turns in one
    iteration. Where two of its steps and more share a batch, as those of a generator and its
    discriminator do, batches count instead; several batches for one step are accumulation.
    """
    stepping = _rarest(trace, kinds.optimizer_steps(trace))
    fetching = _rarest(trace, kinds.fetches(trace))
    if len(stepping) and (not len(fetching) or 2 * len(fetching) > len(stepping) + 1):
        return _between(trace.ends_of(stepping), stepping[1:])
    return _between(trace.start[fetching], fetching[:-1])


def _rarest(trace: Trace, marks: Mask) -> Int64:
    """Rows of the name with fewest of the ``marks`` on the thread with most time in them, in order
    of time; names with fewer than ``FEWEST_MARKS`` are left out."""
    rows = np.flatnonzero(marks & kinds.believable(trace)) if marks.any() else np.flatnonzero(marks)
    if not len(rows):
        return rows
    times = np.bincount(trace.track[rows], trace.duration[rows])
    rows = rows[trace.track[rows] == np.argmax(times)]
    alike = [each for each in _by_name(trace, rows) if len(each) >= FEWEST_MARKS]
    return min(alike, key=lambda each: (len(each), -trace.duration[each].sum()), default=rows[:0])


def _by_name(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """The rows of each name in order of time, without those inside of another."""
    ordered = rows[np.argsort(trace.start[rows], kind="stable")]
    for name in np.unique(trace.name[ordered]).tolist():
        alike = ordered[trace.name[ordered] == name]
        ended = np.maximum.accumulate(trace.ends_of(alike))
        outside = np.append(True, trace.start[alike[1:]] >= ended[:-1])
        yield alike[outside]


def _between(times: Int64, rows: Int64) -> tuple[Step, ...]:
    starts, ends = times[:-1].tolist(), times[1:].tolist()
    found = zip(starts, ends, rows.tolist(), strict=True)
    return tuple(Step(index, start, end, row) for index, (start, end, row) in enumerate(found))
