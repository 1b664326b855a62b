"""What is shown where the terminal is too small for anything else."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import ModalScreen

from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import row
from perftui_tui.widgets.row_view import RowView

NEEDED = Size(60, 18)
"""Below this the bar of the mean step, a meter or a finding would be cut."""


class TooSmallScreen(ModalScreen[None]):
    """Shows which size is needed and which there is; it closes by itself when there is room."""

    DEFAULT_CSS = """
    TooSmallScreen { background: $background; }
    TooSmallScreen RowView { height: 1fr; overflow: hidden hidden; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit", id="app.quit")]

    def __init__(self, goes_on: bool) -> None:
        """``goes_on`` is whether a training runs."""
        super().__init__()
        self._goes_on = goes_on

    def compose(self) -> ComposeResult:
        """The text alone."""
        yield RowView()

    def on_resize(self) -> None:
        """Show the size that there is now."""
        width, height = self.app.size
        quits = (hint("{app.quit} quits."), "dim")
        self.query_one(RowView).rows = [
            row(("The terminal is too small", "warn")),
            row(f"needed  {NEEDED.width} x {NEEDED.height}"),
            row(f"now     {width} x {height}"),
            row(("The training goes on; " if self._goes_on else "", "dim"), quits),
        ]

    def on_screen_resume(self) -> None:
        """Go, where the terminal has grown under a dialog."""
        if not is_too_small(self.app.size):
            self.dismiss()


def is_too_small(size: Size) -> bool:
    """Whether ``size`` is below what is needed."""
    return size.width < NEEDED.width or size.height < NEEDED.height
