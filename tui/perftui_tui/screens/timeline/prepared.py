"""What the timeline needs of a trace before it can be drawn, worked out beside the screen."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.analysis.timeline.track import Counter
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui.trace.model import NONE
from perftui_tui.screens.timeline.model.counter_track import counter_tracks
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.screens.timeline.model.track_list import TrackOrder


def prepare(
    analysis: TraceAnalysis, order: TrackOrder, counters: Sequence[Counter] = ()
) -> TimelineState:
    """Sort the events into tracks and launches, and find the phases of training.

    Takes seconds for ten million events.
    """
    trace = analysis.trace
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
