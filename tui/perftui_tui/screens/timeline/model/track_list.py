"""The tracks that a person sees: which are folded, hidden, pinned, scrolled to, and selected."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.timeline.track import TimelineTrack
from perftui.trace.model import Trace
from perftui_tui.screens.timeline.model.track_groups import ShownTrack, shown_tracks
from perftui_tui.screens.timeline.model.track_order import TrackOrder


class TrackList:
    """Tracks from top to bottom, one of them selected. ``track_rows`` fit on the screen."""

    def __init__(
        self, trace: Trace, tracks: Sequence[TimelineTrack], order: TrackOrder | None = None
    ) -> None:
        self.trace, self.tracks = trace, tuple(tracks)
        self.order = order or TrackOrder()
        self.top = 0
        self.track_rows = 1
        self._open_trace_tracks: dict[int, bool] = {}
        self._shown: list[ShownTrack] = []
        self._shown_for: object = None
        self._pinned = 0
        tracks = [shown.track for shown in self.shown()]
        # Keys look for gaps and events: there are none to find among steps.
        self.track = next((track for track in tracks if not track.is_overview), tracks[0])

    def shown(self) -> list[ShownTrack]:
        """Tracks that are neither hidden nor folded away; ``on_screen`` is the part in view."""
        asked = (self.track_rows, frozenset(self._open_trace_tracks.items()), self.order.version)
        if asked != self._shown_for:
            # 0.4 s for 100,000 threads, and every key asks several times.
            self._shown_for = asked
            trace_tracks = self.trace.tracks
            tracks = self.order.arranged(self.tracks, trace_tracks)
            self._shown = shown_tracks(tracks, self.track_rows, self._open_trace_tracks)
            pinned = [self.order.is_pinned(shown.track, trace_tracks) for shown in self._shown]
            # However many are pinned, others must be left to scroll.
            self._pinned = min(sum(pinned), self.track_rows // 2)
        return self._shown

    def on_screen(self) -> list[ShownTrack]:
        """Tracks from top to bottom: pinned ones, and of the others those from ``top`` on."""
        shown = self.shown()
        rest = self.track_rows - self._pinned
        begin = self._pinned + self.top
        return [*shown[: self._pinned], *shown[begin : begin + rest]]

    def is_pinned(self, shown: ShownTrack) -> bool:
        """Whether a track stays above those that scroll."""
        return self.order.is_pinned(shown.track, self.trace.tracks)

    @property
    def hidden_count(self) -> int:
        """Threads, streams and devices that a person has hidden."""
        return self.order.hidden_count(self.tracks, self.trace.tracks)

    def stay_on(self, before: TrackList) -> None:
        """Select, fold and scroll as ``before``, which has tracks of the same threads."""
        self._open_trace_tracks = dict(before._open_trace_tracks)
        self.track_rows, self.top = before.track_rows, before.top
        kept = (before.track.track, before.track.depth, before.track.kind)
        same = [each for each in self.tracks if (each.track, each.depth, each.kind) == kept]
        self.track = same[0] if same else self.track
        self._reveal_track()

    def resized(self, track_rows: int) -> None:
        """The screen has room for so many tracks."""
        self.track_rows = max(track_rows, 1)
        self._reveal_track()

    def move_track(self, steps: int) -> None:
        """Select the track so many rows below."""
        tracks = [shown.track for shown in self.shown()]
        place = tracks.index(self.track) + steps
        self.track = tracks[min(max(place, 0), len(tracks) - 1)]
        self._reveal_track()

    def scroll(self, rows: int) -> None:
        """Scroll the tracks below the pinned ones; the selected one may leave the screen."""
        self.top = min(max(self.top + rows, 0), max(len(self.shown()) - self.track_rows, 0))

    def _reveal_track(self) -> None:
        tracks = [shown.track for shown in self.shown()]
        if self.track not in tracks:
            beside = [track for track in tracks if track.track == self.track.track]
            self.track = beside[-1] if beside else tracks[0]
        place, room = tracks.index(self.track) - self._pinned, self.track_rows - self._pinned
        if place >= 0:
            self.top = min(max(self.top, place - room + 1), place)
        self.scroll(0)

    def hide_track(self) -> bool:
        """Hide the selected thread, stream or device; False where nothing else is shown."""
        tracks = [shown.track for shown in self.shown()]
        place = tracks.index(self.track)
        if not self.order.hide(self.track, self.tracks, self.trace.tracks):
            return False
        kept = [shown.track for shown in self.shown()]
        below = [track for track in tracks[place:] if track in kept]
        self.track = below[0] if below else kept[-1]
        self._reveal_track()
        return True

    def show_hidden(self) -> bool:
        """Show what was hidden; False where nothing was."""
        done = self.order.show_all()
        self._reveal_track()
        return done

    def pin_track(self) -> None:
        """Keep the selected thread, stream or device above the others, or no more."""
        self.order.pin(self.track, self.trace.tracks)
        self._reveal_track()

    def reorder(self, step: int) -> bool:
        """Move the selected thread, stream or device down (1) or up (-1)."""
        done = self.order.move(self.track, self.tracks, self.trace.tracks, step)
        self._reveal_track()
        return done

    def fold(self) -> None:
        """Show all depths of the selected thread; then only the first; then as many as fit."""
        states: dict[bool | None, bool | None] = {None: True, True: False, False: None}
        state = states[self._open_trace_tracks.pop(self.track.track, None)]
        if state is not None:
            self._open_trace_tracks[self.track.track] = state
        self._reveal_track()

    def unfold(self, track: TimelineTrack) -> None:
        """Select ``track``, wherever it was hidden or folded away."""
        self.track = track
        if track not in [shown.track for shown in self.shown()]:
            self.order.show(track, self.trace.tracks)
        if track not in [shown.track for shown in self.shown()]:
            self._open_trace_tracks[track.track] = True
        self._reveal_track()
