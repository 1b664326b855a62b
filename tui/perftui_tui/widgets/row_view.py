"""Rows on the screen, and in words what stands there while they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from perftui_tui.look.format import elapsed, exported, percent
from perftui_tui.look.rows import Row, fit, safe
from perftui_tui.look.themes import palette

if TYPE_CHECKING:
    from perftui.trace.nsys.report import Exporting


Make = Callable[[int, int], Sequence[Row]]
"""Makes rows of that many cells, and at most that many of them where they are cut."""


class RowView(ScrollView, can_focus=False):
    """Rows of styled spans.

    Assigning ``rows`` compares with what is on screen and repaints the lines that differ, each as a
    region of its own: Textual repaints what is marked, not what changed, and over SSH the bytes of
    a whole pane each second make keys lag by seconds."""

    DEFAULT_CSS = """
    RowView {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        overflow-x: hidden;
        overflow-y: auto;
    }
    """

    class Resized(Message):
        """The view has another width, for which its rows were not made."""

    ascii_only = False
    """Whether this process draws with ASCII alone; set once, before the app starts."""

    left = 0
    """Cells of every row that are out of sight at the left."""
    _rows: tuple[Row, ...] = ()
    _make: Make | None = None

    def __init__(self, *, title: str = "", **given: Any) -> None:
        super().__init__(**given)
        if title:
            self.border_title = title

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Write into the border, which is painted anew where that changes it."""
        if (self.border_title or "") != title:
            self.border_title = title
        if (self.border_subtitle or "") != subtitle:
            self.border_subtitle = subtitle

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is drawn, top to bottom."""
        return self._rows

    @rows.setter
    def rows(self, rows: Sequence[Row]) -> None:
        old, self._rows = self._rows, tuple(rows)
        self.virtual_size = Size(self.content_size.width, len(self._rows))
        top, width = self.scroll_offset.y, self.size.width
        for y in range(max(len(old), len(self._rows))):
            before = old[y] if y < len(old) else None
            after = self._rows[y] if y < len(self._rows) else None
            if before != after and 0 <= y - top < self.size.height:
                self.refresh(Region(0, y - top, width, 1))

    def on_resize(self) -> None:
        """Make the rows anew, or post it to whoever makes them."""
        self._redraw()
        self.post_message(self.Resized())

    def draw(self, make: Make | None) -> None:
        """Make the rows, now and at each other size; None where others make them."""
        self._make = make
        self._redraw()

    def _redraw(self) -> None:
        size = self.content_size
        if self._make is not None and size.width and size.height:
            self.rows = self._make(size.width, size.height)

    def render_line(self, y: int) -> Strip:
        """The row at line ``y`` of the widget, cut or padded to its width."""
        at = y + self.scroll_offset.y
        return self.strip_of(self._rows[at] if at < len(self._rows) else ())

    def strip_of(self, line: Row) -> Strip:
        """A row in the colours of the theme, exactly as wide as the widget."""
        base = self.rich_style
        styles = palette(self.app.theme_variables)
        segments = [
            Segment(text, base + styles[style] if style else base)
            for text, style in fit(safe(line), self.left + self.scrollable_content_region.width)
        ]
        return Strip(segments).crop(self.left)


def loading(name: str, done: float | Exporting, seconds: float = 0.0) -> str:
    """The state of reading a file that cannot be shown yet, after so many ``seconds``."""
    if not isinstance(done, float):
        return exported(name, done.seconds, done.written)
    if done < 1:
        return f"reading {name} {percent(100 * done)}"
    return f"analysing {name}" + (f" {elapsed(int(seconds * 1e9))}" if seconds >= 1 else "")
