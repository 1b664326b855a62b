"""The timeline of a trace, with a legend and all that is known of the selected event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState, get_current_worker

from perftui.analysis.lanes import Lane, build_lanes
from perftui.analysis.model import TraceAnalysis
from perftui.run.reader import RunSnapshot
from perftui.trace.errors import TraceError
from perftui.trace.model import Trace
from perftui_tui.charts.units import ASCII_TEXT, format_count
from perftui_tui.keymap import bindings
from perftui_tui.widgets.event_detail import argument_line, event_lines, gap_lines, panel_lines
from perftui_tui.widgets.legend import legend
from perftui_tui.widgets.navigation import Selection
from perftui_tui.widgets.row_view import RowView
from perftui_tui.widgets.timeline import Timeline
from perftui_tui.widgets.timeline_state import TimelineState

_TALL = 30
"""Rows from which on the detail shows arguments and whole names."""

READING = "reading"
NO_TRACE = "no trace yet: press c to capture a window of steps"
HINT = "click an event, or press . for the next event, n for the next gap, g for the largest gap"


@dataclass(frozen=True)
class _Jump:
    start: int
    end: int
    row: int | None


class TimelineView(Vertical):
    """Lanes over time. ``show`` hands over a trace, ``jump`` goes to a place in it."""

    DEFAULT_CSS = """
    TimelineView {
        height: 1fr;
        & > #timeline-empty { height: 1fr; color: $text-muted; display: none; }
        & > #timeline-legend { height: auto; max-height: 2; }
        & > #timeline-search { height: 1; border: none; padding: 0; display: none; }
        & > #timeline-detail { height: 4; border-top: solid $panel; }
        &.-tall > #timeline-detail { height: 8; }
        &.-searching > #timeline-search { display: block; }
        &.-empty > * { display: none; }
        &.-empty > #timeline-empty { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline.search")

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.run: RunSnapshot | None = None
        """The run that the trace is a window of."""
        self._analysis: TraceAnalysis | None = None
        self._is_read = False
        """Whether it is known what there is to show."""
        self._pending: _Jump | None = None
        self._detailed: Selection | None = None
        self._said: tuple[str, ...] = (HINT,)

    def compose(self) -> ComposeResult:
        """Timeline, legend, search, detail; or why there is nothing."""
        yield Static(READING, id="timeline-empty", markup=False)
        yield Timeline(id="timeline")
        yield Static(id="timeline-legend", markup=False)
        yield Input(placeholder="part of a name; enter finds it, ; the next", id="timeline-search")
        yield Static(HINT, id="timeline-detail", markup=False)

    def on_mount(self) -> None:
        """Show what was handed over before the view was on screen."""
        self.query_one(Input).cursor_blink = False
        self._load()

    @property
    def _timeline(self) -> Timeline:
        return self.query_one(Timeline)

    @property
    def state(self) -> TimelineState | None:
        """Where the person is; None while there is no trace."""
        return self._timeline.state

    def focus(self, scroll_visible: bool = True) -> TimelineView:
        """Focus the lanes."""
        self._timeline.focus(scroll_visible)
        return self

    def show(self, analysis: TraceAnalysis | None) -> None:
        """Show a trace; the same again leaves the view where it is."""
        if analysis is self._analysis and analysis is not None:
            return
        self._analysis = analysis
        self._is_read = True
        if self.is_mounted:
            self._load()

    def jump(self, start: int, end: int, row: int | None = None) -> None:
        """Show ``start`` to ``end`` (ns since the trace's start) and select ``row`` there.

        Without a row the idle stretch itself is selected. Waits for a trace that is being read.
        """
        state = self.state if self.is_mounted else None
        if state is None or state.analysis is not self._analysis:
            self._pending = _Jump(start, end, row)
            return
        state.jump(start, end, row)
        self._timeline.changed()

    def _load(self) -> None:
        analysis = self._analysis
        empty = analysis is None or not len(analysis.trace)
        self.set_class(empty, "-empty")
        if self._is_read:
            self.query_one("#timeline-empty", Static).update(NO_TRACE)
        if analysis is None or empty:
            self._timeline.show(None)
        else:
            self._index(analysis)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-lanes")
    def _index(self, analysis: TraceAnalysis) -> None:
        """Sort the events into lanes beside the screen: a long trace takes a while."""
        worker = get_current_worker()
        lanes = analysis.lanes or build_lanes(analysis.trace)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_lanes, analysis, lanes)

    def _show_lanes(self, analysis: TraceAnalysis, lanes: Sequence[Lane]) -> None:
        if analysis is not self._analysis or not self.is_attached:
            return
        self._timeline.show(_continued(self.state, TimelineState(analysis, lanes)))
        self._show_legend()
        if self._pending is not None:
            jump, self._pending = self._pending, None
            self.jump(jump.start, jump.end, jump.row)

    def _show_legend(self) -> None:
        if self.state is not None:
            width = self._timeline.size.width
            text = legend(self._timeline, self.state.trace, RowView.ascii_only, width)
            self.query_one("#timeline-legend", Static).update(text)

    @on(Timeline.SelectionChanged)
    def _selection_changed(self, event: Timeline.SelectionChanged) -> None:
        event.stop()
        state, selected = self.state, event.selected
        if selected == self._detailed and selected is not None:
            return
        self._detailed = selected
        if state is None or selected is None:
            self._say(HINT)
        elif selected.is_gap:
            self._say(*gap_lines(state.analysis, state.gaps, selected, self.run))
        else:
            self._say(*event_lines(state.trace, selected))
            self._read_arguments(state.trace, selected)

    def _say(self, *lines: str) -> None:
        self._said = lines
        panel = self.query_one("#timeline-detail", Static)
        size = panel.content_size
        text = "\n".join(panel_lines(lines, size.width, size.height))
        text = text.translate(ASCII_TEXT) if RowView.ascii_only else text
        panel.update(Text(text, no_wrap=True))

    def on_resize(self) -> None:
        """Give the detail more room on a tall screen, and lay out what is said anew."""
        self.set_class(self.size.height >= _TALL, "-tall")
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        self._show_legend()
        self._say(*self._said)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-arguments")
    def _read_arguments(self, trace: Trace, selected: Selection) -> None:
        """Read an event's arguments beside the screen: the file may be slow, or gone."""
        worker = get_current_worker()
        try:
            line = argument_line(trace.read_arguments(selected.row))
        except (OSError, TraceError) as error:
            line = argument_line({"arguments cannot be read": error})
        if not worker.is_cancelled and line:
            self.app.call_from_thread(self._show_arguments, trace, selected, line)

    def _show_arguments(self, trace: Trace, selected: Selection, line: str) -> None:
        if selected == self._detailed:
            self._say(*event_lines(trace, selected), line)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Say what failed beside the screen; the app hears of its own work only."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)

    @on(Timeline.NothingFound)
    def _nothing_found(self, event: Timeline.NothingFound) -> None:
        event.stop()
        self.notify(event.reason, timeout=3, markup=False)

    def action_search(self) -> None:
        """Start typing a name."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_close_search(self) -> None:
        """Back to the lanes; the matches stay."""
        self.remove_class("-searching")
        self._timeline.focus()

    @on(Input.Submitted)
    def _search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.state is not None:
            count = self.state.search(event.value)
            self.notify(f"{format_count(count)} events match", timeout=3, markup=False)
            self._timeline.action_match(1)
        self.action_close_search()


def _continued(before: TimelineState | None, after: TimelineState) -> TimelineState:
    """The same stretch of time, where more of the same file has been read meanwhile."""
    if before is None or before.trace.path != after.trace.path or before.analysis.has_tables:
        return after
    view = before.view
    if view.span < view.last - view.first:
        shift = before.trace.origin - after.trace.origin
        after.view = after.view.showing(view.start + shift, view.end + shift)
    return after
