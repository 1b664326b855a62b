"""What is shown where the terminal is too small for a screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import ModalScreen

from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import row
from perftui_tui.widgets.row_view import RowView

NEEDED = Size(60, 18)
"""Below this a table, a finding or a key would be cut."""

NEEDED_FOR_STRIP = Size(40, 8)
"""What the Overview needs: the verdict, one step and three meters, as in a strip of tmux."""


class TooSmallScreen(ModalScreen[None]):
    """Shows which size is needed and which there is; it closes by itself when there is room."""

    DEFAULT_CSS = """
    TooSmallScreen { background: $background; }
    TooSmallScreen RowView { height: 1fr; overflow: hidden hidden; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.quit", "Quit", id="app.quit"),
        # There is room enough for it; this screen waits for a larger terminal.
        Binding("1", "app.switch_mode('overview')", "Overview", id="app.show('overview')"),
    ]

    def __init__(self, goes_on: bool, needed: Size) -> None:
        """``goes_on`` is whether a training runs."""
        super().__init__()
        self._goes_on = goes_on
        self.needed = needed

    def compose(self) -> ComposeResult:
        yield RowView()

    def on_resize(self) -> None:
        width, height = self.app.size
        quits = (hint("{app.quit} quits."), "dim")
        fits = self.needed != NEEDED_FOR_STRIP and not is_too_small(self.app.size, NEEDED_FOR_STRIP)
        overview = hint("{app.show('overview')} shows the Overview, which fits. ") if fits else ""
        self.query_one(RowView).rows = [
            row(("The terminal is too small", "warn")),
            row(f"needed  {self.needed.width} x {self.needed.height}"),
            row(f"now     {width} x {height}"),
            row((overview, "dim")),
            row(("The training goes on; " if self._goes_on else "", "dim"), quits),
        ]

    def on_screen_resume(self) -> None:
        """Go, where the terminal has grown under a dialog."""
        if not is_too_small(self.app.size, self.needed):
            self.dismiss()


def is_too_small(size: Size, needed: Size) -> bool:
    """Whether ``size`` is below what is ``needed``."""
    return size.width < needed.width or size.height < needed.height
