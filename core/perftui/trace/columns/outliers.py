"""Events that lie so far from all others that their times must be wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.trace.model import Int64

_HOURS = 3_600_000_000_000
FAR = 6 * _HOURS
"""An interval without any event, in ns, that no recording has."""


@dataclass(frozen=True, eq=False)
class TimeOutliers:
    """Few events with a long silence between them and all others."""

    rows: Int64
    message: str


def time_outliers(start: Int64) -> TimeOutliers | None:
    """The events that are far from the rest; None where all are together."""
    if int(start.max()) - int(start.min()) < FAR:
        return None
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    where = int(np.argmax(gaps)) + 1
    if gaps[where - 1] < FAR:
        return None
    before = start < ordered[where]
    rows = np.flatnonzero(before if 2 * where <= len(start) else ~before)
    lies = "event lies" if len(rows) == 1 else "events lie"
    hours = round(int(gaps[where - 1]) / _HOURS)
    message = f"{len(rows):,} {lies} {hours:,} hours from all others, by the times in the file"
    return TimeOutliers(rows, message)
