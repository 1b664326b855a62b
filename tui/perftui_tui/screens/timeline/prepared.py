"""What the timeline needs of a trace before it can be drawn, worked out beside the screen."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.gpu_idle.host import Host
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import find_phases
from perftui.analysis.timeline.launches import Launches
from perftui.analysis.timeline.track import TimelineTrack
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import NONE
from perftui_tui.screens.timeline.canvas.phase_row import Phases


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the timeline needs of a trace; takes seconds for ten million events."""

    analysis: TraceAnalysis
    tracks: tuple[TimelineTrack, ...]
    launches: Launches
    phases: Phases
    main_track: int
    """The thread that trains, NONE where it is not known."""


def prepare(analysis: TraceAnalysis) -> Prepared:
    """Sort the events into tracks and launches, and find the phases of training."""
    trace = analysis.trace
    tracks = tuple(analysis.timeline_tracks or timeline_tracks(trace))
    if any(track.rank != NONE for track in trace.tracks):
        # Phases and the main thread are those of one rank each.
        return Prepared(analysis, tracks, Launches(trace), {}, NONE)
    host = Host(trace)
    return Prepared(analysis, tracks, Launches(trace), find_phases(trace, host), host.main_track)
