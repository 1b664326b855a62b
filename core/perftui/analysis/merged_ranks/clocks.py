"""How far the clocks of ranks are apart, as far as their collectives show.

No rank leaves an all-reduce, an all-gather or a reduce-scatter before the last one has entered it.
So in true time the kernels of one collective overlap on all ranks: of two ranks with kernels
``[a, b)`` and ``[c, d)``, what is to be added to the second clock lies in ``(a - d, b - c)``. Each
collective that two traces share narrows these bounds.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from perftui.analysis import kinds
from perftui.analysis.links import link
from perftui.analysis.model import TraceAnalysis
from perftui.trace.errors import TraceError
from perftui.trace.model import NONE, Int64, Trace

TOGETHER = re.compile(r"all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE)
"""Collectives that none leaves before all are in; of a broadcast or a send that is not so."""

_MOST_READ = 200
"""Collectives whose groups are read from the file."""


class Evidence(enum.Enum):
    """What the place of a rank's events in time rests on."""

    REFERENCE = "its clock is the reference"
    CONFIRMED = "by its own wall clock, which agrees with the collectives"
    SHIFTED = "shifted so that its collectives coincide with those of the others"
    UNCHECKED = "by its own wall clock; no collective to check it against"
    CONTRADICTED = "by its own wall clock, though no shift makes the collectives coincide"
    NO_CLOCK = "by its first event: its trace has no wall clock"


@dataclass(frozen=True)
class RankClock:
    """Where to put a rank's events on the clock of another."""

    shift: int
    """Nanoseconds to add to the rank's wall clock; with ``NO_CLOCK`` they mean nothing."""
    evidence: Evidence
    bounds: tuple[int, int] | None = None
    """Between these lies the true shift, where collectives show it."""
    collectives: int = 0
    """How many both traces hold."""


def compare_clocks(reference: TraceAnalysis, rank: int, other: TraceAnalysis, of: int) -> RankClock:
    """The clock of ``other``, of rank ``of``, beside that of ``reference``, of rank ``rank``."""
    one, two = reference.trace.wall_origin, other.trace.wall_origin
    if one is None or two is None:
        return RankClock(0, Evidence.NO_CLOCK)
    first, second = _shared(reference, rank, other, of)
    if not len(first):
        return RankClock(0, Evidence.UNCHECKED)
    mine, its = reference.trace, other.trace
    low = int((mine.start[first] - its.ends_of(second)).max()) + one - two
    high = int((mine.ends_of(first) - its.start[second]).min()) + one - two
    if low > high:
        return RankClock(0, Evidence.CONTRADICTED, None, len(first))
    if low <= 0 <= high:
        return RankClock(0, Evidence.CONFIRMED, (low, high), len(first))
    return RankClock((low + high) // 2, Evidence.SHIFTED, (low, high), len(first))


def _shared(
    reference: TraceAnalysis, rank: int, other: TraceAnalysis, of: int
) -> tuple[Int64, Int64]:
    """Rows of the collectives that both took part in, pair by pair.

    Those launched in one step count where both have as many of the same names there, in the same
    order; in traces without steps those of the whole.
    """
    mine, its = _by_step(reference, of), _by_step(other, rank)
    pairs = [(mine[step], its[step]) for step in mine.keys() & its.keys()]
    kept = [
        (one, two)
        for one, two in pairs
        if [_kind(reference.trace, row) for row in one] == [_kind(other.trace, row) for row in two]
    ]
    return (
        np.array([row for one, _ in kept for row in one], dtype=np.int64),
        np.array([row for _, two in kept for row in two], dtype=np.int64),
    )


def _kind(trace: Trace, row: int) -> str:
    """The part of a kernel's name that ranks have alike: not the algorithm, for example."""
    found = TOGETHER.search(trace.name_of(row))
    return found.group().lower().replace("_", "") if found else ""


def _by_step(analysis: TraceAnalysis, partner: int) -> Mapping[int, list[int]]:
    """Collectives with ``partner``, by the number of the step that they were launched in."""
    trace = analysis.trace
    links = link(trace)
    names = kinds.communication(trace) & kinds.named(trace, TOGETHER.search)
    found: dict[int, list[int]] = {}
    chosen = np.flatnonzero(names[links.activity])
    for at in chosen.tolist():
        row, launch = int(links.activity[at]), int(links.launch[at])
        time = int(trace.start[row if launch == NONE else launch])
        step = next((s.index for s in analysis.steps if s.start <= time < s.end), None)
        if not analysis.steps:
            found.setdefault(NONE, []).append(row)
        elif step is not None:
            found.setdefault(step, []).append(row)
    left = _MOST_READ
    for step, rows in found.items():
        read = rows[:left]
        left -= len(read)
        apart = {row for row in read if not _is_member(trace, row, partner)}
        found[step] = [row for row in rows if row not in apart]
    return found


def _is_member(trace: Trace, row: int, rank: int) -> bool:
    """Whether the collective's group holds ``rank``; where the file has no group, it may."""
    try:
        arguments: Mapping[str, Any] = trace.read_arguments(row)
        ranks = msgspec.json.decode(str(arguments.get("Process Group Ranks", "")))
    except (OSError, TraceError, msgspec.DecodeError):
        return True
    return not isinstance(ranks, list) or not ranks or rank in ranks
