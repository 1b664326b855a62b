"""The Log screen: what the script printed."""

from __future__ import annotations

from collections.abc import Iterable

from textual import getters, on
from textual.widget import Widget
from textual.widgets import Input

from perftui_tui.keys.own_keys import bindings, hint
from perftui_tui.look.rows import row
from perftui_tui.reading.output import Output
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.log_view import LogStatus, LogView, nothing_printed
from perftui_tui.widgets.row_view import RowView

ALL_OUTPUT = "all of the output, including later lines: lines have no timestamps"

NOTHING_IN_A_TRACE = "a trace has no script output; a recorded run has (perftui train.py)"


class LogScreen(RunScreen):
    """Everything printed, the progress bar pinned at the bottom."""

    NAME = "log"
    HELP = (
        "The script's output as it is printed. The view follows the newest line until you scroll "
        "or search; {log.follow} follows again. {log.scroll_sideways(1)} and "
        "{log.scroll_sideways(-1)} move along lines longer than the screen. A progress bar stays "
        "in the line above the footer. The newest 20,000 lines are shown here; output.log in the "
        "run directory has all of them."
    )
    BINDINGS = bindings("log")

    DEFAULT_CSS = """
    LogScreen #log-search { height: 1; border: none; padding: 0; display: none; }
    LogScreen #log-played { height: 1; display: none; overflow: hidden hidden; }
    LogScreen.-searching #log-search { display: block; }
    """

    _view = getters.query_one(LogView)

    def body(self) -> Iterable[Widget]:
        yield RowView(id="log-played")
        yield LogView(id="log-lines")
        yield Input(placeholder="search", id="log-search")
        yield LogStatus(id="log-status")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Input).cursor_blink = False
        self.query_one("#log-played", RowView).rows = [row((ALL_OUTPUT, "warn"))]

    def show(self, snapshot: Snapshot) -> None:
        nothing = nothing_printed(snapshot.goes_on)
        self._view.empty = NOTHING_IN_A_TRACE if snapshot.run is None else nothing
        self.show_output(self.session.output)

    def show_output(self, output: Output) -> None:
        self._view.show(output)
        self._show_status()

    def show_position(self) -> None:
        """Note that all output is shown, while other screens show an earlier time."""
        super().show_position()
        position = self.session.playback.position
        is_earlier = position is not None and not position.is_end
        self.query_one("#log-played").display = is_earlier

    @on(LogView.Moved)
    def _show_status(self) -> None:
        self.query_one(LogStatus).show(self._view)

    def action_follow(self) -> None:
        self._view.follow()

    def action_scroll_lines(self, lines: int) -> None:
        self._view.move(lines)

    def action_scroll_sideways(self, direction: int) -> None:
        self._view.move_sideways(direction)

    def action_scroll_pages(self, pages: int) -> None:
        self._view.move(pages * max(1, self._view.size.height - 1))

    def action_scroll_top(self) -> None:
        self._view.move(-len(self.session.output.lines))

    def action_search(self) -> None:
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_find(self, direction: int) -> None:
        if not self._view.find(direction):
            pattern = self._view.pattern
            text = f"no line with {pattern!r}" if pattern else hint("{log.search} searches")
            self.notify(text, severity="warning", markup=False, timeout=3)

    @on(Input.Changed)
    def _pattern_changed(self, event: Input.Changed) -> None:
        self._view.pattern = event.value

    @on(Input.Submitted)
    def _pattern_submitted(self) -> None:
        self.action_close_search()
        self.action_find(-1)

    def action_close_search(self) -> None:
        self.remove_class("-searching")
        self.set_focus(None)
