"""The timeline: lanes of a trace over time, moved by keys and mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from perftui_tui.keymap import bindings
from perftui_tui.widgets.timeline_canvas import TimelineCanvas
from perftui_tui.widgets.timeline_rows import label_width
from perftui_tui.widgets.timeline_state import TimelineState

_WHEEL_ZOOM = 0.8
_KEY_ZOOM = 0.5


class Timeline(TimelineCanvas, can_focus=True):
    """Changes what its canvas draws by keys and mouse.

    The wheel zooms at the pointer, with shift it pans, over the names it scrolls the lanes;
    dragging pans, a click selects.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    class NothingFound(Message):
        """A key asked for what is not there; ``reason`` says what."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._drag_from: tuple[int, int, int] | None = None

    def _act(self, change: Callable[[TimelineState], object], missing: str = "") -> None:
        """Change the state; where that did nothing and ``missing`` says what, tell so."""
        if self._state is None:
            return
        done = change(self._state)
        if done is False and missing:
            self.post_message(self.NothingFound(missing))
        self.changed()

    def action_zoom(self, direction: int) -> None:
        """Zoom in (1) or out (-1)."""
        self._act(lambda state: state.zoom(_KEY_ZOOM if direction > 0 else 1 / _KEY_ZOOM))

    def action_pan(self, steps: int) -> None:
        """Pan by a fifth of the view."""
        self._act(lambda state: state.pan(steps))

    def action_lane(self, steps: int) -> None:
        """Select another lane."""
        self._act(lambda state: state.move_lane(steps))

    def action_page(self, pages: int) -> None:
        """Select a lane a screenful away."""
        self._act(lambda state: state.move_lane(pages * state.lane_rows))

    def action_edge(self, direction: int) -> None:
        """Go to the beginning or the end."""
        self._act(lambda state: state.to_edge(direction))

    def action_gap(self, step: int) -> None:
        """Select the next or previous gap."""
        self._act(lambda state: state.next_gap(step), "no further gap that long on this lane")

    def action_largest_gap(self) -> None:
        """Select the largest gap."""
        self._act(lambda state: state.largest_gap(), "no gap on this lane")

    def action_event(self, step: int) -> None:
        """Select the next or previous event."""
        self._act(lambda state: state.next_event(step), "no further event on this lane")

    def action_fit(self) -> None:
        """Fit the selection, then everything."""
        self._act(lambda state: state.fit())

    def action_whole(self) -> None:
        """Show everything."""
        self._act(lambda state: state.whole())

    def action_follow(self, step: int) -> None:
        """From a launch to its kernel or back."""
        missing = "no kernel of this event" if step > 0 else "no launch of this event"
        self._act(lambda state: state.follow_launch(step), f"{missing} in the trace")

    def action_fold(self) -> None:
        """Show more or fewer depths of the selected thread."""
        self._act(lambda state: state.fold())

    def action_threshold(self, step: int) -> None:
        """Count only longer or also shorter gaps."""
        self._act(lambda state: state.change_threshold(step))

    def action_match(self, step: int) -> None:
        """Select the next or previous event that the search found."""
        self._act(lambda state: state.next_match(step), "no event with that name")

    def _columns(self) -> int:
        return max(self.size.width - label_width(self.size.width), 1)

    def _column(self, x: int) -> int:
        return min(max(x - label_width(self.size.width), 0), self._columns() - 1)

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
            self._act(lambda state: state.scroll(direction))
        elif event.shift:
            self._act(lambda state: state.pan(direction))
        else:
            factor = _WHEEL_ZOOM if direction < 0 else 1 / _WHEEL_ZOOM
            column = self._column(event.x)
            self._act(lambda s: s.zoom(factor, s.view.time(column, self._columns())))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        if self._state is not None:
            self._drag_from = (event.x, self._state.view.start, self._state.view.end)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Pan while dragging."""
        if self._state is not None and self._drag_from is not None:
            x, start, end = self._drag_from
            amount = (x - event.x) * (end - start) // self._columns()
            if event.x != x:
                self._act(
                    lambda s: setattr(s, "view", s.view.showing(start + amount, end + amount))
                )

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Select what was clicked, unless it was a drag."""
        origin, self._drag_from = self._drag_from, None
        self.release_mouse()
        if origin is not None and origin[0] == event.x:
            self._click(event.x, event.y)

    def _click(self, x: int, y: int) -> None:
        state = self._state
        if state is None:
            return
        place = y - (len(self._rows) - len(state.shown()[state.top : state.top + state.lane_rows]))
        lanes = state.shown()[state.top :]
        if not 0 <= place < len(lanes) or x < label_width(self.size.width):
            return
        column, columns, view = self._column(x), self._columns(), state.view
        begin = view.start + column * view.span // columns
        end = view.start + (column + 1) * view.span // columns
        self._act(lambda s: s.select_at(lanes[place].lane, begin, end))
