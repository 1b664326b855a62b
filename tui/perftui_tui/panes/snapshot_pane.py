"""A pane that draws a pure function of (snapshot, width, height)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from perftui_tui.look.rows import Row
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.widgets.row_view import RowView

Draw = Callable[[Snapshot, int, int], Sequence[Row]]


class SnapshotPane(RowView):
    """Draws ``draw`` whenever it is shown a snapshot or its size changes.

    ``chart`` names the chart that a click opens; empty for none.
    """

    def __init__(
        self,
        draw: Draw,
        *,
        title: str = "",
        id: str | None = None,  # noqa: A002 - Textual's name
        classes: str | None = None,
        chart: str = "",
    ) -> None:
        super().__init__(title=title, id=id, classes=classes)
        self._chart = chart
        self._draw = draw
        self._snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Draw ``snapshot``; nothing is repainted that it does not change."""
        self._snapshot = snapshot
        self._redraw()

    async def on_click(self, event: events.Click) -> None:  # noqa: ARG002 - anywhere on it
        """Open the chart."""
        if self._chart:
            await self.run_action(f"app.study('{self._chart}')")

    def _redraw(self) -> None:
        size = self.content_size
        if self._snapshot is not None and size.width and size.height:
            self.rows = self._draw(self._snapshot, size.width, size.height)
