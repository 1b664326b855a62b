"""The timeline: tracks of a trace over time, moved by keys and the mouse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Concatenate, ParamSpec

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.message import Message
from textual.strip import Strip

from perftui.analysis.steps import slow_from
from perftui_tui.keys.own_keys import bindings, hint
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row
from perftui_tui.look.themes import palette
from perftui_tui.screens.timeline.rows import (
    GAPS,
    MINIMAP,
    PHASE_ROW,
    STEP_ROW,
    Scene,
    head_rows,
    label_width,
    track_rows,
)
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import EventKind, Glyphs
from perftui_tui.widgets.row_view import RowView


class Pace:
    """Calls ``start`` with what was wanted last, at once unless it rests after the one before:
    forty keys that arrive in one read cost two drawings, not forty. ``later`` is a timer."""

    def __init__(
        self, start: Callable[..., object], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._start, self._later = start, later
        self._wanted: tuple[object, ...] | None = None
        self._is_busy = False

    def want(self, *given: object) -> None:
        """Ask for a start with what is ``given``, in place of one that has not begun."""
        self._wanted = given
        self._next()

    def forget(self) -> None:
        """Take back what has not begun."""
        self._wanted = None

    def done(self, rest: float) -> None:
        """What was started is done; rest for so many seconds."""
        self._later(rest, self._rested)

    def _rested(self) -> None:
        self._is_busy = False
        self._next()

    def _next(self) -> None:
        if self._wanted is not None and not self._is_busy:
            given, self._wanted = self._wanted, None
            self._is_busy = True
            self._start(*given)


BETWEEN_FRAMES = 1 / 30
"""Seconds from one drawing of keys to the next."""

_ASCII_ENDS = str.maketrans("├┤▾", "<>v")
"""Clearer characters for these than the ones that ``look.themes`` draws elsewhere."""

_MARKS = (
    "label selected-label muted view pointer step gap selected linked arrow mark match match-mark"
)
"""Styles that stand for no kind of work."""

_KIND_CSS = " ".join(
    f"&{theme} > .timeline--{kind.style} {{ color: {colour}; }}"
    for kind in EventKind
    for theme, colour in zip(("", ":light", ":ansi"), kind.colours, strict=True)
)

_KEY_ZOOM, _WHEEL_ZOOM = 0.5, 0.8

_SHORTER = ": {timeline.threshold(-1)} shows shorter ones too"

_PAN, _RANGE, _MAP = "pan", "range", "map"


@dataclass(frozen=True)
class _Drag:
    """What a button held down does: pans, marks a range, or moves the view on the minimap."""

    kind: str
    x: int
    y: int
    start: int
    end: int


_Given = ParamSpec("_Given")


def _action(
    change: Callable[Concatenate[TimelineState, _Given], object], missing: str = ""
) -> Callable[Concatenate[Timeline, _Given], None]:
    """An action that changes the state; ``missing`` is shown where that did nothing."""

    def act(timeline: Timeline, /, *given: _Given.args, **named: _Given.kwargs) -> None:
        timeline.act(lambda state: change(state, *given, **named), missing)

    return act


def with_ascii_ends(row: Row) -> Row:
    """The ends of gaps, and what was found, in ASCII; the rest becomes so as it is drawn."""
    return tuple((text.translate(_ASCII_ENDS), style) for text, style in row)


class Timeline(RowView, can_focus=True):
    """Draws a ``TimelineState``, changes it by keys and mouse, and posts what is selected in it.

    The wheel zooms at the pointer, with shift it pans, over the names it scrolls the tracks.
    Dragging the tracks pans, with shift or ctrl, or on the rows above, it marks a range; on the
    minimap it moves the view. A click selects, a double click fits what it selected."""

    BINDINGS = bindings("timeline")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"timeline--{style}" for style in (*_MARKS.split(), *(kind.style for kind in EventKind))
    }
    DEFAULT_CSS = f"""
    Timeline {{
        height: 1fr;
        overflow: hidden;
        & > .timeline--label, & > .timeline--muted {{ color: $text-muted; }}
        & > .timeline--selected-label {{ text-style: bold; background: $panel; }}
        & > .timeline--view, & > .timeline--mark {{ color: $primary; text-style: bold; }}
        & > .timeline--step {{ color: $text; }}
        & > .timeline--gap {{ color: $warning; }}
        & > .timeline--selected {{ color: $foreground; text-style: bold; }}
        & > .timeline--pointer, & > .timeline--linked, & > .timeline--arrow {{
            color: $accent; text-style: bold;
        }}
        & > .timeline--match, & > .timeline--match-mark {{ color: $warning; text-style: bold; }}
        &:focus > .timeline--selected-label {{ color: $part-text; background: $primary; }}
        {_KIND_CSS}
    }}
    """

    class SelectionChanged(Message):
        """Another event or gap is selected, or none any more."""

    class Marked(Message):
        """Marks were set, or taken away: where there are two, what lies between is measured."""

    action_pan = _action(TimelineState.pan)
    action_track = _action(TimelineState.move_track)
    action_edge = _action(TimelineState.to_edge)
    action_gap = _action(TimelineState.next_gap, f"no more gaps that long on this track{_SHORTER}")
    action_largest_gap = _action(TimelineState.largest_gap, f"no gap that long here{_SHORTER}")
    action_event = _action(TimelineState.next_event, "no more events on this track")
    action_fit = _action(TimelineState.fit)
    action_whole = _action(TimelineState.whole)
    action_fold = _action(TimelineState.fold)
    action_threshold = _action(TimelineState.change_threshold)
    action_match = _action(TimelineState.next_match, "no event has that name")
    action_mark = _action(TimelineState.mark)
    action_measure = _action(TimelineState.mark_selection)
    action_clear = _action(TimelineState.clear)
    action_hide = _action(TimelineState.hide_track, "this is the last track shown")
    action_show_hidden = _action(TimelineState.show_hidden, "nothing is hidden")
    action_pin = _action(TimelineState.pin_track)
    action_reorder = _action(TimelineState.reorder, "this track cannot move further")
    action_zoom = _action(lambda state, direction: state.zoom(_KEY_ZOOM**direction))
    action_page = _action(lambda state, pages: state.move_track(pages * state.track_rows))

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.state: TimelineState | None = None
        """Where the person is; None before a trace is shown."""
        self._scene: Scene | None = None
        self._head: dict[str, Row] = {}
        self.most_rows: int | None = None
        """Rows that the canvas may take, and takes where it needs them; all it has if None."""
        self._styles: dict[str, Style] = {}
        self._pace = Pace(self._draw_in_turn, self.set_timer)
        self._drag: _Drag | None = None

    def show(self, state: TimelineState | None) -> None:
        self.state = state
        glyphs = Glyphs(RowView.ascii_only, colours=not self.app.no_color)
        self._scene = None if state is None else Scene(state, glyphs)
        self.changed()

    def set_room(self, rows: int) -> None:
        """Take at most so many rows, and no more than there is to show."""
        if rows != self.most_rows:
            self.most_rows = rows
            self._redraw()

    def changed(self) -> None:
        """Draw the changed state soon, and post what is selected."""
        self._pace.want()
        self.post_message(self.SelectionChanged())

    def act(self, change: Callable[[TimelineState], object], missing: str = "") -> None:
        """Change the state; show ``missing``, if given, where that did nothing."""
        if self.state is None:
            return
        marks = self.state.marks
        if change(self.state) is False and missing:
            self.notify(hint(missing), timeout=3, markup=False)
        self.changed()
        if self.state.marks != marks:
            self.post_message(self.Marked())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def _draw_in_turn(self) -> None:
        self._redraw()
        self._pace.done(BETWEEN_FRAMES)

    def _redraw(self) -> None:
        self.rows = self._make_rows()
        if self.most_rows is not None and self.rows:
            height = min(len(self.rows), self.most_rows)
            if self.styles.height is None or self.styles.height.value != height:
                self.styles.height = height

    def _make_rows(self) -> list[Row]:
        state, scene, size = self.state, self._scene, self.size
        if state is None or scene is None or not size.width:
            return []
        self._head = head_rows(scene, state, size.width)
        room = max((self.most_rows or size.height) - len(self._head), 1)
        if room != state.track_rows:
            state.resized(room)
        rows = [*self._head.values(), *track_rows(scene, state, size.width)]
        return [with_ascii_ends(row) for row in rows] if RowView.ascii_only else rows

    def strip_of(self, line: Row) -> Strip:
        strip = Strip([Segment(text, self._style(name)) for text, name in line])
        return strip.adjust_cell_length(self.size.width, self.rich_style)

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self._make_style(name)
        return self._styles[name]

    def _make_style(self, name: str) -> Style:
        """The style of a kind or mark; ``-edge`` and ``-name`` of it are drawn in reverse."""
        if not name:
            return self.rich_style
        if name == "counter":
            return self.rich_style + palette(self.app.theme_variables)["chart"]
        if name.startswith("part-"):
            return palette(self.app.theme_variables)[name]
        plain = name.removesuffix("-edge").removesuffix("-name")
        if name.startswith("phase-"):
            part, styles = plain.removeprefix("phase-"), palette(self.app.theme_variables)
            if name.endswith("-name"):
                return styles[f"part-{part}"]
            return self.rich_style + styles[f"fill-{part}"] + Style(reverse=plain != name)
        style = self.get_component_rich_style(f"timeline--{plain}")
        return style + Style(reverse=True) if plain != name else style

    # Keys

    def action_same_name(self, step: int) -> None:
        selected = self.state.selected if self.state else None
        if selected is None or selected.is_gap:
            keys = hint("{timeline.same_name(-1)} and {timeline.same_name(1)} find more like it")
            self.notify(f"select an event first: {keys}", timeout=3, markup=False)
        else:
            self.act(lambda state: state.same_name(step), "no more events with this name")

    def action_step(self, step: int) -> None:
        self.act(lambda state: state.next_step(step), self._no_step("no more steps"))

    def action_slow_step(self, step: int) -> None:
        steps = self.state.steps if self.state else ()
        bound = format_ns(slow_from(steps))
        missing = f"no more steps took {bound} or more (10 % above the median)"
        self.act(lambda state: state.next_step(step, is_slow=True), self._no_step(missing))

    def _no_step(self, missing: str) -> str:
        steps = self.state.steps if self.state else ()
        return missing if steps else "no steps are marked in this trace"

    def action_follow(self, step: int) -> None:
        missing = "no kernel of this event" if step > 0 else "no launch of this event"
        self.act(lambda state: state.follow_launch(step), f"{missing} in the trace")

    # Mouse

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

    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    def _wheel(self, event: events.MouseEvent) -> None:
        """Zoom at the pointer, pan with shift, or scroll the names."""
        event.stop()
        direction = 1 if isinstance(event, events.MouseScrollDown) else -1
        if event.x < label_width(self.size.width):
            self.act(lambda state: state.scroll(direction))
        elif event.shift:
            self.act(lambda state: state.pan(direction))
        else:
            column = self._column(event.x)
            factor = _WHEEL_ZOOM**-direction
            self.act(lambda s: s.zoom(factor, s.view.time(column, self._columns())))

    def on_mouse_down(self, event: events.MouseDown) -> None:
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
        column, columns = self._column(x), self._columns()
        self.act(lambda state: state.centre_on(column, columns))

    def on_mouse_up(self, event: events.MouseUp) -> None:
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
        shown = state.on_screen()[y - len(self._head) :]
        if not shown:
            return
        track = shown[0].track
        if x < label_width(self.size.width):
            self.act(lambda s: s.unfold(track))
        else:
            self.act(lambda s: s.select_at(track, self._time(s, x), self._time(s, x, 1)))

    def _select_in_head(self, state: TimelineState, head: str, x: int) -> None:
        """Mark a step, a phase or a gap as a range, which is then measured."""
        if x < label_width(self.size.width):
            return
        middle = state.view.time(self._column(x), self._columns())
        if head == GAPS:
            self.act(lambda s: s.select_at(s.track, middle, middle + 1))
        spans = [(step.start, step.end) for step in state.steps] if head == STEP_ROW else []
        for phase in state.phases.values() if head == PHASE_ROW else ():
            at = int(phase.start.searchsorted(middle, side="right")) - 1
            spans += [(int(phase.start[at]), int(phase.end[at]))] if at >= 0 else []
        around = next((span for span in spans if span[0] <= middle < span[1]), None)
        if around is not None:
            self.act(lambda state: state.mark_range(*around))
