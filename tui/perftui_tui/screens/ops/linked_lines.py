"""Lines of text of which some lead somewhere: the selection moves from one of those to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message

from perftui_tui.keys.keymap import bindings
from perftui_tui.look.rows import Row, plain
from perftui_tui.widgets.row_view import RowView


@dataclass(frozen=True)
class ToRow:
    """Leads to a row of the trace, on the timeline."""

    row: int


@dataclass(frozen=True)
class ToKernel:
    """Leads to a kernel, by its name and category in the kernel table."""

    name: str
    category: str


@dataclass(frozen=True)
class ToGroup:
    """Leads to a group of calls."""

    label: str


Target = ToRow | ToKernel | ToGroup


@dataclass(frozen=True)
class LinkedLine:
    """One line, safe to show, and where it leads."""

    row: Row
    target: Target | None = None


class LinkedLines(RowView, can_focus=True):
    """Lines under a cursor that stops only where ``enter`` does something."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("ops.detail")

    @dataclass(eq=False)
    class Chosen(Message):
        """A line was opened with ``enter``, or by a click."""

        target: Target

    class Left(Message):
        """The reader wants back."""

    _lines: tuple[LinkedLine, ...] = ()
    at = 0
    """The line under the cursor."""

    @property
    def text(self) -> str:
        """The whole text, for the clipboard."""
        return "\n".join(plain(line.row).rstrip() for line in self._lines)

    def show_lines(self, lines: Sequence[LinkedLine], at: int | None = None) -> None:
        """Show ``lines``; the cursor stays on its target, or is put on line ``at``."""
        selected = self.target
        self._lines = tuple(lines)
        if at is not None:
            self.at = at
        places = self._stops()
        same = [place for place in places if self._lines[place].target == selected]
        if at is None:
            self.at = min(same, key=lambda place: abs(place - self.at), default=0)
        if self.at not in places:
            self.at = places[0] if places else 0
        self._draw()
        if at is not None:
            self._reveal()

    @property
    def target(self) -> Target | None:
        """Where the line under the cursor leads."""
        return self._lines[self.at].target if self.at < len(self._lines) else None

    def _stops(self) -> list[int]:
        return [place for place, line in enumerate(self._lines) if line.target is not None]

    def _draw(self) -> None:
        self.rows = [
            (("> ", "accent"), *((text, "bold") for text, _ in line.row))
            if place == self.at and line.target is not None
            else (("  ", ""), *line.row)
            for place, line in enumerate(self._lines)
        ]

    def _reveal(self) -> None:
        """The line in view, with the headings above the first."""
        if self.size.height:
            top = 0 if self.at in self._stops()[:1] else self.at
            self.scroll_to_region(Region(0, top, 1, 1), animate=False, force=True, immediate=True)

    def _go_to(self, place: int) -> None:
        self.at = place
        self._draw()
        self._reveal()

    def action_move(self, steps: int) -> None:
        """The next line that leads somewhere, or one before; at the end scroll on."""
        stops = self._stops()
        further = [place for place in stops if (place > self.at if steps > 0 else place < self.at)]
        if not further:
            self.scroll_relative(y=steps, animate=False)
            return
        self._go_to(further[0] if steps > 0 else further[-1])

    def action_page(self, pages: int) -> None:
        """A screenful."""
        wanted = self.at + pages * max(self.size.height - 1, 1)
        stops = self._stops()
        if stops:
            self._go_to(min(stops, key=lambda place: abs(place - wanted)))

    def action_edge(self, direction: int) -> None:
        """The first (-1) or last (1) line that leads somewhere."""
        stops = self._stops()
        if stops:
            self._go_to(stops[0 if direction < 0 else -1])

    def action_open(self) -> None:
        """Go where the line leads."""
        if self.target is not None:
            self.post_message(self.Chosen(self.target))

    def action_leave(self) -> None:
        """Back to where it was opened."""
        self.post_message(self.Left())

    def on_click(self, event: events.Click) -> None:
        """Go where the clicked line leads."""
        place = event.y + self.scroll_offset.y
        if place < len(self._lines) and self._lines[place].target is not None:
            event.stop()
            self.at = place
            self._draw()
            self.action_open()
