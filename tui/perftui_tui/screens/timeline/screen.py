"""The Timeline screen: what ran when, in the newest window."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from perftui.analysis.model import TraceAnalysis
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.screens.timeline.view import TimelineView


class TimelineScreen(RunScreen):
    """Tracks for threads and streams."""

    NAME = "timeline"
    PART_WITH_KEYS = TimelineView
    HELP = (
        "One track for each CPU thread, GPU stream and GPU of the newest profiled window. Zoomed "
        "out, the height of a column is how busy it was; zoomed in, events show their names. Below "
        "the GPUs are counters, each with its range: use, memory, power and clock of the GPU, "
        "memory allocated by PyTorch, bytes read from disk, batches in the loader's queue. A "
        "column is the mean of its known samples; blank is no sample, and dim a sample from "
        "outside the view. Threads busy for under 1 % of the time share one row, which "
        "{timeline.fold} opens. {timeline.zoom(1)} and {timeline.zoom(-1)} zoom, "
        "{timeline.pan(-1)} and {timeline.pan(1)} pan (or the mouse: wheel, drag, click); "
        "{timeline.gap(1)} goes to the next gap, {timeline.largest_gap} to the largest, "
        "{timeline.event(1)} and {timeline.event(-1)} step through events or samples, "
        "{timeline.same_name(1)} and {timeline.same_name(-1)} through events with the same name, "
        "{timeline.slow_step(1)} goes to the next slow step (10 % above the median), "
        "{timeline.follow(1)} and {timeline.follow(-1)} from a call to its kernel and back. "
        "{timeline.fit} fits the selection, {timeline.whole} shows everything. {timeline.mark} "
        "sets a mark, a second {timeline.mark} measures the range between them (or drag on the "
        "ruler, or with shift). {timeline.hide} hides, {timeline.reorder(1)} and "
        "{timeline.reorder(-1)} move and {timeline.pin} pins a track, {timeline.search.all_ranks} "
        "shows all ranks. {timeline.search.search} searches, {timeline.match(1)} goes to the next "
        "match. The details of the selection are at the bottom: "
        "{timeline.search.scroll_detail(1)} scrolls, {timeline.search.copy_detail} copies them."
    )

    def body(self) -> Iterable[Widget]:
        yield TimelineView(id="timeline-view")

    def on_screen_resume(self) -> None:
        """Catch up, also with a trace that is being read."""
        super().on_screen_resume()
        if self.session.preview is not None:
            self.show_preview(self.session.preview)

    def show_preview(self, analysis: TraceAnalysis) -> None:
        self.query_one(TimelineView).show(analysis)

    def show(self, snapshot: Snapshot) -> None:
        """Hand over the window; the same again leaves the view where it is."""
        view = self.query_one(TimelineView)
        view.run, view.goes_on = snapshot.run, snapshot.goes_on
        view.rank = snapshot.rank_number
        # The traces that can be shown beside the one of the snapshot, itself among them.
        if snapshot.run is None:
            view.ranks = tuple((r.rank, r.path) for r in self.session.ranks if r.rank is not None)
        elif snapshot.analysis is not None:
            # Windows are called by their first step.
            name = snapshot.analysis.trace.path.name
            view.ranks = tuple(
                (rank.place, window)
                for rank in snapshot.run.ranks
                for window in rank.windows
                if window.name == name
            )
        else:
            view.ranks = ()
        view.show(snapshot.analysis)
        if snapshot.run is not None and snapshot.analysis is None:
            view.show_steps(snapshot.run)
        place, self.session.place = self.session.place, None
        if place is not None:
            view.jump(*place)

    def redraw(self) -> None:
        """Leave the tracks at a resize: they may be of a trace that is newer than the snapshot."""
