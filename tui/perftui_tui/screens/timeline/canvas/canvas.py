"""The timeline as it is drawn: rows of a state, repainted where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from perftui_tui.look.palette import palette
from perftui_tui.look.rows import Row
from perftui_tui.screens.timeline.canvas.head import Scene, head_rows
from perftui_tui.screens.timeline.canvas.rows import track_rows
from perftui_tui.screens.timeline.canvas.throttle import Throttle
from perftui_tui.screens.timeline.canvas.track_cells import Glyphs
from perftui_tui.screens.timeline.model.event_kinds import EventKind
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.widgets.row_view import RowView

_ASCII_ENDS = str.maketrans("├┤▾", "<>v")
"""Clearer characters for these than the ones that ``look.ascii`` draws elsewhere."""

_MARKS = {
    "label",
    "selected-label",
    "muted",
    "view",
    "pointer",
    "step",
    "gap",
    "selected",
    "linked",
    "arrow",
    "mark",
    "match",
    "match-mark",
}
"""Styles that stand for no kind of work."""


def _kind_css() -> Iterator[str]:
    for kind in EventKind:
        for theme, colour in zip(("", ":light", ":ansi"), kind.colours, strict=True):
            yield f"&{theme} > .timeline--{kind.style} {{ color: {colour}; }}"


class TimelineCanvas(RowView):
    """Draws a ``TimelineState``, and posts what is selected in it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"timeline--{style}" for style in _MARKS | {kind.style for kind in EventKind}
    }
    DEFAULT_CSS = f"""
    TimelineCanvas {{
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
        &:focus > .timeline--selected-label {{ color: $background; background: $primary; }}
        {" ".join(_kind_css())}
    }}
    """

    class SelectionChanged(Message):
        """Another event or gap is selected, or none any more."""

    class Marked(Message):
        """Marks were set, or taken away: where there are two, what lies between is measured."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.state: TimelineState | None = None
        """Where the person is; None before a trace is shown."""
        self._scene: Scene | None = None
        self._head: dict[str, Row] = {}
        self.most_rows: int | None = None
        """Rows that the canvas may take, and takes where it needs them; all it has if None."""
        self._styles: dict[str, Style] = {}
        self._throttle = Throttle(self._redraw, self.set_timer)

    def show(self, state: TimelineState | None) -> None:
        """Show another trace, or none."""
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
        self._throttle.request()
        self.post_message(self.SelectionChanged())

    def act(self, change: Callable[[TimelineState], object], missing: str = "") -> None:
        """Change the state; show ``missing``, if given, where that did nothing."""
        if self.state is None:
            return
        marks = self.state.marks
        done = change(self.state)
        if done is False and missing:
            self.nothing_found(missing)
        self.changed()
        if self.state.marks != marks:
            self.post_message(self.Marked())

    def nothing_found(self, reason: str) -> None:
        """Say why a key did nothing."""
        self.notify(reason, timeout=3, markup=False)

    def notify_style_update(self) -> None:
        """Forget colours of the old theme."""
        super().notify_style_update()
        self._styles.clear()

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
        """A row in the colours of the timeline."""
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
            ground = palette(self.app.theme_variables)[f"part-{plain.removeprefix('phase-')}"]
            if name.endswith("-name"):
                return ground
            return self.rich_style + Style(color=ground.bgcolor, reverse=plain != name)
        style = self.get_component_rich_style(f"timeline--{plain}")
        return style + Style(reverse=True) if plain != name else style


def with_ascii_ends(row: Row) -> Row:
    """The ends of gaps, and what was found, in ASCII; the rest becomes so as it is drawn."""
    return tuple((text.translate(_ASCII_ENDS), style) for text, style in row)
