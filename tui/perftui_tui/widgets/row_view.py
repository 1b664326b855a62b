"""The widget behind every pane: it holds rows, and repaints only those that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from perftui_tui.rows import STYLES, Row, fit, safe

ASCII_GLYPHS = str.maketrans(
    "▁▂▃▄▅▆▇█▏▎▍▌▋▊▉│─━╭╮╰╯●…·▶×→←↓↑░┤≤–", "..:-=+*#||||###|--++++*~.>x><v^.|<-"
)
"""What a terminal font without block characters shows instead."""


class RowView(ScrollView, can_focus=False):
    """Rows of styled spans.

    Assigning ``rows`` compares with what is on screen and repaints the lines that differ, each as a
    region of its own: Textual repaints what is marked, not what changed, and over SSH the bytes of
    a whole pane each second make keys lag by seconds.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"row--{name}" for name in STYLES}

    DEFAULT_CSS = """
    RowView {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        overflow-x: hidden;
        overflow-y: auto;
        .row--bold { text-style: bold; }
        .row--dim { color: $dim; }
        .row--good { color: $good; text-style: bold; }
        .row--warn { color: $caution; text-style: bold; }
        .row--bad { color: $bad; text-style: bold; }
        .row--accent { color: $accent; text-style: bold; }
        .row--key { color: $part-text; background: $accent; text-style: bold; }
        .row--selected { color: $part-text; background: $primary; text-style: bold; }
        .row--insert { color: $good; }
        .row--delete { color: $bad; }
        .row--match { color: $part-text; background: $caution; }
        .row--chart { color: $chart; }
        .row--chart-warn { color: $caution; }
        .row--chart-bad { color: $bad; }
        .row--part-input_wait { color: $part-text; background: $part-input-wait; }
        .row--part-loader_start { color: $part-text; background: $part-loader-start; }
        .row--part-forward { color: $part-text; background: $part-forward; }
        .row--part-backward { color: $part-text; background: $part-backward; }
        .row--part-optimizer { color: $part-text; background: $part-optimizer; }
        .row--part-profiler { color: $part-text; background: $part-profiler; }
        .row--part-other { color: $part-text; background: $part-other; }
        .row--part-compute { color: $part-text; background: $part-forward; }
        .row--part-communication { color: $part-text; background: $part-optimizer; }
        .row--part-copies { color: $part-text; background: $part-loader-start; }
        .row--part-idle { color: $part-text; background: $part-input-wait; }
    }
    """

    ascii_only = False
    """Whether this process draws with ASCII alone; set once, before the app starts."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._rows: tuple[Row, ...] = ()

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

    def render_line(self, y: int) -> Strip:
        """The row at line ``y`` of the widget, cut or padded to its width."""
        at = y + self.scroll_offset.y
        return self.strip_of(self._rows[at] if at < len(self._rows) else ())

    def strip_of(self, line: Row) -> Strip:
        """A row in the colours of the theme, exactly as wide as the widget."""
        base = self.rich_style
        segments = [
            Segment(self._drawn(text), base + self._style(style))
            for text, style in fit(safe(line), self.scrollable_content_region.width)
        ]
        return Strip(segments)

    def _drawn(self, text: str) -> str:
        return text.translate(ASCII_GLYPHS) if self.ascii_only else text

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"row--{name}", partial=True) if name else Style()
