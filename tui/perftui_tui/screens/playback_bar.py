"""The bar under a screen while a saved run is played: time, step, speed, and where to go."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from perftui_tui.actions.playback import Playback, Position
from perftui_tui.keys.own_keys import bindings, shown_key
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, crop, fit, row, width
from perftui_tui.widgets.row_view import RowView

SHORTEST = 10
"""The fewest cells of the bar itself; text is dropped before it gets shorter."""


def bar_row(position: Position, cells: int, has_keys: bool) -> tuple[Row, int, int]:
    """The row, the column at which the bar itself begins, and its cells."""
    mark = "▶" if position.playing else "▏▏"
    begin = position.stops.start
    style = "key" if has_keys else "accent"
    spans = [
        (f" {mark} {position.speed:g}x ", style),
        (f" {_step_label(position)} ", "bold"),
        (f" {elapsed(position.at - begin)} of {elapsed(position.stops.end - begin)} ", ""),
    ]
    while len(spans) > 1 and width(tuple(spans)) + SHORTEST > cells:
        spans.pop()
    left = width(tuple(spans))
    does = "plays again" if position.is_end else f"keys to the {'screen' if has_keys else 'bar'}"
    other = row((f" {shown_key('app.playback')} {does} ", "dim"))
    if left + width(other) + 2 * SHORTEST > cells:
        other = ()
    room = max(1, cells - left - width(other) - 1)
    knob = min(room - 1, round(position.share * (room - 1)))
    bar: Row = (("━" * knob, "accent"), ("●", "bold"), ("─" * (room - 1 - knob), "dim"))
    return fit(crop((*spans, *bar, *other), cells), cells), left, room


def _step_label(position: Position) -> str:
    stops, number = position.stops, position.step
    if position.is_end:
        return "the end"
    if not number:
        return "before the first step"
    last = int(stops.index[-1])
    if stops.summed and number < len(stops.index):
        now, following = int(stops.index[number - 1]), int(stops.index[number])
        if following > now + 1 and position.at > int(stops.ends[number - 1]):
            return f"steps {now + 1:,} to {following - 1:,} are stored as aggregates"
    return f"step {int(stops.index[number - 1]):,} of {last:,}"


class PlaybackBar(RowView, can_focus=True):
    """Draws ``bar_row``; its keys, a click or a drag move through the run."""

    BINDINGS = bindings("app.bar")
    DEFAULT_CSS = """
    PlaybackBar { height: 1; display: none; background: $panel; overflow: hidden hidden; }
    """

    def __init__(self, playback: Playback) -> None:
        super().__init__(id="playback")
        self._playback = playback
        self._position: Position | None = None
        self._left, self._cells = 0, 1
        self._before: Widget | None = None
        """What had the keys."""

    def show(self, position: Position | None) -> None:
        """Draw ``position``; without one the bar goes."""
        had_keys = self._position is not None and position is None and self.has_focus
        self._position = position
        self.display = position is not None
        if had_keys:
            self._give_keys_back()
        self._redraw()

    def take_keys(self, before: Widget | None = None) -> None:
        """Take the keys from what has them, or would have them: ``before``."""
        if not self.has_focus:
            self._before = self.screen.focused or before
            self.focus()

    def _give_keys_back(self) -> None:
        if self._before is None:
            self.screen.set_focus(None)
        else:
            self._before.focus()

    def change_keys(self) -> None:
        """Take the keys, or give them back."""
        if self.has_focus:
            self._give_keys_back()
        else:
            self.take_keys()

    def on_focus(self) -> None:
        """Show who has the keys: that is known once this has been handled."""
        self.call_later(self._redraw)

    on_blur = on_focus

    def _redraw(self) -> None:
        if self._position is not None and self.size.width:
            bar = bar_row(self._position, self.size.width, self.has_focus)
            drawn, self._left, self._cells = bar
            self.rows = [drawn]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self._left <= event.x < self._left + self._cells:
            self.capture_mouse()
            self._go(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._go(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _go(self, x: int) -> None:
        self._playback.seek_share(min(max((x - self._left) / max(1, self._cells - 1), 0.0), 1.0))

    def action_play(self) -> None:
        self._playback.toggle()

    def action_step(self, count: int) -> None:
        self._playback.step(count)

    def action_faster(self, by: int) -> None:
        self._playback.faster(by)

    def action_edge(self, share: int) -> None:
        """The start (0) or the end (1)."""
        self._playback.seek_share(share)

    def action_leave(self) -> None:
        self._playback.end()
