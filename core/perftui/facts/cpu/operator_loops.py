"""Loops of the script over tensors, rows or time steps: equal small groups of operators in
sequence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import intersect, union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, OTHER
from perftui.facts.cpu.operators import PHASES, Operators, StepTime, idle_in_step, operators
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.step.judged_step import HOST_AT_WORK, LOSS, PYTHON_IN, JudgedStep
from perftui.trace.columns.arrays import downcast
from perftui.trace.model import NONE, Int64, Ints, Mask

FEWEST_TURNS = 10
"""Turns from which a repetition is a loop, as for torch's pattern of loops over indices."""

LONGEST_TURN = 40
"""Most operators of a turn."""

SMALL_NS = 100_000
"""Most ns of one operator's call on little data, with the Python around it. Time beyond that is
arithmetic, which one operator on all data needs too. slowai calls operators below it bound by
overhead."""

LONGEST_NS = 1_000_000
"""Longest call, ns, that is fully counted: in a longer one the thread lost its core for a time
slice of some milliseconds. An element-wise operator does a million elements meanwhile."""

INDEXING = frozenset(
    {"aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::index_select"}
)


_LAYER = re.compile(r"aten::(linear|addmm|conv\dd|convolution)$")
"""Operators that multiply by weights."""

_TAKES_BACK = re.compile(r"(Select|Slice|Index|Narrow|Unbind)\w*Backward")

CLEARLY = 0.2
"""Share of indexing operators from which a loop needs no other sign."""

EDGES = 2
"""Most turns by which a loop and its backward pass differ."""

OFTEN = 0.2
"""Backward calls of a kind per piece taken, from which backward runs through that loop: a model has
far fewer operators of a kind than there are pieces."""

MANY_TURNS, FEW_CALLS = 32, 6
"""Fewest turns with weights of their own, and most operators per turn, of layers for each column or
channel; stacks of layers have fewer turns with more calls."""

FEWEST_PIECES = 100
"""Fewest pieces taken by an uneven loop outside the model: more than a loss takes by itself."""


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop in the steady steps."""

    positions: Int64
    """Positions of the loop's outermost operators in ``Operators``, in order of time."""
    turns: int
    names: tuple[str, ...]
    """Operators of a turn."""
    phase: str
    """The loop's phase, one of ``PHASES``."""
    taken: Int64
    """Time from each of ``positions`` to the next, ns, at most ``SMALL_NS``."""
    interrupted: int
    """Total time beyond ``LONGEST_NS`` of each, ns."""
    is_even: bool = True
    """Whether all turns call the same; else ``turns`` counts pieces and ``names`` all operators."""

    @property
    def indexing(self) -> float:
        """Share of the loop's operators that take a piece of a tensor, 0 to 1."""
        if not self.is_even:
            return self.turns / len(self.positions)
        return sum(name in INDEXING for name in self.names) / len(self.names)


@trace_fact
def loops(analysis: TraceAnalysis) -> tuple[Loop, ...]:
    """Loops of the training thread, in order of time. Unknown if the trace has no steps or
    operators."""
    ops = operators(analysis)
    top = _outermost(ops)
    if not len(top):
        return ()
    block = _blocks(ops, top)
    # Equal only for calls of the same operator in the same block.
    calls = downcast(ops.name[top].astype(np.int64) * int(block[-1] + 1) + block)
    free = np.ones(len(top), dtype=bool)
    spans = []
    for period in range(1, min(LONGEST_TURN, len(top) // FEWEST_TURNS) + 1):
        for first, last in _repetitions(calls, period, free):
            free[first:last] = False
            spans.append((int(block[first]), period, first, last))
    return tuple(
        _loop(
            ops,
            top[first:last],
            (last - first) // period,
            ops.name[top[first : first + period]].tolist(),
        )
        for _, period, first, last in sorted(spans)
    )


def _blocks(ops: Operators, top: Int64) -> Int64:
    """Block index of each of ``top``: a block is one phase of one step on one thread, and ends any
    loop."""
    rows = ops.rows[top]
    ends = np.array([step.end for step in ops.steps.marked], dtype=np.int64)
    step = np.searchsorted(ends, ops.trace.start[rows], side="right")
    keys = np.stack([ops.trace.track[rows], step, ops.phase[top]])
    return np.cumsum((np.diff(keys, axis=1, prepend=NONE) != 0).any(axis=0))


def _outermost(ops: Operators) -> Int64:
    """Positions of operators without a caller, on the thread with most of them; where a GPU
    computes, backward has a thread of its own."""
    track = ops.trace.track[ops.rows[ops.top]]
    of_step = ops.top[ops.phase[ops.top] != PHASES.index(BACKWARD)]
    chosen = {
        int(np.argmax(np.bincount(ops.trace.track[ops.rows[part]], minlength=1)))
        for part in (ops.top, of_step)
    }
    return ops.top[np.isin(track, list(chosen))]


def _repetitions(calls: Ints, period: int, free: Mask) -> list[tuple[int, int]]:
    """Where ``calls`` repeat every ``period``, outside repetitions already found."""
    same = (calls[period:] == calls[:-period]) & free[period:] & free[:-period]
    # Whether so many equal calls follow from here: most periods have none.
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
    """Runs of operators outside the model that take piece after piece of tensors, whatever they do
    with each, in order of time. Unknown if the trace has no steps or operators."""
    ops = operators(analysis)
    top = _outermost(ops)
    takes = ops.named(INDEXING.__contains__) & ops.in_phase(OTHER)
    at = np.flatnonzero(takes[top])
    if len(at) < FEWEST_PIECES:
        return ()
    far = (np.diff(at) > LONGEST_TURN) | (np.diff(_blocks(ops, top)[at]) > 0)
    runs = np.split(at, np.flatnonzero(far) + 1)
    found_loops = []
    for run in runs:
        positions = top[int(run[0]) : int(run[-1]) + 1]
        if len(run) >= FEWEST_PIECES and len(run) >= CLEARLY * len(positions):
            names, calls = np.unique(ops.name[positions], return_counts=True)
            found_loops.append(
                _loop(ops, positions, len(run), names[np.argsort(-calls)].tolist(), is_even=False)
            )
    return tuple(found_loops)


def _backward_loops(ops: Operators, uneven: Sequence[Loop]) -> tuple[Loop, ...]:
    """Backward work for the pieces of ``uneven`` loops, if backward has nodes of such pieces."""
    pieces = sum(loop.turns for loop in uneven)
    back = np.flatnonzero((ops.caller == NONE) & ops.in_phase(BACKWARD))
    if not pieces or not len(back):
        return ()
    names, number, calls = np.unique(ops.name[back], return_inverse=True, return_counts=True)
    often = calls >= OFTEN * pieces
    if not any(_TAKES_BACK.search(ops.trace.names[name]) for name in names[often].tolist()):
        return ()
    common = names[often][np.argsort(-calls[often])].tolist()
    return (_loop(ops, back[often[number]].astype(np.int64), pieces, common, is_even=False),)


def _loop(
    ops: Operators, positions: Int64, turns: int, names: list[int], *, is_even: bool = True
) -> Loop:
    trace, rows = ops.trace, ops.rows[positions]
    start = trace.start[rows]
    until = np.append(start[1:], trace.ends_of(rows[-1:]))
    return Loop(
        positions,
        turns,
        tuple(trace.names[number] for number in names),
        PHASES[int(ops.phase[positions[0]])],
        np.clip(until - start, 0, SMALL_NS),
        int(np.maximum(until - start - LONGEST_NS, 0).sum()),
        is_even,
    )


def time_in(ops: Operators, judged: JudgedStep, chosen: Sequence[Loop]) -> StepTime:
    """Time of the mean step in operators of the ``chosen`` loops: in the model's phases their share
    of the operators' time and, by calls, of the Python between; elsewhere their share of time. On a
    GPU its idle time during the loops."""
    if ops.device is not None and judged.on_device:
        idle = idle_in_step(ops, judged, sum(_idle_during(ops, loop) for loop in chosen))
        return StepTime(idle, HOST_AT_WORK if idle else (), idle)
    total, parts = 0, []
    top = ops.caller == NONE
    for number, name in enumerate(PHASES):
        mine = [loop for loop in chosen if loop.phase == name]
        ours = (name, f"{PYTHON_IN}{name}") if name != OTHER else (name, LOSS)
        if not mine or not any(judged.part(part) for part in ours):
            continue
        parts += [part for part in ours if judged.part(part)]
        inside = top & (ops.phase == number)
        if name == OTHER:
            taken = sum(int(loop.taken.sum()) for loop in mine)
            whole = ops.during(name).total - sum(loop.interrupted for loop in mine)
            here = sum(judged.part(part) for part in ours)
            total += round(here * min(taken / max(whole, taken, 1), 1.0))
            continue
        positions = np.concatenate([loop.positions for loop in mine])
        calling = int(np.minimum(ops.duration[positions], SMALL_NS).sum())
        in_all = max(int(ops.duration[inside].sum()), 1)
        total += round(judged.part(ours[0]) * min(calling / in_all, 1.0))
        total += round(judged.part(ours[1]) * min(len(positions) / np.count_nonzero(inside), 1.0))
    total = min(total, judged.of.mean)
    return StepTime(total, tuple(parts), total)


def _idle_during(ops: Operators, loop: Loop) -> int:
    """Idle time that the host causes from the loop's first operator to its last one, in its phase,
    ns. Calls that wait for the GPU are another loss."""
    rows, trace = ops.rows[loop.positions], ops.trace
    waits = kinds.synchronising(trace) & kinds.operators(trace)
    if waits[rows].any():
        return 0
    within = union(trace.start[rows], np.append(trace.start[rows][1:], trace.ends_of(rows[-1:])))
    idle = idle_of_host(ops.steps.analysis)
    return intersect(idle, intersect(within, ops.during(loop.phase))).total


@trace_fact
def loops_over_rows(analysis: TraceAnalysis) -> tuple[Loop, ...]:
    """Loops in which each turn takes a piece of a tensor, their backward loops, and uneven loops.

    A stack of layers that split tensors looks the same, but its backward pass accumulates gradients
    of other weights in each turn. So does a layer for each column or channel, a loop nevertheless:
    also where one call takes all pieces, and a turn calls nothing but the layer.
    """
    ops, all_loops = operators(analysis), loops(analysis)
    chosen: list[Loop] = []
    undone: list[Loop] = []
    for loop in all_loops:
        is_layer = len(loop.names) == 1 and _LAYER.match(loop.names[0]) is not None
        if loop.phase == BACKWARD or not (loop.indexing or is_layer):
            continue
        # Turns differ by few: the first and the last may be special.
        back = [
            other
            for other in all_loops
            if other.phase == BACKWARD and abs(other.turns - loop.turns) <= EDGES
        ]
        has_weights = any(any("AccumulateGrad" in name for name in other.names) for other in back)
        if has_weights and (loop.turns < MANY_TURNS or len(loop.names) > FEW_CALLS):
            continue
        if has_weights if is_layer else back or loop.indexing >= CLEARLY:
            chosen.append(loop)
            undone += [other for other in back if other not in undone]
    uneven = uneven_loops(analysis)
    taken = np.concatenate([np.empty(0, np.int64), *(loop.positions for loop in uneven)])
    even = [loop for loop in chosen if not np.isin(loop.positions, taken).any()]
    return (*even, *undone, *uneven, *_backward_loops(ops, uneven))
