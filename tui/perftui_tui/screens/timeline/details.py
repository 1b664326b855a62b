"""The detail below the timeline: the selection, or the range between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep

import numpy as np
from rich.text import Text
from textual import on, work
from textual.containers import Vertical
from textual.widgets import Static
from textual.worker import Worker, WorkerState, get_current_worker

from perftui.analysis.timeline.measure import measure
from perftui.run.reader import RunSnapshot
from perftui.trace.model import Trace
from perftui_tui.keys.keymap import shown_key
from perftui_tui.screens.timeline.detail.counter import counter_lines, counter_table, counters_at
from perftui_tui.screens.timeline.detail.event import event_lines
from perftui_tui.screens.timeline.detail.further import further_lines
from perftui_tui.screens.timeline.detail.gap import gap_lines
from perftui_tui.screens.timeline.detail.lines import Line
from perftui_tui.screens.timeline.detail.measure import measure_lines
from perftui_tui.screens.timeline.detail.pane import DetailPane
from perftui_tui.screens.timeline.detail.summary import summary_lines
from perftui_tui.screens.timeline.model.counter_track import CounterTrack
from perftui_tui.screens.timeline.model.event_kinds import EventKind, kind_of
from perftui_tui.screens.timeline.model.navigation import Selection
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.screens.timeline.widget import Timeline
from perftui_tui.widgets.row_view import RowView

_SETTLED = 0.12
"""Seconds until more is worked out about a selection: a key that repeats comes sooner."""

_ROOM_FOR_MORE = 8
"""Free rows below the detail of a selection from which on the summary is shown there."""

_DETAIL_ROWS = ((0, 4), (24, 6), (30, 9))
"""From so many rows on the detail has at least so many, its upper edge among them."""

_TWO_ROWS = 26
"""Rows from which on the legend may have two of them."""

_ENTRY_EXTRA = 4
"""Cells of an entry of the legend beside its word: the mark and blanks."""


class DetailedTimeline(Vertical):
    """A timeline with all that is known of what is selected in it."""

    run: RunSnapshot | None = None
    """The run that the trace is a window of."""
    rank = 0
    """The rank whose window it is."""
    _detailed: Selection | None = None
    _is_shown = False
    """Whether the detail shows ``_detailed``."""
    _is_measure = False
    """Whether what was measured is shown instead."""
    _notes: tuple[Line, ...] = ()
    """Shown before the summary, while nothing is selected."""
    _hidden = 0
    _legend_rows = 1
    _is_tall = False
    """Whether the detail has half of the screen."""

    @property
    def _timeline(self) -> Timeline:
        return self.query_one(Timeline)

    @property
    def _detail(self) -> DetailPane:
        return self.query_one(DetailPane)

    @property
    def state(self) -> TimelineState | None:
        """Where the person is; None while there is no trace."""
        return self._timeline.state

    @on(Timeline.SelectionChanged)
    def _selection_changed(self, event: Timeline.SelectionChanged) -> None:
        event.stop()
        state = self.state
        if state is None:
            return
        if state.hidden_count != self._hidden:
            self._hidden = state.hidden_count
            self._arrange()
        selected = state.selected
        if self._is_shown and selected == self._detailed:
            return
        self._detailed, self._is_shown, self._is_measure = selected, True, False
        if selected is None:
            self._detail.show_lines([*self._notes, *self._summary(state)])
            return
        if isinstance(selected.track, CounterTrack):
            lines = counter_lines(selected.track, selected)
            if self._detail.show_lines(lines) >= _ROOM_FOR_MORE:
                self._detail.show_lines([*lines, Line(""), *self._summary(state)])
            return
        if selected.is_gap:
            lines = gap_lines(state.analysis, state.gaps, selected, self.run, state.main_track)
        else:
            lines = event_lines(state.trace, selected, state.launches)
        lines += counters_at(state.counters, selected.start, selected.end)
        self._detail.show_lines(lines)
        self._add_more(state, selected, lines)

    def _summary(self, state: TimelineState) -> list[Line]:
        return [
            *summary_lines(state.analysis, self.run),
            *counter_table(state.counters, state.view),
        ]

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-further")
    def _add_more(self, state: TimelineState, selected: Selection, shown: Sequence[Line]) -> None:
        """Arguments, whose file may be slow or gone, and what needs a look at all events."""
        worker = get_current_worker()
        # Who goes through events quickly waits for none of it, and neither does the next frame.
        sleep(_SETTLED)
        if worker.is_cancelled:
            return
        more = further_lines(state.trace, selected)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_more, state, selected, [*shown, *more])

    def _show_more(self, state: TimelineState, selected: Selection, lines: Sequence[Line]) -> None:
        if state is self.state and selected == self._detailed and not self._is_measure:
            spare = self._detail.show_lines(lines, further=True)
            if spare >= _ROOM_FOR_MORE:
                lines = [*lines, Line(""), *self._summary(state)]
                self._detail.show_lines(lines, further=True)

    @on(Timeline.Marked)
    def _marked(self, event: Timeline.Marked) -> None:
        """Measure between two marks; without them show the selection again."""
        event.stop()
        state = self.state
        if state is None:
            return
        if state.marks.range is not None:
            self._measure(state.trace, *state.marks.range)
        elif state.marks.first is None:
            self._is_shown = False
            self._timeline.changed()

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-measure")
    def _measure(self, trace: Trace, start: int, end: int) -> None:
        """Sum up a range beside the screen: of ten million events that takes seconds."""
        worker = get_current_worker()
        lines = measure_lines(trace, measure(trace, start, end))
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_measure, trace, (start, end), lines)

    def _show_measure(self, trace: Trace, marked: tuple[int, int], lines: Sequence[Line]) -> None:
        state = self.state
        if state is not None and state.trace is trace and state.marks.range == marked:
            self._is_measure = True
            self._detail.show_lines(lines)

    @on(DetailPane.Chosen)
    def _chosen(self, event: DetailPane.Chosen) -> None:
        event.stop()
        self._go(event.place.start, event.place.end, event.place.row)

    def _go(self, start: int, end: int, row: int | None) -> None:
        if self.state is not None:
            self.state.jump(start, end, row)
            self._timeline.changed()

    def action_scroll_detail(self, pages: int) -> None:
        """Scroll the detail."""
        if not self._detail.scroll_page(pages):
            self.notify("end of details" if pages > 0 else "start of details", timeout=2)

    def action_tall_detail(self) -> None:
        """Give the detail half of the screen, or take it back."""
        self._is_tall = not self._is_tall
        self._arrange()

    def action_copy_detail(self) -> None:
        """Copy all of the detail, also what is not on screen."""
        self.app.copy_to_clipboard(self._detail.text)
        self.notify("details copied to the clipboard, if the terminal allows it", timeout=3)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Notify of failed background work of this widget: the app gets only its own."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)

    # How the rows of the screen are shared out

    def on_resize(self) -> None:
        """Share out the rows anew."""
        self.call_after_refresh(self._arrange)

    def _arrange(self) -> None:
        """Give the tracks the rows they need, and the detail the rest, but enough."""
        height = self.size.height
        least = max(rows for bound, rows in _DETAIL_ROWS if height >= bound)
        if self._is_tall:
            least = max(least, height // 2)
        self._show_legend()
        legend_rows = self._legend_rows + self.has_class("-searching")
        self._timeline.set_room(max(height - legend_rows - least, 4))

    def _show_legend(self) -> None:
        """The kinds of work in the trace, and how many tracks are hidden."""
        state, width = self.state, self.size.width
        if state is None or not width:
            return
        text, used = Text(), 0
        if state.hidden_count:
            keys = shown_key("timeline.show_hidden")
            text.append(f"{state.hidden_count} hidden: {keys} shows them  ", "bold")
            used = len(text)
        for kind in _kinds_in(state.trace):
            cells = len(kind.word) + _ENTRY_EXTRA
            if used and used + cells > width:
                text.append("\n")
                used = 0
            style = self._timeline.get_component_rich_style(f"timeline--{kind.style}")
            text.append(kind.letter if RowView.ascii_only else "█", style).append(f" {kind.word}  ")
            used += cells
        most = 2 if self.size.height >= _TWO_ROWS else 1
        lines = text.split("\n")[:most]
        self.query_one("#timeline-legend", Static).update(Text("\n").join(lines))
        self._legend_rows = len(lines)


def _kinds_in(trace: Trace) -> list[EventKind]:
    count = max(len(trace.names), 1)
    pairs = np.unique(trace.category.astype(np.int64) * count + trace.name).tolist()
    held = {kind_of(trace.categories[p // count], trace.names[p % count]) for p in pairs}
    return [kind for kind in EventKind if kind in held]
