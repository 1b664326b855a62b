"""What the timeline needs of a trace before it can be drawn, worked out beside the screen."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.host import Host
from perftui.analysis.lanes import Lane, build_lanes
from perftui.analysis.launches import Launches
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.phases import find_phases
from perftui.trace.model import NONE
from perftui_tui.screens.timeline.canvas.phase_row import Phases


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the timeline needs of a trace; takes seconds for ten million events."""

    analysis: TraceAnalysis
    tracks: tuple[Lane, ...]
    launches: Launches
    phases: Phases
    main_track: int
    """The thread that trains, NONE where it is not known."""


def prepare(analysis: TraceAnalysis) -> Prepared:
    """Sort the events into tracks and launches, and find the phases of training."""
    trace = analysis.trace
    tracks = tuple(analysis.lanes or build_lanes(trace))
    if any(track.rank != NONE for track in trace.tracks):
        # Phases and the main thread are those of one rank each.
        return Prepared(analysis, tracks, Launches(trace), {}, NONE)
    host = Host(trace)
    return Prepared(analysis, tracks, Launches(trace), find_phases(trace, host), host.main_track)
