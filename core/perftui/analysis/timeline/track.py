"""One track of the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.timeline.track_index import TrackIndex

DEVICE = "device"
THREAD = "thread"
MARKS = "marks"
WHOLE = "whole"
STEPS = "steps"
PHASES = "phases"
COUNTER = "counter"
HELPERS = "helpers"


@dataclass(frozen=True, eq=False)
class TimelineTrack:
    """Rows of one of the trace's tracks that do not overlap.

    ``kind`` is ``device``, ``thread`` or ``marks`` (ranges that are no activity: annotations on a
    stream, synchronisation). ``depth`` counts from 0 within the track.

    A ``whole`` track is a device of several streams: each row is cut to the part of it in which no
    row that began before still runs, so that together they are the time in which the device is
    busy. Its ``track`` is the first of the streams, and its rows are in order of start alone.

    ``steps`` and ``phases`` are those of a rank, where several were put together.

    ``helpers`` is for the threads with next to no work: of their rows each is cut as on a ``whole``
    track. Its ``track`` is the first of those threads. A ``counter`` shows samples, and belongs to
    none of the trace's tracks (NONE): the ``rows`` of its index number the samples.
    """

    label: str
    kind: str
    track: int
    depth: int
    index: TrackIndex

    @property
    def is_overview(self) -> bool:
        """Whether the track's rows only mark when other rows were at work."""
        return self.kind in (STEPS, PHASES)
