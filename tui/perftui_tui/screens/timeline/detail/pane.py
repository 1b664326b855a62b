"""The detail below the timeline: text that scrolls, with lines that lead somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from perftui_tui.look.rows import width as width_of
from perftui_tui.screens.timeline.detail.lines import (
    Laid,
    Line,
    Place,
    in_two,
    laid_out,
    plain_text,
    side_by_side,
)
from perftui_tui.widgets.row_view import RowView

_TWO_COLUMNS = 150
"""Cells from which on lines that do not fit stand in two columns, and many short ones."""

_MANY = 14
"""Lines that are nearer to each other in two columns."""

_APART = 3
"""Cells between the two."""


class DetailPane(RowView):
    """Shows lines; a click on one that leads somewhere posts ``Chosen``."""

    @dataclass(eq=False)
    class Chosen(Message):
        """A line was clicked that leads to a place in the trace."""

        place: Place

    _lines: tuple[Line, ...] = ()
    _places: tuple[Place | None, ...] = ()
    _beside: tuple[Place | None, ...] = ()
    """Of what stands at the right, where there are two columns."""
    _right = 0
    """The cell at which that begins."""

    @property
    def text(self) -> str:
        """The whole text, on screen or not."""
        return plain_text(self._lines)

    def show_lines(self, lines: Sequence[Line], *, further: bool = False) -> int:
        """Show ``lines`` from the top, or stay where they go on; returns the rows left empty."""
        self._lines = tuple(lines)
        self._redraw()
        if not further:
            self.scroll_to(y=0, animate=False, immediate=True)
        return self.content_size.height - len(self.rows)

    def _redraw(self) -> None:
        # A column is kept for the scrollbar, so that it moves no text when it comes.
        width = self.size.width - 1
        found = laid_out(self._lines, width)
        beside: Laid = []
        half = (width - _APART) // 2
        if width >= _TWO_COLUMNS and self._reads_better_in_two(found, half):
            first, beside = in_two(self._lines, half)
            found = first if beside else found
            self._right = half + _APART
        self._places = tuple(place for _, place in found)
        self._beside = tuple(place for _, place in beside)
        rows = [line for line, _ in found]
        self.rows = side_by_side(rows, [line for line, _ in beside], self._right)

    def _reads_better_in_two(self, found: Laid, half: int) -> bool:
        """Whether the lines do not fit in one column, or are many and not cut in two."""
        if len(found) > self.content_size.height:
            return True
        return len(found) >= _MANY and all(width_of(line) <= half for line, _ in found)

    def scroll_page(self, pages: int) -> bool:
        """Scroll by so many pages, less a line; False where there is no more."""
        before = self.scroll_offset.y
        step = max(1, self.size.height - 1)
        self.scroll_to(y=before + pages * step, animate=False, immediate=True)
        return self.scroll_offset.y != before

    def on_click(self, event: events.Click) -> None:
        """Go where the clicked line leads."""
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        is_right = bool(self._beside) and clicked.x >= self._right
        places = self._beside if is_right else self._places
        at = self.scroll_offset.y + clicked.y
        place = places[at] if at < len(places) else None
        if place is not None:
            event.stop()
            self.post_message(self.Chosen(place))
