"""The row under every screen while a trial by pairs of runs goes on, and until its end is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui_tui.reading.trial_state import TrialState


class TrialLine(RowView):
    """Draws ``trial_line``; a click opens the trial."""

    DEFAULT_CSS = """
    TrialLine {
        height: 1; display: none; background: $panel; overflow: hidden hidden; pointer: pointer;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="trial-line")
        self._shown: tuple[TrialState, float] | None = None

    def show(self, state: TrialState | None, now: float) -> None:
        """Draw the trial; without one the row goes."""
        self._shown = None if state is None else (state, now)
        self.display = state is not None
        self._redraw()

    def _redraw(self) -> None:
        if self._shown is not None and self.size.width:
            from perftui_tui.panes.trial import trial_line

            self.rows = [trial_line(*self._shown, self.size.width)]

    async def on_click(self) -> None:
        """Open the trial."""
        await self.run_action("app.trial")
