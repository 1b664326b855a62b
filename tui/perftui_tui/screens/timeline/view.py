"""The timeline of a trace, with a legend and all that is known of what is selected."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.recorded_steps import ONLY_STEPS, recorded_steps
from perftui.facts.counters import counters
from perftui.facts.fact import Facts, RankPaths
from perftui.run.reader import RunSnapshot
from perftui.trace.model import LoadCancelled
from perftui_tui.keys.keymap import bindings, hint
from perftui_tui.screens.timeline.detail.lines import Line, Place
from perftui_tui.screens.timeline.detail.pane import DetailPane
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.screens.timeline.model.track_list import TrackOrder
from perftui_tui.screens.timeline.prepared import prepare
from perftui_tui.screens.timeline.ranks import read_together
from perftui_tui.screens.timeline.search import SearchedTimeline
from perftui_tui.screens.timeline.steps import Pace, stay, stay_in_view
from perftui_tui.screens.timeline.widget import Timeline

_NOTIFY_EVERY = 4
"""Ranks that are read from one notice to the next."""

READING = "reading"
NO_TRACE = (
    "no trace yet\n\npress {app.capture} to record a window of steps now: what ran on each thread "
    "and GPU stream, and when"
)
STEPS_ALONE = (
    "no window has been profiled yet: {app.capture} records what runs on each thread and stream"
)
NEVER_PROFILED = "no window was profiled in this run: what ran on each thread is unknown"
OF_STEPS = (
    "These are the steps recorded so far. The duration of each phase is exact; the order of the "
    "phases within a step is not recorded."
)
ONE_RANK = "only one rank here: perftui DIR opens a directory with the traces of several"
EMPTY_TRACE = "this trace has no event with a duration: there is nothing to draw"


class TimelineView(SearchedTimeline):
    """Tracks over time. ``show`` hands over a trace, ``jump`` goes to a place in it."""

    DEFAULT_CSS = """
    TimelineView {
        height: 1fr;
        & > #timeline-empty { height: 1fr; color: $text-muted; display: none; padding: 1 2; }
        & > #timeline-legend { height: auto; max-height: 2; }
        & > #timeline-search { height: 1; border: none; padding: 0; display: none; }
        & > #timeline-detail { height: 1fr; border-top: solid $panel; }
        &.-searching > #timeline-search { display: block; }
        &.-empty > * { display: none; }
        &.-empty > #timeline-empty { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline.search")

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.ranks: RankPaths = ()
        """The traces of all ranks, where there are several."""
        self._given: TraceAnalysis | None = None
        """What was handed over; with all ranks another is shown."""
        self._analysis: TraceAnalysis | None = None
        self._is_read = False
        """Whether the trace has been read: what there is to show is known."""
        self._pending: Place | None = None
        self._order = TrackOrder()
        self._pace = Pace(self._lay_out_steps, self.set_timer)

    def compose(self) -> ComposeResult:
        """Timeline, legend, search, detail; or why there is nothing."""
        yield Static(READING, id="timeline-empty", markup=False)
        yield Timeline(id="timeline")
        yield Static(id="timeline-legend", markup=False)
        placeholder = hint("part of a name; enter finds it, {timeline.match(1)} the next")
        yield Input(placeholder=placeholder, id="timeline-search")
        yield DetailPane(id="timeline-detail")

    def on_mount(self) -> None:
        """Show what was handed over before the view was on screen."""
        self.query_one(Input).cursor_blink = False
        self._load()

    def focus(self, scroll_visible: bool = True) -> TimelineView:
        """Focus the tracks."""
        self._timeline.focus(scroll_visible)
        return self

    def show(self, analysis: TraceAnalysis | None) -> None:
        """Show a trace; the same again leaves the view where it is."""
        if analysis is self._given and self._is_read:
            return
        self._given = self._analysis = analysis
        self._notes = ()
        self._pace.forget()
        self._is_read = True
        if self.is_mounted:
            self._load()

    def jump(self, start: int, end: int, row: int | None = None) -> None:
        """Show ``start`` to ``end`` (ns since the trace's start) and select ``row`` there.

        Without a row the idle interval itself is selected. Waits for a trace that is being read.
        """
        # The place is one of the trace that was handed over: not of all ranks together, nor of the
        # steps that are shown while there is none.
        if self._given is None:
            self._pending = Place(start, end, row)
            return
        if self._analysis is not self._given:
            self._show_alone()
        state = self.state if self.is_mounted else None
        if state is None or state.analysis is not self._analysis:
            self._pending = Place(start, end, row)
        else:
            self._go(start, end, row)

    def _load(self) -> None:
        analysis = self._analysis
        empty = analysis is None or not len(analysis.trace)
        self.set_class(empty, "-empty")
        if self._is_read:
            is_over = self.run is not None and self.run.manifest.status.is_over
            missing = NEVER_PROFILED if is_over else hint(NO_TRACE)
            text = missing if analysis is None else EMPTY_TRACE
            self.query_one("#timeline-empty", Static).update(text)
        if analysis is None or empty:
            self._timeline.show(None)
        else:
            self._index(analysis)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-tracks")
    def _index(self, analysis: TraceAnalysis) -> None:
        """Sort the events into tracks beside the screen: a long trace takes a while."""
        worker = get_current_worker()
        state = prepare(analysis, self._order, counters(Facts(self.run, analysis, self.rank)))
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_tracks, state)

    def _show_tracks(self, state: TimelineState) -> None:
        if state.analysis is not self._analysis or not self.is_attached:
            return
        self._continue(self.state, state)
        self._timeline.show(state)
        self._arrange()
        if self._pending is not None and self._given is not None:
            jump, self._pending = self._pending, None
            self.jump(jump.start, jump.end, jump.row)

    def _continue(self, before: TimelineState | None, after: TimelineState) -> None:
        """Stay at the same place, where more of the same has been read or recorded meanwhile."""
        self._is_shown = False
        if before is None or before.trace.path != after.trace.path or before.analysis.has_tables:
            return
        stay_in_view(before, after)
        if ONLY_STEPS not in after.trace.metadata:
            return
        stay(before, after)
        # The reader may have scrolled in what is shown, which is still true.
        self._detailed, self._is_shown = after.selected, True
        if after.selected is None and not self._is_measure:
            self._detail.show_lines([*self._notes, *self._summary(after)], further=True)

    # Steps, while there is no trace

    def show_steps(self, run: RunSnapshot) -> None:
        """While there is no trace, show the steps of ``run``, with new ones every few seconds."""
        if self._given is None:
            self._pace.want(run)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-steps")
    def _lay_out_steps(self, run: RunSnapshot) -> None:
        """Beside the screen: a long run keeps tens of thousands."""
        worker, began = get_current_worker(), monotonic()
        try:
            analysis = recorded_steps(run)
            state = None
            if analysis is not None:
                sampled = counters(Facts(run, analysis, self.rank))
                state = prepare(analysis, self._order, sampled)
            if not worker.is_cancelled:
                self.app.call_from_thread(self._show_steps, state, run)
        finally:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._pace.done, monotonic() - began)

    def _show_steps(self, state: TimelineState | None, run: RunSnapshot) -> None:
        if self._given is not None or not self.is_attached:
            return
        if state is None:
            self._analysis, self._notes = None, ()
            self._load()
            return
        self._analysis, self._notes = state.analysis, _steps_alone(run)
        self.remove_class("-empty")
        self._show_tracks(state)

    # Ranks

    def action_all_ranks(self) -> None:
        """Show all ranks in one timeline, or the one alone again."""
        if self._given is not None and self._analysis is not self._given:
            self._show_alone()
        elif self._given is None or len(self.ranks) < 2:
            self.notify(ONE_RANK, timeout=5)
        else:
            self.notify(f"reading the traces of {len(self.ranks)} ranks", timeout=3)
            self._read_ranks(self._given, self.ranks)

    def _show_alone(self) -> None:
        self._analysis, self._notes = self._given, ()
        self._load()

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-ranks")
    def _read_ranks(self, given: TraceAnalysis, ranks: RankPaths) -> None:
        """Read the others' traces beside the screen."""
        worker = get_current_worker()
        try:
            together = read_together(given, ranks, self._report_read, lambda: worker.is_cancelled)
        except LoadCancelled:
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_together, given, *together)

    def _report_read(self, done: int, count: int) -> None:
        if done < count and done % _NOTIFY_EVERY == 0:
            text = f"{done} of {count} ranks are read"
            self.app.call_from_thread(self.notify, text, timeout=2)

    def _show_together(
        self, given: TraceAnalysis, analysis: TraceAnalysis, notes: tuple[Line, ...]
    ) -> None:
        if given is self._given and self.is_attached:
            self._analysis, self._notes = analysis, notes
            self._load()


def _steps_alone(run: RunSnapshot) -> tuple[Line, ...]:
    text = NEVER_PROFILED if run.manifest.status.is_over else hint(STEPS_ALONE)
    return Line(text, "warn"), Line(OF_STEPS)
