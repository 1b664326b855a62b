"""The tracks that a person sees: which are folded, hidden, pinned, scrolled to, and selected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from perftui.analysis.timeline.track import COUNTER, HELPERS, THREAD, WHOLE, TimelineTrack
from perftui.analysis.timeline.tracks import HelperThreads
from perftui.trace.model import NONE, Trace

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


def shown_tracks(
    tracks: Sequence[TimelineTrack], rows: int, open_trace_tracks: Mapping[int, bool]
) -> list[ShownTrack]:
    """The tracks to show, in order.

    ``open_trace_tracks`` has, for a thread by its place in ``Trace.tracks``, whether to show all
    its depths or only the first. Of others as many are shown as fit, those with most events:
    recorded Python stacks begin with a dozen frames that never change. Of counters a single one is
    shown where not all tracks fit."""
    groups = [list(group) for _, group in groupby(tracks, key=_group)]
    # The most depths a thread may have for all tracks to fit.
    limit = max(map(len, groups), default=FEWEST_DEPTHS)
    while limit > FEWEST_DEPTHS and sum(min(len(each), limit) for each in groups) > rows:
        limit -= 1
    counters = limit if sum(min(len(each), limit) for each in groups) <= rows else 1
    shown = []
    for members in groups:
        trace_track, kind = _group(members[0])
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


GroupKey = tuple[str, str, int, int, bool]
"""Process, thread, device, stream, whether a whole device: the same in the next window of a run."""


class TrackOrder:
    """Which threads (with all depths), streams and devices a person has hidden, moved or pinned.

    It outlives a single trace."""

    def __init__(self) -> None:
        self.hidden: set[GroupKey] = set()
        self.pinned: list[GroupKey] = []
        self._order: list[GroupKey] = []

    @property
    def version(self) -> tuple[object, ...]:
        """Differs where anything was changed."""
        return tuple(sorted(self.hidden)), tuple(self.pinned), tuple(self._order)

    def visible(self, groups: Collection[GroupKey]) -> list[GroupKey]:
        """The groups that are not hidden: pinned ones first, then as they were moved or given."""
        pinned = [key for key in self.pinned if key in groups]
        others = [k for k in self._whole_order(groups) if k in groups and k not in pinned]
        return [key for key in (*pinned, *others) if key not in self.hidden]

    def move(self, key: GroupKey, groups: Collection[GroupKey], step: int) -> bool:
        """Exchange a group with the next (1) or previous (-1); False at an edge."""
        shown = self.visible(groups)
        place = shown.index(key) + step
        if not 0 <= place < len(shown):
            return False
        other, is_pinned = shown[place], key in self.pinned
        if (other in self.pinned) != is_pinned:
            return False
        order = self.pinned if is_pinned else self._whole_order(groups)
        one, two = order.index(key), order.index(other)
        order[one], order[two] = other, key
        if not is_pinned:
            self._order = order
        return True

    def _whole_order(self, groups: Collection[GroupKey]) -> list[GroupKey]:
        return [*self._order, *(key for key in groups if key not in self._order)]


class TrackList:
    """Tracks from top to bottom, one of them selected. ``track_rows`` fit on the screen.

    ``counters`` stand below the threads. Each of ``helpers`` stands for its threads until it is
    opened."""

    def __init__(
        self,
        trace: Trace,
        tracks: Sequence[TimelineTrack],
        order: TrackOrder | None = None,
        counters: Sequence[TimelineTrack] = (),
        helpers: Sequence[HelperThreads] = (),
    ) -> None:
        self.trace, self.tracks = trace, tuple(tracks)
        """Those of the trace's own tracks."""
        self.order = order or TrackOrder()
        self.helpers_of = {thread: one for one in helpers for thread in one.threads}
        """The helper threads, by their place in ``Trace.tracks``."""
        self._open_helpers: set[int] = set()
        """Ranks whose helper threads are shown one by one."""
        self._groups: dict[GroupKey, list[TimelineTrack]] = {}
        for track in self._arranged(counters):
            self._groups.setdefault(self._key(track), []).append(track)
        self.top = 0
        self.track_rows = 1
        self._open_trace_tracks: dict[int, bool] = {}
        self._shown: list[ShownTrack] = []
        self._shown_for: object = None
        self._pinned = 0
        # Keys look for gaps and events: there are none to find among steps, nor between the few
        # frames that all else is called from.
        shown = self._shown_tracks()
        plain = (each for each in shown if not each.is_overview and each.kind != COUNTER)
        first = next(plain, shown[0])
        calls = self._groups[self._key(first)] if first.kind == THREAD else []
        many = (each for each in calls if len(each.index) > 2 * len(calls[0].index))
        self.track = next(many, first)

    def _arranged(self, counters: Sequence[TimelineTrack]) -> list[TimelineTrack]:
        """All tracks in their first order: helper threads behind the others of their rank, counters
        behind all."""
        threads = (at for at, each in enumerate(self.tracks) if each.kind == THREAD)
        last = {self._rank(self.tracks[at]): at for at in threads}
        found: list[TimelineTrack] = []
        members: dict[int, list[TimelineTrack]] = {}
        for at, track in enumerate(self.tracks):
            rank, helpers = self._rank(track), self.helpers_of.get(track.track)
            if helpers is not None:
                members.setdefault(rank, [helpers.track]).append(track)
            else:
                found.append(track)
            if last.get(rank) == at:
                found += members.pop(rank, ())
        return [*found, *counters]

    def _rank(self, track: TimelineTrack) -> int:
        return NONE if track.kind == COUNTER else self.trace.tracks[track.track].rank

    def _key(self, track: TimelineTrack) -> GroupKey:
        """What the track is hidden, moved and pinned with."""
        if track.kind == COUNTER:
            return ("", COUNTER, NONE, NONE, False)
        one = self.trace.tracks[track.track]
        if track.kind == HELPERS:
            return "", HELPERS, one.rank, NONE, False
        return one.process, one.thread, one.device, one.stream, track.kind == WHOLE

    def _unfolded(self) -> list[GroupKey]:
        """The groups to show, without helper threads that one track stands for; a person who has
        pinned one wants to see it."""
        pinned = self.order.pinned
        return [
            key
            for key, tracks in self._groups.items()
            if tracks[0].kind == HELPERS
            or (helpers := self.helpers_of.get(tracks[0].track)) is None
            or helpers.rank in self._open_helpers
            or key in pinned
        ]

    def shown(self) -> list[ShownTrack]:
        """Tracks that are neither hidden nor folded away; ``on_screen`` is the part in view."""
        opened = frozenset(self._open_trace_tracks.items()), frozenset(self._open_helpers)
        asked = (self.track_rows, opened, self.order.version)
        if asked != self._shown_for:
            # 0.4 s for 100,000 threads, and every key asks several times.
            self._shown_for = asked
            groups = self._groups
            visible = self.order.visible(self._unfolded())
            tracks = [track for key in visible for track in groups[key]]
            self._shown = shown_tracks(tracks, self.track_rows, self._open_trace_tracks)
            # However many are pinned, others must be left to scroll.
            self._pinned = min(sum(map(self.is_pinned, self._shown)), self.track_rows // 2)
        return self._shown

    def _shown_tracks(self) -> list[TimelineTrack]:
        return [shown.track for shown in self.shown()]

    def on_screen(self) -> list[ShownTrack]:
        """Tracks from top to bottom: pinned ones, and of the others those from ``top`` on."""
        shown = self.shown()
        rest = self.track_rows - self._pinned
        begin = self._pinned + self.top
        return [*shown[: self._pinned], *shown[begin : begin + rest]]

    def is_pinned(self, shown: ShownTrack) -> bool:
        """Whether a track stays above those that scroll."""
        return self._key(shown.track) in self.order.pinned

    @property
    def hidden_count(self) -> int:
        """Threads, streams and devices that a person has hidden."""
        return len(self.order.hidden & self._groups.keys())

    def stay_on(self, before: TrackList) -> None:
        """Select, fold and scroll as ``before``, which has tracks of the same threads."""
        self._open_trace_tracks = dict(before._open_trace_tracks)
        self._open_helpers = set(before._open_helpers)
        self.track_rows, self.top = before.track_rows, before.top

        def place(track: TimelineTrack) -> tuple[object, ...]:
            name = (track.label,) if track.kind == COUNTER else (track.track, track.depth)
            return track.kind, *name

        every = (each for group in self._groups.values() for each in group)
        same = [each for each in every if place(each) == place(before.track)]
        self.track = same[0] if same else self.track
        self._reveal_track()

    def resized(self, track_rows: int) -> None:
        """The screen has room for so many tracks."""
        self.track_rows = max(track_rows, 1)
        self._reveal_track()

    def move_track(self, steps: int) -> None:
        """Select the track so many rows below."""
        tracks = self._shown_tracks()
        place = tracks.index(self.track) + steps
        self.track = tracks[min(max(place, 0), len(tracks) - 1)]
        self._reveal_track()

    def scroll(self, rows: int) -> None:
        """Scroll the tracks below the pinned ones; the selected one may leave the screen."""
        self.top = min(max(self.top + rows, 0), max(len(self.shown()) - self.track_rows, 0))

    def _reveal_track(self) -> None:
        tracks = self._shown_tracks()
        if self.track not in tracks:
            beside = [track for track in tracks if track.track == self.track.track]
            self.track = beside[-1] if beside else tracks[0]
        place, room = tracks.index(self.track) - self._pinned, self.track_rows - self._pinned
        if place >= 0:
            self.top = min(max(self.top, place - room + 1), place)
        self.scroll(0)

    def hide_track(self) -> bool:
        """Hide the selected thread, stream or device; False where nothing else is shown."""
        if len(self.order.visible(self._unfolded())) < 2:
            return False
        tracks = self._shown_tracks()
        self.order.hidden.add(self._key(self.track))
        kept = self._shown_tracks()
        below = [track for track in tracks[tracks.index(self.track) :] if track in kept]
        self.track = below[0] if below else kept[-1]
        self._reveal_track()
        return True

    def show_hidden(self) -> bool:
        """Show what was hidden; False where nothing was."""
        was_hidden = bool(self.order.hidden)
        self.order.hidden.clear()
        self._reveal_track()
        return was_hidden

    def pin_track(self) -> None:
        """Keep the selected thread, stream or device above the others, or no more."""
        key, pinned = self._key(self.track), self.order.pinned
        (pinned.remove if key in pinned else pinned.append)(key)
        self._reveal_track()

    def reorder(self, step: int) -> bool:
        """Move the selected thread, stream or device down (1) or up (-1)."""
        done = self.order.move(self._key(self.track), self._unfolded(), step)
        self._reveal_track()
        return done

    def fold(self) -> None:
        """Show all depths of the selected thread; then only the first; then as many as fit. Of
        helper threads show each, or one track for all."""
        if self.track.kind == HELPERS:
            self._open_helpers ^= {self._rank(self.track)}
            # What has been opened stands below, perhaps below the screen.
            tracks, row = self._shown_tracks(), self.track
            threads = self.helpers_of[row.track].threads
            members = [each for each in tracks if each.track in threads and each.kind == THREAD]
            for self.track in (*members[-1:], row):
                self._reveal_track()
            return
        states: dict[bool | None, bool | None] = {None: True, True: False, False: None}
        state = states[self._open_trace_tracks.pop(self.track.track, None)]
        if state is not None:
            self._open_trace_tracks[self.track.track] = state
        self._reveal_track()

    def unfold(self, track: TimelineTrack) -> None:
        """Select ``track``, wherever it was hidden or folded away."""
        self.track = track
        helpers = self.helpers_of.get(track.track)
        if track not in self._shown_tracks():
            self.order.hidden.discard(self._key(track))
        if track not in self._shown_tracks() and helpers is not None:
            self._open_helpers.add(helpers.rank)
        if track not in self._shown_tracks():
            self._open_trace_tracks[track.track] = True
        self._reveal_track()
