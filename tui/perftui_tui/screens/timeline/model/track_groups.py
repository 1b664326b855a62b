"""Which lanes are shown: the depths of one thread fold together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from perftui.analysis.lanes import WHOLE, Lane

FEWEST_DEPTHS = 3
"""Depths of a thread that stay shown however low the screen is."""


@dataclass(frozen=True)
class ShownLane:
    """One lane on screen. The last of a thread says how many depths are folded away."""

    lane: Lane
    leads: bool = True
    """Whether it is the first one of its track on screen."""
    hidden: int = 0
    """Depths of its thread that are not shown."""


def depth_limit(lanes: Sequence[Lane], rows: int) -> int:
    """The most depths a thread may have for all lanes to fit in ``rows``."""
    depths = [len(list(group)) for _, group in groupby(lanes, key=_group)]
    limit = max(depths, default=FEWEST_DEPTHS)
    while limit > FEWEST_DEPTHS and sum(min(depth, limit) for depth in depths) > rows:
        limit -= 1
    return limit


def shown_lanes(
    lanes: Sequence[Lane], rows: int, open_tracks: Mapping[int, bool]
) -> list[ShownLane]:
    """Lanes in order: ``open_tracks`` says of a track to show all its depths or only the first.

    Of a track that it does not name, as many depths are shown as fit, those with most events:
    recorded Python stacks begin with a dozen frames that never change.
    """
    limit = depth_limit(lanes, rows)
    shown = []
    for (track, whole), group in groupby(lanes, key=_group):
        members = list(group)
        kept = _kept(members, limit, None if whole else open_tracks.get(track))
        hidden = len(members) - len(kept)
        for place, lane in enumerate(kept):
            last = place + 1 == len(kept)
            shown.append(ShownLane(lane, leads=place == 0, hidden=hidden if last else 0))
    return shown


def _kept(members: list[Lane], limit: int, opened: bool | None) -> list[Lane]:
    if len(members) == 1:
        return members
    if opened is None:
        return _fullest(members, limit)
    return members if opened else members[:1]


def _fullest(lanes: list[Lane], limit: int) -> list[Lane]:
    fullest = sorted(lanes, key=lambda lane: -len(lane.index))[:limit]
    return sorted(fullest, key=lambda lane: lane.depth)


def _group(lane: Lane) -> tuple[int, bool]:
    return lane.track, lane.kind == WHOLE
