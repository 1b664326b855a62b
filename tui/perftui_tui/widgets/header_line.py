"""The first row: screens with their digits, and the state of what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from perftui_tui.format import elapsed
from perftui_tui.key_table import LONG_NAMES, SCREENS, SHORT_NAMES
from perftui_tui.panes.loading import loading
from perftui_tui.rows import Row, Span, row, spread, width
from perftui_tui.snapshot import Phase, Snapshot
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui.trace.nsys.exporting import Exporting

NAME = " perftui "
LONG_FROM = 100
"""Columns from which the full names of screens fit beside the state."""

NAMED_FROM = 76
"""Columns from which our own name, and the current screen's in full, fit as well."""


def tabs(current: str, cells: int) -> list[tuple[str, Span]]:
    """Each screen with the span that stands for it, the current one by its full name."""
    names = LONG_NAMES if cells >= LONG_FROM else SHORT_NAMES
    spans = []
    for at, screen in enumerate(SCREENS):
        chosen = screen == current
        name = LONG_NAMES[at] if chosen and cells >= NAMED_FROM else names[at]
        spans.append((screen, (f" {at + 1} {name} ", "selected" if chosen else "")))
    return spans


def app_name(cells: int) -> str:
    """Our name, where there is room for it."""
    return NAME if cells >= NAMED_FROM else ""


def state(snapshot: Snapshot | None, paused: bool, *, short: bool = False) -> Span:
    """The word for how what is shown stands."""
    if snapshot is None:
        return ("reading", "dim")
    code = snapshot.manifest.exit_code if snapshot.manifest else None
    spans: dict[Phase, Span] = {
        Phase.STARTING: ("● starting", "accent"),
        Phase.LIVE: ("● live", "good"),
        Phase.ENDED: (f"ended (exit {code})", "dim"),
        Phase.FAILED: ("not started" if code is None else f"failed (exit {code})", "bad"),
        Phase.KILLED: (f"killed (exit {code})", "bad"),
        Phase.LOST: ("recorder lost", "bad"),
        Phase.TRACE: ("trace", "dim"),
    }
    if paused and snapshot.phase.is_live:
        return ("▏▏paused", "warn")
    text, style = spans[snapshot.phase]
    return (text.replace("(exit ", "").rstrip(")"), style) if short else (text, style)


def header(snapshot: Snapshot | None, current: str, paused: bool, replay: bool, cells: int) -> Row:
    """The whole row; at 100 columns and more it names the script, its steps and its time."""
    left = row((app_name(cells), "accent"), *(span for _, span in tabs(current, cells)))
    if snapshot is None or cells < LONG_FROM:
        return spread(left, row(state(snapshot, paused, short=True), " "), cells)
    replayed = replay and snapshot.phase is not Phase.TRACE
    right = row(("replay ", "dim") if replayed else "", state(snapshot, paused), " ")
    facts = []
    if snapshot.run is not None:
        facts = [f"step {snapshot.train_steps:,}", elapsed(snapshot.elapsed_ns)]
    room = cells - width(left) - width(right) - 2
    title = snapshot.title if len("  ".join([snapshot.title, *facts])) <= room else ""
    words = "  ".join(part for part in (title, *facts) if part)
    return spread(left, row((f"{words}  ", "dim"), *right), cells)


class HeaderLine(RowView):
    """Draws ``header``; a click on a screen's name goes there."""

    DEFAULT_CSS = """
    HeaderLine { height: 1; background: $panel; dock: top; overflow: hidden hidden; }
    """

    class TabClicked(Message):
        """The name of a screen was clicked."""

        def __init__(self, screen: str) -> None:
            super().__init__()
            self.screen = screen

    def __init__(self, current: str) -> None:
        super().__init__(id="header")
        self._current = current
        self._shown: tuple[Snapshot | None, bool, bool] = (None, False, False)

    def show(self, snapshot: Snapshot | None, paused: bool, replay: bool) -> None:
        """Draw the state of ``snapshot``."""
        self._shown = (snapshot, paused, replay)
        self._redraw()

    def show_progress(self, name: str, done: float | Exporting) -> None:
        """Draw how far reading a file has come."""
        cells = self.size.width
        left = row((app_name(cells), "accent"), *(span for _, span in tabs(self._current, cells)))
        right = row((f"{loading(name, done)} ", "accent"))
        self.rows = [spread(left, right, cells)]

    def on_resize(self) -> None:
        """Draw again at the new width."""
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """Go to the screen whose name was clicked."""
        left = len(app_name(self.size.width))
        for screen, (text, _) in tabs(self._current, self.size.width):
            if left <= event.x < left + len(text):
                self.post_message(self.TabClicked(screen))
            left += len(text)

    def _redraw(self) -> None:
        snapshot, paused, replay = self._shown
        if self.size.width:
            self.rows = [header(snapshot, self._current, paused, replay, self.size.width)]
