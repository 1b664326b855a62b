"""Which tracks are shown: the depths of one thread fold together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from perftui.analysis.timeline.track import COUNTER, HELPERS, WHOLE, TimelineTrack

FEWEST_DEPTHS = 3
"""Depths of a thread that stay shown however low the screen is."""


@dataclass(frozen=True)
class ShownTrack:
    """One track on screen. The last of a thread has the count of depths that are folded away."""

    track: TimelineTrack
    leads: bool = True
    """Whether the track is the first of its thread or stream on screen."""
    hidden: int = 0
    """Depths of its thread that are not shown."""


def depth_limit(tracks: Sequence[TimelineTrack], rows: int) -> int:
    """The most depths a thread may have for all tracks to fit in ``rows``."""
    depths = [len(list(group)) for _, group in groupby(tracks, key=_group)]
    limit = max(depths, default=FEWEST_DEPTHS)
    while limit > FEWEST_DEPTHS and sum(min(depth, limit) for depth in depths) > rows:
        limit -= 1
    return limit


def shown_tracks(
    tracks: Sequence[TimelineTrack], rows: int, open_trace_tracks: Mapping[int, bool]
) -> list[ShownTrack]:
    """The tracks to show, in order.

    ``open_trace_tracks`` has, for a thread by its place in ``Trace.tracks``, whether to show all
    its depths or only the first. Of others as many are shown as fit, those with most events:
    recorded Python stacks begin with a dozen frames that never change. Counters are first in order,
    and a single one where not all tracks fit.
    """
    limit = depth_limit(tracks, rows)
    depths = [len(list(group)) for _, group in groupby(tracks, key=_group)]
    counters = limit if sum(min(depth, limit) for depth in depths) <= rows else 1
    shown = []
    for (trace_track, kind), group in groupby(tracks, key=_group):
        members = list(group)
        opened = None if kind in (WHOLE, HELPERS) else open_trace_tracks.get(trace_track)
        if kind == COUNTER and opened is None:
            kept = members[:counters]
        else:
            kept = _kept(members, limit, opened)
        hidden = len(members) - len(kept)
        for place, track in enumerate(kept):
            last = place + 1 == len(kept)
            shown.append(ShownTrack(track, leads=place == 0, hidden=hidden if last else 0))
    return shown


def _kept(members: list[TimelineTrack], limit: int, opened: bool | None) -> list[TimelineTrack]:
    if len(members) == 1:
        return members
    if opened is None:
        fullest = sorted(members, key=lambda track: -len(track.index))[:limit]
        return sorted(fullest, key=lambda track: track.depth)
    return members if opened else members[:1]


def _group(track: TimelineTrack) -> tuple[int, str]:
    """Tracks of one group follow each other; of a stream its ranges are one with its work."""
    apart = track.kind if track.kind in (WHOLE, HELPERS, COUNTER) else ""
    return track.track, apart
