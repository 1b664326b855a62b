"""One line of the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.lane_index import LaneIndex

DEVICE = "device"
THREAD = "thread"
MARKS = "marks"


@dataclass(frozen=True, eq=False)
class Lane:
    """Rows of one track that do not overlap. ``kind`` is ``device``, ``thread`` or ``marks``
    (ranges that are no activity: annotations on a stream, synchronisation). ``depth`` counts from 0
    within the track.
    """

    label: str
    kind: str
    track: int
    depth: int
    index: LaneIndex
