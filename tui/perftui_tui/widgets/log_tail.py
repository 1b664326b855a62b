"""The script's last lines on the overview, the progress bar at the bottom."""

from __future__ import annotations

from perftui_tui.look.rows import Row, crop, row
from perftui_tui.reading.output_tail import Output
from perftui_tui.widgets.row_view import RowView

NOTHING_PRINTED = "the script has printed nothing"


def last_lines(output: Output, cells: int, height: int) -> list[Row]:
    """The newest ``height`` lines, each cut to ``cells``."""
    if not output.lines:
        return [row((NOTHING_PRINTED, "dim"))]
    return [crop(row(line), cells) for line in output.lines[-height:]]


class LogTail(RowView):
    """Draws ``last_lines``."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._output = Output()
        self.border_title = "Log"

    def show(self, output: Output) -> None:
        """Draw the end of ``output``."""
        self._output = output
        self._redraw()

    def _redraw(self) -> None:
        size = self.content_size
        if size.width and size.height:
            self.rows = last_lines(self._output, size.width, size.height)
