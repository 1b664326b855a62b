"""Which threads and streams a person has hidden, moved or pinned; it outlives a single trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perftui.analysis.timeline.track import WHOLE, TimelineTrack
from perftui.trace.model import Track

GroupKey = tuple[str, str, int, int, bool]
"""Process, thread, device, stream, whether a whole device: the same in the next window of a run."""


class TrackOrder:
    """The order of the groups of tracks: a thread with all its depths, a stream, a whole device."""

    def __init__(self) -> None:
        self._hidden: set[GroupKey] = set()
        self._pinned: list[GroupKey] = []
        self._order: list[GroupKey] = []

    @property
    def version(self) -> tuple[object, ...]:
        """Differs where anything was changed."""
        return tuple(sorted(self._hidden)), tuple(self._pinned), tuple(self._order)

    def arranged(
        self, tracks: Iterable[TimelineTrack], trace_tracks: Sequence[Track]
    ) -> list[TimelineTrack]:
        """The tracks that are not hidden: pinned ones first, then as they were moved or given."""
        groups = self._groups(tracks, trace_tracks)
        return [track for key in self._visible(groups) for track in groups[key]]

    def hidden_count(self, tracks: Iterable[TimelineTrack], trace_tracks: Sequence[Track]) -> int:
        """How many of the groups among ``tracks`` are hidden."""
        return len(self._hidden & self._groups(tracks, trace_tracks).keys())

    def is_pinned(self, track: TimelineTrack, trace_tracks: Sequence[Track]) -> bool:
        """Whether the track stays above the others."""
        return group_key(track, trace_tracks) in self._pinned

    def hide(
        self, track: TimelineTrack, tracks: Iterable[TimelineTrack], trace_tracks: Sequence[Track]
    ) -> bool:
        """Hide the group of ``track``; False where it is the last that is shown."""
        if len(self._visible(self._groups(tracks, trace_tracks))) < 2:
            return False
        self._hidden.add(group_key(track, trace_tracks))
        return True

    def show(self, track: TimelineTrack, trace_tracks: Sequence[Track]) -> None:
        """Show the group of ``track`` again."""
        self._hidden.discard(group_key(track, trace_tracks))

    def show_all(self) -> bool:
        """Show what was hidden; False where nothing was."""
        was, self._hidden = self._hidden, set()
        return bool(was)

    def pin(self, track: TimelineTrack, trace_tracks: Sequence[Track]) -> None:
        """Keep the group of ``track`` above the others, or no more."""
        key = group_key(track, trace_tracks)
        if key in self._pinned:
            self._pinned.remove(key)
        else:
            self._pinned.append(key)

    def move(
        self,
        track: TimelineTrack,
        tracks: Iterable[TimelineTrack],
        trace_tracks: Sequence[Track],
        step: int,
    ) -> bool:
        """Exchange the group of ``track`` with the next (1) or previous (-1); False at an edge."""
        groups = self._groups(tracks, trace_tracks)
        shown = self._visible(groups)
        place = shown.index(group_key(track, trace_tracks))
        other = place + step
        if not 0 <= other < len(shown):
            return False
        if (shown[place] in self._pinned) != (shown[other] in self._pinned):
            return False
        order = self._pinned if shown[place] in self._pinned else self._whole_order(groups)
        one, two = order.index(shown[place]), order.index(shown[other])
        order[one], order[two] = order[two], order[one]
        if order is not self._pinned:
            self._order = order
        return True

    def _whole_order(self, groups: dict[GroupKey, list[TimelineTrack]]) -> list[GroupKey]:
        return [*self._order, *(key for key in groups if key not in self._order)]

    def _visible(self, groups: dict[GroupKey, list[TimelineTrack]]) -> list[GroupKey]:
        pinned = [key for key in self._pinned if key in groups]
        others = [k for k in self._whole_order(groups) if k in groups and k not in pinned]
        return [key for key in (*pinned, *others) if key not in self._hidden]

    def _groups(
        self, tracks: Iterable[TimelineTrack], trace_tracks: Sequence[Track]
    ) -> dict[GroupKey, list[TimelineTrack]]:
        groups: dict[GroupKey, list[TimelineTrack]] = {}
        for track in tracks:
            groups.setdefault(group_key(track, trace_tracks), []).append(track)
        return groups


def group_key(track: TimelineTrack, trace_tracks: Sequence[Track]) -> GroupKey:
    """What a track is hidden, moved and pinned with."""
    trace_track = trace_tracks[track.track]
    return (
        trace_track.process,
        trace_track.thread,
        trace_track.device,
        trace_track.stream,
        track.kind == WHOLE,
    )
