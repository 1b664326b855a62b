"""The mouse on the timeline: wheel, drag and click."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events

from perftui_tui.screens.timeline.canvas.canvas import TimelineCanvas
from perftui_tui.screens.timeline.canvas.head import GAPS, MINIMAP, PHASES, STEPS, label_width
from perftui_tui.screens.timeline.model.state import TimelineState

_WHEEL_ZOOM = 0.8

_PAN, _RANGE, _MAP = "pan", "range", "map"


@dataclass(frozen=True)
class _Drag:
    """What a button held down does: pans, marks a range, or moves the view on the minimap."""

    kind: str
    x: int
    y: int
    start: int
    end: int


class TimelineMouse(TimelineCanvas):
    """The wheel zooms at the pointer, with shift it pans, over the names it scrolls the tracks.

    Dragging the tracks pans, with shift or ctrl, or on the rows above, it marks a range; on the
    minimap it moves the view. A click selects, a double click fits what it selected.
    """

    _drag: _Drag | None = None

    def _columns(self) -> int:
        return max(self.size.width - label_width(self.size.width), 1)

    def _column(self, x: int) -> int:
        return min(max(x - label_width(self.size.width), 0), self._columns() - 1)

    def _time(self, state: TimelineState, x: int, further: int = 0) -> int:
        """Where the pointer is, at the edge of its column, or so many columns further."""
        return state.view.start + (self._column(x) + further) * state.view.span // self._columns()

    def _head_row(self, y: int) -> str | None:
        """Which of the rows above the tracks ``y`` is; None for a track."""
        return list(self._head)[y] if 0 <= y < len(self._head) else None

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in at the pointer, pan left with shift, or scroll the names."""
        event.stop()
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out at the pointer, pan right with shift, or scroll the names."""
        event.stop()
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseEvent, direction: int) -> None:
        if event.x < label_width(self.size.width):
            self.act(lambda state: state.scroll(direction))
        elif event.shift:
            self.act(lambda state: state.pan(direction))
        else:
            factor = _WHEEL_ZOOM if direction < 0 else 1 / _WHEEL_ZOOM
            column = self._column(event.x)
            self.act(lambda s: s.zoom(factor, s.view.time(column, self._columns())))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        if self.state is None:
            return
        head, view = self._head_row(event.y), self.state.view
        kind = _RANGE if head is not None or event.shift or event.ctrl else _PAN
        if head == MINIMAP:
            kind = _MAP
        self._drag = _Drag(kind, event.x, event.y, view.start, view.end)
        self.capture_mouse()
        if kind == _MAP:
            self._move_view(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Pan, mark or move while dragging."""
        drag = self._drag
        if self.state is None or drag is None:
            return
        if drag.kind == _MAP:
            self._move_view(event.x)
        elif event.x != drag.x and drag.kind == _RANGE:
            self.act(lambda s: s.mark_range(self._time(s, drag.x), self._time(s, event.x)))
        elif event.x != drag.x:
            amount = (drag.x - event.x) * (drag.end - drag.start) // self._columns()
            self.act(lambda s: s.show(drag.start + amount, drag.end + amount))

    def _move_view(self, x: int) -> None:
        """Show the place of the minimap under the pointer."""
        column, columns = self._column(x), self._columns()
        self.act(lambda state: state.centre_on(column, columns))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Select what was clicked, unless it was a drag."""
        drag, self._drag = self._drag, None
        self.release_mouse()
        if drag is not None and drag.x == event.x and drag.y == event.y and drag.kind != _MAP:
            self._select(event.x, event.y)

    def on_click(self, event: events.Click) -> None:
        """A second click fits what the first one selected."""
        if event.chain == 2 and self._head_row(event.y) is None:
            self.act(lambda state: state.fit())

    def _select(self, x: int, y: int) -> None:
        state = self.state
        if state is None:
            return
        head = self._head_row(y)
        if head is not None:
            self._select_in_head(state, head, x)
            return
        place, shown = y - len(self._head), state.on_screen()
        if not 0 <= place < len(shown):
            return
        track = shown[place].track
        if x < label_width(self.size.width):
            self.act(lambda s: s.unfold(track))
            return
        self.act(lambda s: s.select_at(track, self._time(s, x), self._time(s, x, 1)))

    def _select_in_head(self, state: TimelineState, head: str, x: int) -> None:
        """Mark a step, a phase or a gap as a range, which is then measured."""
        if x < label_width(self.size.width):
            return
        middle = state.view.time(self._column(x), self._columns())
        if head == STEPS:
            for step in state.steps:
                if step.start <= middle < step.end:
                    self._mark(step.start, step.end)
                    break
        elif head == PHASES:
            for phase in state.phases.values():
                at = int(phase.start.searchsorted(middle, side="right")) - 1
                if at >= 0 and middle < phase.end[at]:
                    self._mark(int(phase.start[at]), int(phase.end[at]))
        elif head == GAPS:
            self.act(lambda s: s.select_at(s.track, middle, middle + 1))

    def _mark(self, start: int, end: int) -> None:
        self.act(lambda state: state.mark_range(start, end))
