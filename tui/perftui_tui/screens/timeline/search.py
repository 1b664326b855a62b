"""Finding events by a part of their name."""

from __future__ import annotations

from textual import on, work
from textual.widgets import Input
from textual.worker import get_current_worker

from perftui.trace.model import Trace
from perftui_tui.look.units import format_count
from perftui_tui.screens.timeline.details import DetailedTimeline
from perftui_tui.screens.timeline.model.matches import Matches, find_matches


class SearchedTimeline(DetailedTimeline):
    """A timeline with a line to search by."""

    def action_search(self) -> None:
        """Start typing a name."""
        self.add_class("-searching")
        self._arrange()
        self.query_one(Input).value = ""
        self.query_one(Input).focus()

    def action_close_search(self) -> None:
        """Back to the tracks; from there take away marks, then matches, then the selection."""
        if self.has_class("-searching"):
            self.remove_class("-searching")
            self._arrange()
            self._timeline.focus()
        else:
            self._timeline.action_clear()

    @on(Input.Submitted)
    def _search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_close_search()
        state = self.state
        if state is not None and event.value:
            self._search(state.trace, event.value)
        elif state is not None:
            state.matches = None
            self._timeline.changed()

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-search")
    def _search(self, trace: Trace, needle: str) -> None:
        """Search beside the screen: ten million names take a second."""
        worker = get_current_worker()
        found = find_matches(trace, needle)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_matches, trace, found)

    def _show_matches(self, trace: Trace, found: Matches) -> None:
        state = self.state
        if state is None or state.trace is not trace:
            return
        state.matches = found
        count, what = len(found), "event matches" if len(found) == 1 else "events match"
        self.notify(f"{format_count(count)} {what} {found.needle!r}", timeout=3, markup=False)
        if count:
            self._timeline.action_longest_match()
        else:
            self._timeline.changed()
