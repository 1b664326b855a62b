"""The row under every screen while a trial or a tuning goes on, and until its end is seen."""

from __future__ import annotations

from collections.abc import Callable

from perftui_tui.look.rows import Row
from perftui_tui.widgets.row_view import RowView

Draw = Callable[[int], Row]
"""Makes the row, so many cells wide."""


class ExperimentLine(RowView):
    """Draws what it is given; a click opens the trial or the tuning."""

    DEFAULT_CSS = """
    ExperimentLine {
        height: 1; display: none; background: $panel; overflow: hidden hidden; pointer: pointer;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="experiment-line")
        self._draw: Draw | None = None

    def show(self, draw: Draw | None) -> None:
        """Draw the row; without one it goes."""
        self._draw = draw
        self.display = draw is not None
        self._redraw()

    def _redraw(self) -> None:
        if self._draw is not None and self.size.width:
            self.rows = [self._draw(self.size.width)]

    async def on_click(self) -> None:
        """Open the trial or the tuning."""
        await self.run_action("app.trial")
