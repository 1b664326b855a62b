"""The traces of all ranks in one timeline: which there are, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.analysis.merged_ranks import (
    Evidence,
    RankAnalysis,
    RankClock,
    compare_clocks,
    merge_ranks,
)
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import open_trace
from perftui.facts.fact import RankPaths
from perftui.trace.model import TraceError
from perftui_tui.keys.keymap import hint
from perftui_tui.look.units import format_count, format_ns
from perftui_tui.screens.timeline.detail.lines import Line

if TYPE_CHECKING:
    from perftui.run.reader import RunSnapshot
    from perftui.trace.rank_files import RankFile


def ranks_of_files(files: Sequence[RankFile]) -> RankPaths:
    """The traces of a directory whose rank is known."""
    return tuple((each.rank, each.path) for each in files if each.rank is not None)


def ranks_of_run(run: RunSnapshot, shown: Path) -> RankPaths:
    """The windows of all ranks that are called as the one at ``shown``: by their first step."""
    return tuple(
        (rank.place, window)
        for rank in run.ranks
        for window in rank.windows
        if window.name == shown.name
    )


def read_together(
    shown: TraceAnalysis,
    ranks: RankPaths,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> tuple[TraceAnalysis, tuple[Line, ...]]:
    """Read the other ranks' traces and put them beside ``shown``, on its clock, with notes on them.

    ``progress`` is called with how many of how many have been read. One that cannot be read is left
    out, with a note.

    Raises:
        LoadCancelled: ``cancelled`` returned True.
    """
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
                clock = compare_clocks(shown, own, analysis, rank)
                parts.append(RankAnalysis(rank, analysis, clock))
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
