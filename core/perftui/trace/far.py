"""Events that lie so far from all others that their times must be wrong."""

from __future__ import annotations

import numpy as np

from perftui.trace.model import Int64

_HOURS = 3_600_000_000_000
FAR = 6 * _HOURS
"""A stretch without any event, in ns, that no recording has."""


def far_away(start: Int64) -> str | None:
    """Says how many events are how far from the rest; None where all are together."""
    if int(start.max()) - int(start.min()) < FAR:
        return None
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    where = int(np.argmax(gaps)) + 1
    if gaps[where - 1] < FAR:
        return None
    few = min(where, len(start) - where)
    lies = "event lies" if few == 1 else "events lie"
    hours = round(int(gaps[where - 1]) / _HOURS)
    return f"{few:,} {lies} {hours:,} hours from all others: the times are as the file has them"
