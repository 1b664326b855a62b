"""The lanes that a person sees: which are folded, hidden, pinned, scrolled to, and selected."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.lanes import Lane
from perftui.trace.model import Trace
from perftui_tui.screens.timeline.model.track_groups import ShownLane, shown_lanes
from perftui_tui.screens.timeline.model.track_order import LaneOrder


class LaneList:
    """Lanes from top to bottom, one of them selected. ``lane_rows`` fit on the screen."""

    def __init__(self, trace: Trace, lanes: Sequence[Lane], order: LaneOrder | None = None) -> None:
        self.trace, self.lanes = trace, tuple(lanes)
        self.order = order or LaneOrder()
        self.top = 0
        self.lane_rows = 1
        self._open_tracks: dict[int, bool] = {}
        self._shown: list[ShownLane] = []
        self._shown_for: object = None
        self._pinned = 0
        lanes = [shown.lane for shown in self.shown()]
        # Keys look for gaps and events: there are none to find among steps.
        self.lane = next((lane for lane in lanes if not lane.is_overview), lanes[0])

    def shown(self) -> list[ShownLane]:
        """Lanes that are neither hidden nor folded away, of which ``on_screen`` there is a part."""
        asked = (self.lane_rows, frozenset(self._open_tracks.items()), self.order.version)
        if asked != self._shown_for:
            # 0.4 s for 100,000 threads, and every key asks several times.
            self._shown_for = asked
            tracks = self.trace.tracks
            lanes = self.order.arranged(self.lanes, tracks)
            self._shown = shown_lanes(lanes, self.lane_rows, self._open_tracks)
            pinned = [self.order.is_pinned(shown.lane, tracks) for shown in self._shown]
            # However many are pinned, others must be left to scroll.
            self._pinned = min(sum(pinned), self.lane_rows // 2)
        return self._shown

    def on_screen(self) -> list[ShownLane]:
        """Lanes from top to bottom: pinned ones, and of the others those from ``top`` on."""
        shown = self.shown()
        rest = self.lane_rows - self._pinned
        begin = self._pinned + self.top
        return [*shown[: self._pinned], *shown[begin : begin + rest]]

    def is_pinned(self, shown: ShownLane) -> bool:
        """Whether a lane stays above those that scroll."""
        return self.order.is_pinned(shown.lane, self.trace.tracks)

    @property
    def hidden_count(self) -> int:
        """Threads, streams and devices that a person has hidden."""
        return self.order.hidden_count(self.lanes, self.trace.tracks)

    def stay_on(self, before: LaneList) -> None:
        """Select, fold and scroll as ``before``, which has lanes of the same threads."""
        self._open_tracks = dict(before._open_tracks)
        self.lane_rows, self.top = before.lane_rows, before.top
        kept = (before.lane.track, before.lane.depth, before.lane.kind)
        same = [each for each in self.lanes if (each.track, each.depth, each.kind) == kept]
        self.lane = same[0] if same else self.lane
        self._reveal_lane()

    def resized(self, lane_rows: int) -> None:
        """The screen has room for so many lanes."""
        self.lane_rows = max(lane_rows, 1)
        self._reveal_lane()

    def move_lane(self, steps: int) -> None:
        """Select the lane so many rows below."""
        lanes = [shown.lane for shown in self.shown()]
        place = lanes.index(self.lane) + steps
        self.lane = lanes[min(max(place, 0), len(lanes) - 1)]
        self._reveal_lane()

    def scroll(self, rows: int) -> None:
        """Scroll the lanes below the pinned ones; the selected one may leave the screen."""
        self.top = min(max(self.top + rows, 0), max(len(self.shown()) - self.lane_rows, 0))

    def _reveal_lane(self) -> None:
        lanes = [shown.lane for shown in self.shown()]
        if self.lane not in lanes:
            beside = [lane for lane in lanes if lane.track == self.lane.track]
            self.lane = beside[-1] if beside else lanes[0]
        place, room = lanes.index(self.lane) - self._pinned, self.lane_rows - self._pinned
        if place >= 0:
            self.top = min(max(self.top, place - room + 1), place)
        self.scroll(0)

    def hide_lane(self) -> bool:
        """Hide the selected thread, stream or device; False where nothing else is shown."""
        lanes = [shown.lane for shown in self.shown()]
        place = lanes.index(self.lane)
        if not self.order.hide(self.lane, self.lanes, self.trace.tracks):
            return False
        kept = [shown.lane for shown in self.shown()]
        below = [lane for lane in lanes[place:] if lane in kept]
        self.lane = below[0] if below else kept[-1]
        self._reveal_lane()
        return True

    def show_hidden(self) -> bool:
        """Show what was hidden; False where nothing was."""
        done = self.order.show_all()
        self._reveal_lane()
        return done

    def pin_lane(self) -> None:
        """Keep the selected thread, stream or device above the others, or no more."""
        self.order.pin(self.lane, self.trace.tracks)
        self._reveal_lane()

    def reorder(self, step: int) -> bool:
        """Move the selected thread, stream or device down (1) or up (-1)."""
        done = self.order.move(self.lane, self.lanes, self.trace.tracks, step)
        self._reveal_lane()
        return done

    def fold(self) -> None:
        """Show all depths of the selected thread; then only the first; then as many as fit."""
        states: dict[bool | None, bool | None] = {None: True, True: False, False: None}
        state = states[self._open_tracks.pop(self.lane.track, None)]
        if state is not None:
            self._open_tracks[self.lane.track] = state
        self._reveal_lane()

    def unfold(self, lane: Lane) -> None:
        """Select ``lane``, wherever it was hidden or folded away."""
        self.lane = lane
        if lane not in [shown.lane for shown in self.shown()]:
            self.order.show(lane, self.trace.tracks)
        if lane not in [shown.lane for shown in self.shown()]:
            self._open_tracks[lane.track] = True
        self._reveal_lane()
