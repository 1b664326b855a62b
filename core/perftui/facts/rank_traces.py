"""The ranks of a training by the trace that each of them has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import open_trace
from perftui.facts.ranks import RankRow, RankTable, compared, row_of
from perftui.facts.trace_steps import trace_steps

WAITS_IN = "exposed communication"
"""The part of a step in which a device only waits for others, or moves their data."""


def row_of_trace(path: Path, rank: int, cancelled: Callable[[], bool]) -> RankRow:
    """What the trace at ``path``, which ``rank`` has written, says of its steps.

    Raises:
        TraceError: it cannot be read.
        OSError: it cannot be opened.
        LoadCancelled: ``cancelled`` said so.
    """
    return row_of_analysis(open_trace(path, cancelled=cancelled), rank)


def row_of_analysis(analysis: TraceAnalysis, rank: int) -> RankRow:
    """What an analysed trace, which ``rank`` has written, says of its steps."""
    steps = trace_steps(analysis)
    if steps is None:
        return RankRow(rank, "", len(analysis.steps), 0)
    return row_of(rank, "", len(analysis.steps), steps.breakdown, WAITS_IN)


def table_of_traces(rows: Sequence[RankRow], missing: int, problems: Sequence[str]) -> RankTable:
    """``rows`` so far, by rank; ``missing`` ranks have not been read yet."""
    notes = ["every trace counts its own time: durations are compared, not times"]
    whole = [row.rank for row in rows if row.mean and not row.steps]
    if whole:
        named = ", ".join(map(str, whole[:8])) + (" ..." if len(whole) > 8 else "")
        notes.append(f"no steps are marked in the trace of rank {named}: its whole is shown")
    notes += problems
    ordered = sorted(rows, key=lambda row: row.rank)
    if missing:
        # A verdict on some of the ranks would be taken back.
        return RankTable(tuple(ordered), notes=tuple(notes))
    return compared(ordered, tuple(notes))
