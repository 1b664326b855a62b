"""The timeline of a trace, with a legend and all that is known of what is selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep

import numpy as np
from rich.text import Text
from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.recorded_steps import ONLY_STEPS, recorded_steps
from perftui.analysis.steps import find_phases
from perftui.analysis.timeline.measure import measure
from perftui.analysis.timeline.track import Counter
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui.facts.counters import counters
from perftui.facts.fact import Facts, RankPaths
from perftui.facts.gpu.idle import trace_span
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, LoadCancelled, Trace
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.actions.host import Host
from perftui_tui.keys.own_keys import bindings, hint, shown_key
from perftui_tui.look.format import counted
from perftui_tui.screens.timeline.counters import (
    CounterTrack,
    counter_lines,
    counter_table,
    counter_tracks,
    counters_at,
)
from perftui_tui.screens.timeline.detail_lines import (
    event_lines,
    further_lines,
    measure_lines,
    summary_lines,
)
from perftui_tui.screens.timeline.detail_pane import DetailPane, Line, Target
from perftui_tui.screens.timeline.gaps import gap_lines
from perftui_tui.screens.timeline.navigation import Matches, Selection, find_matches
from perftui_tui.screens.timeline.other_traces import read_together, rest_after, stay, steps_of
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import EventKind, kind_of
from perftui_tui.screens.timeline.tracks import TrackOrder
from perftui_tui.screens.timeline.widget import Pace, Timeline
from perftui_tui.widgets.row_view import RowView


def prepare(
    analysis: TraceAnalysis, order: TrackOrder, counters: Sequence[Counter] = ()
) -> TimelineState:
    """Sort the events into tracks and launches, and find the phases of training; of ``counters``
    those are shown that were sampled within the trace.

    Takes seconds for ten million events."""
    trace = analysis.trace
    span = trace_span(analysis)
    counters = [one for one in counters if not one.interval or one.is_sampled_in(*span)]
    tracks = analysis.timeline_tracks or timeline_tracks(trace)
    helpers = helper_threads(trace, tracks)
    state = TimelineState(analysis, tracks, order, counter_tracks(counters), helpers)
    for counter in counters:
        # 0.15 s for 3 M changes of memory, for which no key should wait.
        counter.prepare()
    # Phases and the main thread are those of one rank each.
    if all(track.rank == NONE for track in trace.tracks):
        state.phases, state.main_track = find_phases(trace), main_track(trace)
    return state


_SETTLED = 0.12
"""Seconds until more is worked out about a selection: a key that repeats comes sooner."""

_DETAIL_ROWS = ((0, 4), (24, 6), (30, 9))
"""From so many rows on the detail has at least so many, its upper edge among them."""

READING = "reading"
NO_TRACE = (
    "no trace yet\n\npress {app.capture} to record a window of steps now: what ran on each thread "
    "and GPU stream, and when"
)
STEPS_ALONE = (
    "no window has been profiled yet: {app.capture} records what runs on each thread and stream"
)
NEVER_PROFILED = "no window was profiled: what ran on each thread is unknown"
OF_STEPS = (
    "These are the steps recorded so far. The duration of each phase is exact; the order of the "
    "phases within a step is not recorded."
)
ONE_RANK = "only one rank here: perftui DIR opens a directory with the traces of several"
EMPTY_TRACE = "this trace has no event with a duration: there is nothing to draw"


class TimelineView(Vertical):
    """Tracks over time. ``show`` hands over a trace, ``jump`` goes to a place in it."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()
    BINDINGS = bindings("timeline.search")

    _timeline = getters.query_one(Timeline)
    _detail = getters.query_one(DetailPane)
    run: RunSnapshot | None = None
    """The run that the trace is a window of."""
    goes_on = False
    """Whether the run can still record a window."""
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
    _is_tall = False
    """Whether the detail has half of the screen."""
    ranks: RankPaths = ()
    """The traces of all ranks, where there are several."""
    _given: TraceAnalysis | None = None
    """What was handed over; with all ranks another is shown."""
    _analysis: TraceAnalysis | None = None
    _is_read = False
    """Whether the trace has been read: what there is to show is known."""
    _pending: Target | None = None

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._order = TrackOrder()
        self._pace = Pace(self._lay_out_steps, self.set_timer)
        self._laid_out: object = None
        """The steps that were asked for last."""

    @property
    def state(self) -> TimelineState | None:
        """Where the person is; None while there is no trace."""
        return self._timeline.state

    def compose(self) -> ComposeResult:
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
        self._timeline.focus(scroll_visible)
        return self

    def show(self, analysis: TraceAnalysis | None) -> None:
        """Show a trace; the same again leaves the view where it is."""
        if analysis is self._given and self._is_read:
            return
        self._given = self._analysis = analysis
        self._notes = ()
        self._pace.forget()
        self._laid_out = None
        self._is_read = True
        if self.is_mounted:
            self._load()

    def jump(self, start: int, end: int, row: int | None = None) -> None:
        """Show ``start`` to ``end`` (ns since the trace's start) and select ``row`` there.

        Without a row the idle interval itself is selected. Waits for a trace that is being read."""
        # The place is one of the trace that was handed over: not of all ranks together, nor of the
        # steps that are shown while there is none.
        if self._given is None:
            self._pending = Target(start, end, row)
            return
        if self._analysis is not self._given:
            self._show_alone()
        state = self.state if self.is_mounted else None
        if state is None or state.analysis is not self._analysis:
            self._pending = Target(start, end, row)
        else:
            self._go(start, end, row)

    def _load(self) -> None:
        analysis = self._analysis
        empty = analysis is None or not len(analysis.trace)
        self.set_class(empty, "-empty")
        if self._is_read:
            is_over = self.run is not None and not self.goes_on
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
        state = prepare(analysis, self._order, counters(Facts(self.run, analysis, self.rank)))
        self._deliver(self._show_tracks, state)

    def _deliver(self, take: Callable[..., object], *found: object) -> None:
        """Hand over what a worker has found, unless nobody wants it any more."""
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(take, *found)

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
        view, shift = before.view, before.trace.origin - after.trace.origin
        if view.span < view.last - view.first:
            after.view = after.view.showing(view.start + shift, view.end + shift)
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
        if self._given is None and (steps := steps_of(run)) != self._laid_out:
            self._laid_out = steps
            self._pace.want(run)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-steps")
    def _lay_out_steps(self, run: RunSnapshot) -> None:
        """Beside the screen: a long run keeps tens of thousands."""
        began = monotonic()
        try:
            analysis = recorded_steps(run)
            state = None
            if analysis is not None:
                state = prepare(analysis, self._order, counters(Facts(run, analysis, self.rank)))
            self._deliver(self._show_steps, state)
        finally:
            self._deliver(self._pace.done, rest_after(monotonic() - began))

    def _show_steps(self, state: TimelineState | None) -> None:
        if self._given is not None or not self.is_attached:
            return
        if state is None:
            self._analysis, self._notes = None, ()
            self._load()
            return
        text = hint(STEPS_ALONE) if self.goes_on else NEVER_PROFILED
        self._analysis, self._notes = state.analysis, (Line(text, "warn"), Line(OF_STEPS))
        self.remove_class("-empty")
        self._show_tracks(state)

    # Ranks

    def action_all_ranks(self) -> None:
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
        self._deliver(self._show_together, given, *together)

    def _report_read(self, done: int, count: int) -> None:
        """Notify of each fourth rank."""
        if done < count and done % 4 == 0:
            text = f"{done} of {count} ranks are read"
            self.app.call_from_thread(self.notify, text, timeout=2)

    def _show_together(
        self, given: TraceAnalysis, analysis: TraceAnalysis, notes: tuple[Line, ...]
    ) -> None:
        if given is self._given and self.is_attached:
            self._analysis, self._notes = analysis, notes
            self._load()

    # Detail of what is selected

    @on(Timeline.SelectionChanged)
    def _selection_changed(self) -> None:
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
            self._show_with_summary(state, counter_lines(selected.track, selected))
            return
        if selected.is_gap:
            lines = gap_lines(state.analysis, state.gaps, selected, self.run, state.main_track)
        else:
            lines = event_lines(state.trace, selected, state.launches)
        lines += counters_at(state.counters, selected.start, selected.end)
        self._detail.show_lines(lines)
        self._add_more(state, selected, lines)

    def _summary(self, state: TimelineState) -> list[Line]:
        lines = summary_lines(state.analysis, self.run)
        return [*lines, *counter_table(state.counters, state.view)]

    def _show_with_summary(
        self, state: TimelineState, lines: Sequence[Line], *, further: bool = False
    ) -> None:
        """Show ``lines``, and the summary below them where eight rows or more are left."""
        if self._detail.show_lines(lines, further=further) >= 8:
            lines = [*lines, Line(""), *self._summary(state)]
            self._detail.show_lines(lines, further=further)

    @work(thread=True, exclusive=True, exit_on_error=False, group="timeline-further")
    def _add_more(self, state: TimelineState, selected: Selection, shown: Sequence[Line]) -> None:
        """Arguments, whose file may be slow or gone, and what needs a look at all events."""
        # Who goes through events quickly waits for none of it, and neither does the next frame.
        sleep(_SETTLED)
        if not get_current_worker().is_cancelled:
            more = further_lines(state.trace, selected, state.helpers_of)
            self._deliver(self._show_more, state, selected, [*shown, *more])

    def _show_more(self, state: TimelineState, selected: Selection, lines: Sequence[Line]) -> None:
        if state is self.state and selected == self._detailed and not self._is_measure:
            self._show_with_summary(state, lines, further=True)

    @on(Timeline.Marked)
    def _marked(self) -> None:
        """Measure between two marks; without them show the selection again."""
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
        lines = measure_lines(trace, measure(trace, start, end))
        self._deliver(self._show_measure, trace, (start, end), lines)

    def _show_measure(self, trace: Trace, marked: tuple[int, int], lines: Sequence[Line]) -> None:
        state = self.state
        if state is not None and state.trace is trace and state.marks.range == marked:
            self._is_measure = True
            self._detail.show_lines(lines)

    @on(DetailPane.Chosen)
    def _chosen(self, event: DetailPane.Chosen) -> None:
        self._go(event.place.start, event.place.end, event.place.row)

    def _go(self, start: int, end: int, row: int | None) -> None:
        if self.state is not None:
            self.state.jump(start, end, row)
            self._timeline.changed()

    def action_scroll_detail(self, pages: int) -> None:
        if not self._detail.scroll_page(pages):
            self.notify("end of details" if pages > 0 else "start of details", timeout=2)

    def action_tall_detail(self) -> None:
        self._is_tall = not self._is_tall
        self._arrange()

    def action_copy_detail(self) -> None:
        copy_text(self.app, self._detail.text, "details")

    # The app gets only its own.
    on_worker_state_changed = Host.on_worker_state_changed

    # How the rows of the screen are shared out

    def on_resize(self) -> None:
        self.call_after_refresh(self._arrange)

    def _arrange(self) -> None:
        """Give the tracks the rows they need, and the detail the rest, but enough."""
        height = self.size.height
        least = max(rows for bound, rows in _DETAIL_ROWS if height >= bound)
        if self._is_tall:
            least = max(least, height // 2)
        legend_rows = self._show_legend() + self.has_class("-searching")
        self._timeline.set_room(max(height - legend_rows - least, 4))

    def _show_legend(self) -> int:
        """Returns how many rows it takes: two at most, on a low screen one."""
        state, width = self.state, self.size.width
        if state is None or not width:
            return 1
        text, used = Text(), 0
        if state.hidden_count:
            keys = shown_key("timeline.show_hidden")
            text.append(f"{state.hidden_count} hidden: {keys} shows them  ", "bold")
            used = len(text)
        # Without colours nothing tells one kind from another but letters.
        tells = RowView.ascii_only or not self.app.no_color
        for kind in _kinds_in(state.trace) if tells else ():
            # The mark and blanks stand beside its word.
            cells = len(kind.word) + 4
            if used and used + cells > width:
                text.append("\n")
                used = 0
            style = self._timeline.get_component_rich_style(f"timeline--{kind.style}")
            text.append(kind.letter if RowView.ascii_only else "█", style).append(f" {kind.word}  ")
            used += cells
        most = 2 if self.size.height >= 26 else 1
        lines = text.split("\n")[:most] if text else []
        legend = self.query_one("#timeline-legend", Static)
        legend.update(Text("\n").join(lines))
        legend.display = bool(lines)
        return len(lines)

    # Search

    def action_search(self) -> None:
        self.add_class("-searching")
        self._arrange()
        self.query_one(Input).value = ""
        self.query_one(Input).focus()

    def action_close_search(self) -> None:
        """Back to the tracks; from there take away marks, then matches, then the selection."""
        if not self.has_class("-searching"):
            self._timeline.action_clear()
            return
        self.remove_class("-searching")
        self._arrange()
        self._timeline.focus()

    @on(Input.Submitted)
    def _search_submitted(self, event: Input.Submitted) -> None:
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
        self._deliver(self._show_matches, trace, find_matches(trace, needle))

    def _show_matches(self, trace: Trace, found: Matches) -> None:
        state = self.state
        if state is None or state.trace is not trace:
            return
        state.matches = found
        text = f"{counted(len(found), 'event matches', 'events match')} {found.needle!r}"
        if len(found) > 1:
            text += hint(": {timeline.match(1)} next, {timeline.match(-1)} previous")
        self.notify(text, timeout=3, markup=False)
        if len(found):
            missing = "no event has that name"
            self._timeline.act(lambda state: state.select_row(found.longest), missing)
        else:
            self._timeline.changed()


def _kinds_in(trace: Trace) -> list[EventKind]:
    count = max(len(trace.names), 1)
    pairs = np.unique(trace.category.astype(np.int64) * count + trace.name).tolist()
    held = {kind_of(trace.categories[p // count], trace.names[p % count]) for p in pairs}
    return [kind for kind in EventKind if kind in held]
