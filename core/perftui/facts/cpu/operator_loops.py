"""Loops of the script over tensors, rows or time steps: alike small groups of operators, one after
the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, OTHER
from perftui.facts.cpu.operators import PHASES, Operators, StepTime, operators
from perftui.facts.fact import trace_fact
from perftui.facts.step.judged_step import LOSS, PYTHON_IN, JudgedStep
from perftui.trace.columns.arrays import downcast
from perftui.trace.model import NONE, Int64, Ints, Mask

FEWEST_TURNS = 10
"""Turns from which on a repetition is a loop, as for torch's pattern of loops over indices."""

LONGEST_TURN = 40
"""Operators of a turn."""

SMALL_NS = 100_000
"""What a call of one operator on little data takes at most, with the Python around it. What it
takes beyond that is arithmetic, which one operator on all of the data has to do as well. slowai
calls operators below it bound by overhead."""

LONGEST_NS = 1_000_000
"""What one of them takes at most: longer, and the thread was off its processor for a time slice,
which are some milliseconds. An element-wise operator does a million elements meanwhile."""

INDEXING = frozenset(
    {"aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::index_select"}
)


_TAKES_BACK = re.compile(r"(Select|Slice|Index|Narrow|Unbind)\w*Backward")

CLEARLY = 0.2
"""Share of indexing among the operators of a loop from which on it needs no other sign."""

EDGES = 2
"""Turns by which a loop and its backward pass differ."""

OFTEN = 0.2
"""Calls of a kind of the backward pass for each piece that was taken, from which on it goes through
that loop: what the model has of a kind comes far less often than pieces do."""

MANY_TURNS, FEW_CALLS = 32, 6
"""Turns with weights of their own, and operators of each, by which a layer for each column or
channel differs from a stack of layers: those are fewer, and call more."""

FEWEST_PIECES = 100
"""Pieces that a loop outside the model takes where no two of its turns need be alike: more than a
loss takes of its own accord."""


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop in the steady steps."""

    positions: Int64
    """Positions of the loop's outermost operators in ``Operators``, in order of time."""
    turns: int
    names: tuple[str, ...]
    """Operators of a turn."""
    phase: str
    """The phase that the loop is in, one of ``PHASES``."""
    taken: Int64
    """What each of ``positions`` takes until the next begins, ns, ``SMALL_NS`` at most."""
    interrupted: int
    """What they take beyond ``LONGEST_NS`` each, ns in all."""
    is_even: bool = True
    """All turns call the same; else ``turns`` are the pieces taken, ``names`` the operators."""

    @property
    def indexing(self) -> float:
        """Share of the loop's operators that take a piece of a tensor, 0 to 1."""
        if not self.is_even:
            return self.turns / len(self.positions)
        return sum(name in INDEXING for name in self.names) / len(self.names)


@trace_fact
def loops(analysis: TraceAnalysis) -> tuple[Loop, ...]:
    """The loops of the thread that trains, in order of time. Unknown if the trace has no steps or
    no operators."""
    found = operators(analysis)
    top = _outermost(found)
    if not len(top):
        return ()
    block = _blocks(found, top)
    # Equal only to a call of the same operator in the same block.
    calls = downcast(found.name[top].astype(np.int64) * int(block[-1] + 1) + block)
    free = np.ones(len(top), dtype=bool)
    spans = []
    for period in range(1, min(LONGEST_TURN, len(top) // FEWEST_TURNS) + 1):
        for first, last in _repetitions(calls, period, free):
            free[first:last] = False
            spans.append((int(block[first]), period, first, last))
    return tuple(
        _loop(
            found,
            top[first:last],
            (last - first) // period,
            found.name[top[first : first + period]].tolist(),
        )
        for _, period, first, last in sorted(spans)
    )


def _blocks(found: Operators, top: Int64) -> Int64:
    """Numbers of the runs of ``top`` in one phase of one step: a loop ends with them."""
    phase, begins = found.phase[top], np.ones(len(top), dtype=bool)
    begins[1:] = phase[1:] != phase[:-1]
    ends = np.array([one.step.end for one in found.steps.each], dtype=np.int64)
    first = np.searchsorted(found.trace.start[found.rows[top]], ends)
    begins[first[first < len(top)]] = True
    return np.cumsum(begins)


def _outermost(found: Operators) -> Int64:
    """Positions of the operators that no other called, on the thread with most of them."""
    # Those of one track are in order of their starts.
    track = found.trace.track[found.rows[found.top]]
    result: Int64 = found.top[track == np.argmax(np.bincount(track, minlength=1))]
    return result


def _repetitions(calls: Ints, period: int, free: Mask) -> list[tuple[int, int]]:
    """Where ``calls`` repeat themselves every ``period``, and nothing shorter was found yet."""
    same = (calls[period:] == calls[:-period]) & free[period:] & free[:-period]
    # Whether so many follow each other from here on: most periods have none.
    length, wanted = 1, (FEWEST_TURNS - 1) * period
    while length < wanted:
        more = min(length, wanted - length)
        same, length = same[more:] & same[:-more], length + more
    if not same.any():
        return []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]))).tolist()
    return [
        (first, last + wanted - 1 + period)
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]


@trace_fact
def uneven_loops(analysis: TraceAnalysis) -> tuple[Loop, ...]:
    """Runs of operators outside the model that take piece after piece of tensors, whatever the
    script decides to do with each, in order of time. Unknown if the trace has no steps or no
    operators."""
    found = operators(analysis)
    top = _outermost(found)
    takes = found.named(INDEXING.__contains__) & found.in_phase(OTHER)
    at = np.flatnonzero(takes[top])
    if len(at) < FEWEST_PIECES:
        return ()
    block = _blocks(found, top)
    far = (np.diff(at) > LONGEST_TURN) | (np.diff(block[at]) > 0)
    runs = np.split(at, np.flatnonzero(far) + 1)
    found_loops = []
    for run in runs:
        positions = top[int(run[0]) : int(run[-1]) + 1]
        if len(run) >= FEWEST_PIECES and len(run) >= CLEARLY * len(positions):
            names, calls = np.unique(found.name[positions], return_counts=True)
            found_loops.append(
                _loop(found, positions, len(run), names[np.argsort(-calls)].tolist(), is_even=False)
            )
    return tuple(found_loops)


def _undone(found: Operators, uneven: Sequence[Loop]) -> tuple[Loop, ...]:
    """What the backward pass does for the pieces of ``uneven`` loops, if it takes pieces back."""
    pieces = sum(loop.turns for loop in uneven)
    back = np.flatnonzero((found.caller == NONE) & found.in_phase(BACKWARD))
    if not pieces or not len(back):
        return ()
    names, number, calls = np.unique(found.name[back], return_inverse=True, return_counts=True)
    often = calls >= OFTEN * pieces
    if not any(_TAKES_BACK.search(found.trace.names[name]) for name in names[often].tolist()):
        return ()
    known = names[often][np.argsort(-calls[often])].tolist()
    return (_loop(found, back[often[number]].astype(np.int64), pieces, known, is_even=False),)


def _loop(
    found: Operators, positions: Int64, turns: int, names: list[int], *, is_even: bool = True
) -> Loop:
    trace, rows = found.trace, found.rows[positions]
    start = trace.start[rows]
    until = np.append(start[1:], trace.ends_of(rows[-1:]))
    return Loop(
        positions,
        turns,
        tuple(trace.names[number] for number in names),
        PHASES[int(found.phase[positions[0]])],
        np.clip(until - start, 0, SMALL_NS),
        int(np.maximum(until - start - LONGEST_NS, 0).sum()),
        is_even,
    )


def time_in(found: Operators, judged: JudgedStep, chosen: Sequence[Loop]) -> StepTime:
    """What the mean step takes to call the operators of the ``chosen`` loops: within the model's
    phases their share of the operators' time and, by calls, of the Python between; elsewhere their
    share of the time."""
    total, parts = 0, []
    top = found.caller == NONE
    for number, name in enumerate(PHASES):
        mine = [loop for loop in chosen if loop.phase == name]
        ours = (name, f"{PYTHON_IN}{name}") if name != OTHER else (name, LOSS)
        if not mine or not any(judged.part(part) for part in ours):
            continue
        parts += [part for part in ours if judged.part(part)]
        inside = top & (found.phase == number)
        if name == OTHER:
            taken = sum(int(loop.taken.sum()) for loop in mine)
            whole = found.lengths[name] - sum(loop.interrupted for loop in mine)
            here = sum(judged.part(part) for part in ours)
            total += round(here * min(taken / max(whole, taken, 1), 1.0))
            continue
        positions = np.concatenate([loop.positions for loop in mine])
        calling = int(np.minimum(found.duration[positions], SMALL_NS).sum())
        in_all = max(int(found.duration[inside].sum()), 1)
        total += round(judged.part(ours[0]) * min(calling / in_all, 1.0))
        total += round(judged.part(ours[1]) * min(len(positions) / np.count_nonzero(inside), 1.0))
    return StepTime(min(total, judged.of.mean), tuple(parts))


@trace_fact
def loops_over_rows(analysis: TraceAnalysis) -> tuple[Loop, ...]:
    """Loops in which each turn takes its piece of a tensor, what the backward pass does turn by
    turn, and loops whose turns differ.

    A stack of layers that split tensors looks alike, but for its weights: the backward pass has the
    gradients of others in each turn. So it has where each column or channel has a layer of its own.
    """
    found, known = operators(analysis), loops(analysis)
    chosen: list[Loop] = []
    undone: list[Loop] = []
    for loop in known:
        if loop.phase == BACKWARD or not loop.indexing:
            continue
        # They have about as many turns: the first and the last may differ from the others.
        back = [
            one for one in known if one.phase == BACKWARD and abs(one.turns - loop.turns) <= EDGES
        ]
        has_weights = any(any("AccumulateGrad" in name for name in one.names) for one in back)
        if has_weights and (loop.turns < MANY_TURNS or len(loop.names) > FEW_CALLS):
            continue
        if back or loop.indexing >= CLEARLY:
            chosen.append(loop)
            undone += [one for one in back if one not in undone]
    uneven = uneven_loops(analysis)
    taken = np.concatenate([np.empty(0, np.int64), *(one.positions for one in uneven)])
    even = [loop for loop in chosen if not np.isin(loop.positions, taken).any()]
    return (*even, *undone, *uneven, *_undone(found, uneven))
