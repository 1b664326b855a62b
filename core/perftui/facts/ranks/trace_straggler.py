"""The rank that the others wait for, by the traces of all ranks of a directory."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.gpu.idle import idle_place
from perftui.facts.place import Place
from perftui.facts.ranks.caused_waits import CausedWaits
from perftui.facts.ranks.rank_table import (
    STRAGGLER_WARNING,
    WAITS_IN_TRACE,
    RankTable,
    Straggler,
    compared,
    some_ranks,
)
from perftui.facts.ranks.traced_ranks import (
    TracedRank,
    traced_ranks,
    waits_between,
    waits_of_ranks,
)
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.text import printable

IDLE = "device idle"
"""All causes for which a device idles, together, as the part in which a rank falls behind."""


@fact
def trace_straggler(facts: Facts) -> Straggler:
    """The rank that causes most waits of those that the open one meets, however few.

    ``lag`` is what the rank whose trace is open waits for it in a mean step, or of the late rank
    itself what each of the others does.

    Raises:
        NotApplicableError: there are no other ranks.
        UnknownError: their traces are missing, or their collectives do not match.
    """
    traced, waits = traced_ranks(facts), waits_of_ranks(facts)
    if traced.shown not in waits.compared:
        raise UnknownError(f"the collectives of rank {traced.shown} match those of no other rank")
    return straggler_among(traced.each, waits, traced.shown, waits.latest(traced.shown))


def straggler_among(
    ranks: Sequence[TracedRank], waits: CausedWaits, shown: int, late: int
) -> Straggler:
    """How long rank ``late`` makes rank ``shown`` wait, and the part of its step that is longer."""
    part, part_lag = _longer_part(ranks, waits, late)
    return Straggler(late, waits.between(shown, late), part, part_lag, holds_up=True)


def _longer_part(ranks: Sequence[TracedRank], waits: CausedWaits, late: int) -> tuple[str, int]:
    """The part of the late rank's step that is longer than the others' by half of what they wait,
    or more, and by how much; of several causes of idle time they may be so together. Empty where
    none is: it was late before its step, or the others wait within the same part."""
    lags = _lags(ranks, waits, late)
    idle = {name: ns for name, ns in lags.items() if name in set(GapCause)}
    lags[IDLE] = sum(idle.values())
    least = waits.between(late, late) / 2
    singly = max((name for name in lags if name != IDLE), key=lambda name: lags[name], default="")
    for name in (singly, IDLE):
        if name and lags[name] >= least:
            return name, lags[name]
    return "", 0


def _lags(ranks: Sequence[TracedRank], waits: CausedWaits, late: int) -> dict[str, int]:
    """By how much each part of the late rank's step exceeds that of the median other rank."""
    rows = {one.rank: one.row for one in ranks if one.rank in waits.compared}
    return {
        name: ns - _median(row.part(name) for rank, row in rows.items() if rank != late)
        for name, ns in rows[late].parts
        if name not in (WAITS_IN_TRACE, GapCause.QUEUED.value)
    }


@fact
def straggler_place(facts: Facts) -> Place:
    """Where the late rank falls behind: the line, operator or kernel, if its trace shows it."""
    late, traced = trace_straggler(facts), traced_ranks(facts)
    cause = late.part
    if cause == IDLE:
        lags = _lags(traced.each, waits_of_ranks(facts), late.rank)
        cause = max((one.value for one in GapCause), key=lambda name: lags.get(name, 0))
    if late.part == COMPUTE:
        return Place(late.rank, operator=_longer_kernel(traced.each, late.rank))
    nowhere = Place(late.rank)
    if cause not in set(GapCause):
        return nowhere
    its = facts if late.rank == traced.shown else _opened(traced.path(late.rank))
    steps = trace_steps.or_none(its) if its else None
    if its is None or steps is None:
        return nowhere
    try:
        found = idle_place(its, GapCause(cause), steps) or nowhere
    except UnknownError:
        return nowhere
    return replace(nowhere, operator=found.operator, file=found.file, line=found.line)


def table_of_traces(
    ranks: Sequence[TracedRank], missing: int, problems: Sequence[str]
) -> RankTable:
    """``ranks`` so far, by number; ``missing`` of them have not been read yet."""
    notes = ["each trace has its own clock: durations are compared, not times"]
    whole = [one.rank for one in ranks if one.row.mean and not one.row.steps]
    if whole:
        shown = some_ranks(whole)
        notes.append(f"no steps are marked in the trace of rank {shown}: the whole trace is shown")
    notes += problems
    ordered = sorted(ranks, key=lambda one: one.rank)
    rows = tuple(one.row for one in ordered)
    if missing:
        # A verdict on some of the ranks would be taken back.
        return RankTable(rows, notes=tuple(notes))
    by_times = compared(rows, tuple(notes))
    try:
        waits = waits_between(ordered)
    except UnknownError:
        return by_times
    late = straggler_among(ordered, waits, waits.latest(), waits.latest())
    usual = _median(row.mean for row in rows)
    known = {rank: waits.caused(rank) for rank in waits.compared}
    return replace(
        by_times,
        rows=tuple(replace(row, caused=known.get(row.rank)) for row in rows),
        straggler=late if late.lag >= STRAGGLER_WARNING * usual else None,
    )


def _longer_kernel(ranks: Sequence[TracedRank], late: int) -> str | None:
    """The kernel that takes the late rank longer than the others by most."""
    own = next(one.kernels for one in ranks if one.rank == late)
    others = [one.kernels for one in ranks if one.rank != late]
    longer = {name: ns - _median(each.get(name, 0) for each in others) for name, ns in own.items()}
    found = max(longer, key=lambda name: longer[name], default=None)
    return printable(found) if found is not None and longer[found] > 0 else None


def _median(values: Iterable[int]) -> int:
    return statistics.median_low(list(values))


def _opened(path: Path) -> Facts | None:
    """The trace of another rank; None where it cannot be read any more."""
    from perftui.analysis.open_trace import open_trace
    from perftui.trace.model import TraceError

    try:
        return Facts(None, open_trace(path))
    except (TraceError, OSError):
        return None
