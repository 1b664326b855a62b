"""The Timeline screen: what ran when, in the newest window."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from perftui.analysis.model import TraceAnalysis
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.screens.timeline import TimelineView
from perftui_tui.screens.timeline_ranks import RankTrace, ranks_of_files, ranks_of_run
from perftui_tui.snapshot import Snapshot


class TimelineScreen(RunScreen):
    """Lanes for threads and streams."""

    NAME = "timeline"
    HELP = (
        "One lane for each CPU thread, GPU stream and GPU of the newest profiled window. Zoomed "
        "out, a column is as high as it was busy; zoomed in, events have their names. w and s "
        "zoom, a and d pan (or the mouse: wheel, drag, click); n goes to the next gap, g to the "
        "largest, . and , step through events, > and < through those of one name, } to the next "
        "slow step, ] and [ from a call to its kernel and back, f fits, 0 shows all. m sets a "
        "mark, a second m measures in between (or drag on the ruler, or with shift). H hides, "
        "J and K move and p pins a lane, r shows all ranks. / searches. Below is all that is "
        "known of what is selected: v scrolls it, y copies it."
    )

    def body(self) -> Iterable[Widget]:
        """The lanes."""
        yield TimelineView(id="timeline-view")

    def on_screen_resume(self) -> None:
        """Catch up, and give the keys to the lanes."""
        super().on_screen_resume()
        self.query_one(TimelineView).focus()
        if self.session.preview is not None:
            self.show_preview(self.session.preview)

    def show_preview(self, analysis: TraceAnalysis) -> None:
        """Draw the lanes of what has been read so far."""
        self.query_one(TimelineView).show(analysis)

    def show(self, snapshot: Snapshot) -> None:
        """Hand over the window; the same again leaves the view where it is."""
        view = self.query_one(TimelineView)
        view.run = snapshot.run
        view.ranks = self._ranks(snapshot)
        view.show(snapshot.analysis)
        if snapshot.run is not None and snapshot.analysis is None:
            view.show_steps(snapshot.run)
        place = self.session.take_place()
        if place is not None:
            view.jump(*place)

    def _ranks(self, snapshot: Snapshot) -> tuple[RankTrace, ...]:
        """The traces that can be shown beside the one of the snapshot, itself among them."""
        if snapshot.run is None:
            return ranks_of_files(self.session.ranks)
        if snapshot.analysis is None:
            return ()
        return ranks_of_run(snapshot.run, snapshot.analysis.trace.path)
