"""The detail below the timeline: text that scrolls, with lines that lead somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from perftui_tui.screens.timeline.detail.lines import Line, Place, laid_out, plain_text
from perftui_tui.widgets.row_view import RowView


class DetailPane(RowView):
    """Shows lines; a click on one that leads somewhere posts ``Chosen``."""

    @dataclass(eq=False)
    class Chosen(Message):
        """A line was clicked that leads to a place in the trace."""

        place: Place

    _lines: tuple[Line, ...] = ()
    _places: tuple[Place | None, ...] = ()

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
        found = laid_out(self._lines, self.size.width - 1)
        self._places = tuple(place for _, place in found)
        self.rows = [line for line, _ in found]

    def scroll_page(self, pages: int) -> bool:
        """Scroll by so many pages, less a line; False where there is no more."""
        before = self.scroll_offset.y
        step = max(1, self.size.height - 1)
        self.scroll_to(y=before + pages * step, animate=False, immediate=True)
        return self.scroll_offset.y != before

    def on_click(self, event: events.Click) -> None:
        """Go where the clicked line leads."""
        clicked = event.get_content_offset(self)
        at = self.scroll_offset.y + clicked.y if clicked is not None else len(self._places)
        place = self._places[at] if at < len(self._places) else None
        if place is not None:
            event.stop()
            self.post_message(self.Chosen(place))
