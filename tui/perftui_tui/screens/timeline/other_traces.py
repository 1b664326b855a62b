"""Beside one trace: all ranks on one clock, and the steps of a run that goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perftui.analysis.merged_ranks import Evidence, RankAnalysis, RankClock, merge_ranks
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import open_trace
from perftui.facts.fact import RankPaths
from perftui.facts.ranks.matched_collectives import compare_clocks
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, Trace, TraceError
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import format_count, format_ns
from perftui_tui.screens.timeline import navigation
from perftui_tui.screens.timeline.detail_pane import Line
from perftui_tui.screens.timeline.gaps import THRESHOLDS
from perftui_tui.screens.timeline.navigation import Selection, TimeMarks, find_matches
from perftui_tui.screens.timeline.state import TimelineState


def read_together(
    shown: TraceAnalysis,
    ranks: RankPaths,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> tuple[TraceAnalysis, tuple[Line, ...]]:
    """Read the other ranks' traces and put them beside ``shown``, on its clock, with notes on them.

    ``progress`` is called with how many of how many have been read. One that cannot be read is left
    out, with a note. Raises LoadCancelled if ``cancelled`` returned true."""
    own = next((rank for rank, path in ranks if path == shown.trace.path), 0)
    parts = [RankAnalysis(own, shown, RankClock(0, Evidence.REFERENCE))]
    problems = []
    for done, (rank, path) in enumerate(ranks, 1):
        if path != shown.trace.path:
            try:
                analysis = open_trace(path, cancelled=cancelled)
            except (TraceError, OSError) as error:
                problems.append(Line(f"rank {rank} cannot be read: {error}", "bad"))
            else:
                parts.append(RankAnalysis(rank, analysis, compare_clocks(shown, analysis)))
        progress(done, len(ranks))
    parts[1:] = sorted(parts[1:], key=lambda part: part.rank)
    notes = [clock_line(part.rank, part.clock) for part in parts]
    alone = hint("{timeline.search.all_ranks} shows one rank again")
    head = Line(f"{len(parts)} ranks on one clock  {alone}", "bold")
    return merge_ranks(parts), (head, *notes, *problems)


def clock_line(rank: int, clock: RankClock) -> Line:
    """What the place of a rank in time rests on."""
    facts = [f"rank {rank}: {clock.evidence.value}"]
    if clock.evidence is Evidence.SHIFTED:
        facts.append(f"by {format_ns(clock.shift)}")
    if clock.bounds is not None:
        low, high = clock.bounds
        facts.append(
            f"accurate to {format_ns(max(high - clock.shift, clock.shift - low))} or better"
        )
    if clock.collectives:
        facts.append(f"{format_count(clock.collectives)} collectives in common")
    doubtful = (Evidence.CONTRADICTED, Evidence.NO_CLOCK, Evidence.UNCHECKED)
    return Line("  ".join(facts), "warn" if clock.evidence in doubtful else "", facts=True)


LEAST_REST = 2.0
"""Seconds from one drawing to the next: the picture should not change while it is read."""

_REST = 10
"""Rest after a drawing, in times what it took: it never takes more than a tenth of a core."""


def rest_after(seconds: float) -> float:
    """Seconds to rest after steps were laid out, or could not be, in so many."""
    return max(LEAST_REST, _REST * seconds)


def steps_of(run: RunSnapshot) -> object:
    """Differs where a step came."""
    ranks = [rank for rank in run.ranks if len(rank.steps)]
    return run.root, [(one.rank, len(one.steps), one.steps["start"][-1]) for one in ranks]


def stay(before: TimelineState, after: TimelineState) -> None:
    """Keep the track, what is selected, marked and found; visits every event."""
    shift = before.trace.origin - after.trace.origin
    after.change_threshold(THRESHOLDS.index(before.threshold) - THRESHOLDS.index(after.threshold))
    marks = (before.marks.first, before.marks.second)
    after.marks = TimeMarks(*(None if time is None else time + shift for time in marks))
    if before.matches is not None:
        after.matches = find_matches(after.trace, before.matches.needle)
    after.stay_on(before)
    selected = before.selected
    if selected is not None and selected.is_gap:
        span = selected.start + shift, selected.end + shift
        after.selected = Selection(*span, NONE, after.track)
    elif selected is not None:
        row = _same_row(before.trace, after.trace, selected.row, shift)
        after.selected = navigation.shown_event(after.tracks, after.trace, row)


def _same_row(before: Trace, after: Trace, row: int, shift: int) -> int:
    """The event in the trace that has grown: rows of further ranks have moved."""
    times = (after.start == before.start[row] + shift) & (after.duration == before.duration[row])
    wanted = before.name_of(row), before.tracks[int(before.track[row])].rank
    for each in np.flatnonzero(times).tolist():
        if (after.name_of(each), after.tracks[int(after.track[each])].rank) == wanted:
            return int(each)
    return NONE
