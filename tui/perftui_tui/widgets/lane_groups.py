"""Which lanes are shown: the depths of one thread fold together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from perftui.analysis.lanes import Lane

FEWEST_DEPTHS = 3
"""Depths of a thread that stay shown however low the screen is."""


@dataclass(frozen=True)
class ShownLane:
    """One lane on screen, and how many deeper ones of its thread are folded into it."""

    lane: Lane
    hidden: int = 0


def depth_limit(lanes: Sequence[Lane], rows: int) -> int:
    """The most depths a thread may have for all lanes to fit in ``rows``."""
    depths = [len(list(group)) for _, group in groupby(lanes, key=_track)]
    limit = max(depths, default=FEWEST_DEPTHS)
    while limit > FEWEST_DEPTHS and sum(min(depth, limit) for depth in depths) > rows:
        limit -= 1
    return limit


def shown_lanes(
    lanes: Sequence[Lane], rows: int, open_tracks: Mapping[int, bool]
) -> list[ShownLane]:
    """Lanes in order: ``open_tracks`` says of a track to show all its depths or only the first."""
    limit = depth_limit(lanes, rows)
    shown = []
    for track, group in groupby(lanes, key=_track):
        members = list(group)
        opened = open_tracks.get(track)
        count = limit if opened is None else len(members) if opened else 1
        kept = members[:count]
        shown += [ShownLane(lane) for lane in kept[:-1]]
        shown.append(ShownLane(kept[-1], len(members) - len(kept)))
    return shown


def _track(lane: Lane) -> int:
    return lane.track
