"""Lines of output, of which only those on screen are ever drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from textual import events, on
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import Row, crop, row, spread
from perftui_tui.reading.output import Output
from perftui_tui.widgets.row_view import RowView


def nothing_printed(goes_on: bool) -> str:
    """Shown for an empty log; ``goes_on`` is whether the script may still print."""
    return "the script has printed nothing" + (" yet" if goes_on else "")


def highlighted(line: str, pattern: str, style: str = "match") -> Row:
    """The line with every match of ``pattern``, upper and lower case alike, in ``style``."""
    if not pattern:
        return row(line)
    pieces = re.split(f"({re.escape(pattern)})", line, flags=re.IGNORECASE)
    return tuple((text, style if at % 2 else "") for at, text in enumerate(pieces) if text)


class LogView(RowView):
    """Shows an ``Output``; follows its end until moved."""

    DEFAULT_CSS = "LogView { height: 1fr; }"

    class Moved(Message):
        """What is shown, or whether it follows, has changed."""

    output = Output()
    """What is shown."""
    pattern: reactive[str] = reactive("", init=False, always_update=True)
    """What is searched for; empty for nothing."""
    empty: reactive[str] = reactive("", init=False)
    """The text shown where there are no lines."""
    _found: int | None = None
    """Number in the whole output of the line that was found last."""
    following = True

    def watch_pattern(self) -> None:
        """Begin anew: nothing is found yet."""
        self._found = None

    @property
    def found(self) -> int | None:
        """Number in the whole output, from 0, of the line found last, while it is on screen."""
        if self._found is None:
            return None
        line = self._found - self.output.dropped - self.scroll_offset.y
        return self._found if 0 <= line < self.size.height else None

    def show(self, output: Output) -> None:
        """Draw ``output``; while not following, the lines on screen stay where they are."""
        if output is self.output:
            return
        gone = output.dropped - self.output.dropped
        self.output = output
        self.virtual_size = Size(self.size.width, len(output.lines))
        if self.following:
            self._show_from(len(output.lines))
        elif gone:
            self._show_from(self.scroll_offset.y - gone)
        self.refresh()

    def on_resize(self) -> None:
        """Keep the end in view while following."""
        self.virtual_size = Size(self.size.width, len(self.output.lines))
        if self.following:
            self._show_from(len(self.output.lines))

    @property
    def is_cut(self) -> bool:
        """Whether a line on screen goes on at the right."""
        top, edge = self.scroll_offset.y, self.left + self.size.width
        shown = self.output.lines[top : top + self.size.height]
        return any(cell_len(printable(line)) > edge for line in shown)

    def follow(self) -> None:
        self.following, self.left = True, 0
        self.refresh()
        self._show_from(len(self.output.lines))
        self.post_message(self.Moved())

    def move(self, lines: int) -> None:
        """Scroll by ``lines``; reaching the end follows again."""
        self._show_from(self.scroll_offset.y + lines)
        self.following = self.scroll_offset.y >= len(self.output.lines) - self.size.height
        self.post_message(self.Moved())

    def move_sideways(self, direction: int) -> None:
        """Scroll by half the width; to the right (1) as far as the lines on screen go."""
        if direction < 0 or self.is_cut:
            self.left = max(0, self.left + direction * (self.size.width // 2))
            self.refresh()
            self.post_message(self.Moved())

    def find(self, direction: int) -> bool:
        """Go to the next (1) or previous (-1) matching line, round the end; False without one."""
        if not self.pattern:
            return False
        wanted, lines, top = self.pattern.lower(), self.output.lines, self.scroll_offset.y
        # From the line found last, or the edge of the screen: its top stays where it is all through
        # the last screenful.
        start = top if direction < 0 and not self.following else len(lines)
        if self.found is not None:
            start = self.found - self.output.dropped
        elif direction > 0:
            start = top - 1
        for step in range(1, len(lines) + 1):
            at = (start + direction * step) % len(lines)
            if wanted in lines[at].lower():
                self.following = False
                self._found = self.output.dropped + at
                behind = lines[at].lower().index(wanted) + len(wanted)
                self.left = max(0, behind - self.size.width + 1)
                self._show_from(at)
                self.post_message(self.Moved())
                return True
        return False

    def render_line(self, y: int) -> Strip:
        """One line of output with its matches marked, in the line found last more so."""
        at = y + self.scroll_offset.y
        lines = self.output.lines
        if at >= len(lines):
            return self.strip_of(row((self.empty, "dim")) if at == 0 else ())
        style = "selected" if self.output.dropped + at == self._found else "match"
        return self.strip_of(highlighted(lines[at], self.pattern, style))

    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    def _scroll_by_wheel(self, event: events.MouseEvent) -> None:
        event.stop()
        self.move(3 if isinstance(event, events.MouseScrollDown) else -3)

    def _show_from(self, line: int) -> None:
        top = max(0, min(line, len(self.output.lines) - self.size.height))
        # Before the first layout a scroll would stick and hide the first lines.
        if self.size.height:
            self.scroll_to(y=top, animate=False, force=True, immediate=True)


class LogStatus(RowView):
    """One row: how far, and whether it follows; while scrolled up, the newest line too."""

    DEFAULT_CSS = "LogStatus { height: 1; background: $panel; overflow: hidden hidden; }"

    def show(self, view: LogView) -> None:
        output = view.output
        last = output.dropped + len(output.lines)
        state = (hint("paused: {log.follow} follows"), "warn")
        if view.following:
            state = ("following", "good")
        newest = output.lines[-1] if output.lines and not view.following else ""
        lines = "line" if last == 1 else "lines"
        right = row((f"  {last:,} {lines}  ", "dim"), state, " ")
        if view.is_cut:
            right = row((hint("  {log.scroll_sideways(1)} more of long lines"), "accent"), *right)
        if view.found is not None:
            right = row((f"  found in line {view.found + 1:,}", "accent"), *right)
        if output.skipped_bytes:
            right = row((f"  first {output.skipped_bytes:,} bytes not read", "dim"), *right)
        if self.size.width:
            self.rows = [spread(row(newest), right, self.size.width)]


def tail_rows(lines: Sequence[str], empty: str, end: str, cells: int, height: int) -> list[Row]:
    """The newest lines that fit, or ``empty`` where there are none, and ``end`` below them."""
    # More are never in sight.
    rows = [row(line) for line in lines[-height:]] or [row((empty, "dim"))]
    if end:
        rows.append(row((end, "warn")))
    return [crop(line, cells) for line in rows[-height:]]
