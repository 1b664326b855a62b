"""Backward passes of one step that go through the same layers, by the numbers of their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import Mask
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.facts.cpu.model_passes import KEEPS_GRADIENT, NODE
from perftui.facts.cpu.operators import Operators, Work, operators, work_of
from perftui.facts.fact import UnknownError, trace_fact
from perftui.trace.arguments import arguments_of
from perftui.trace.errors import TraceError
from perftui.trace.model import NONE, Int64

_NUMBER, _THREAD = "Sequence number", "Fwd thread id"


@dataclass(frozen=True, eq=False)
class RepeatedBackward:
    """Nodes of the backward pass that a step runs more than once."""

    work: Work
    """Theirs, and of all that they call, but for the first time that each runs in a step."""
    passes: float
    """Backward passes of a step that share nodes, the mean."""


@trace_fact
def repeated_backward(analysis: TraceAnalysis) -> RepeatedBackward:
    """What is gone through again by backward passes whose gradients are just added up: nothing but
    forward is done between them, so that one pass from the sum of the losses would do.

    Raises:
        UnknownError: the trace does not number the nodes.
    """
    found = operators(analysis)
    again = np.zeros(len(found.rows), dtype=bool)
    passes = 0
    for group in _groups(found):
        numbers = _numbers(found, group)
        seen: set[tuple[object, ...]] = set()
        sharing = 0
        for one in group:
            nodes = [at for at in one.tolist() if at in numbers]
            repeated = [at for at in nodes if numbers[at] in seen]
            seen |= {numbers[at] for at in nodes}
            again[repeated] = True
            sharing += bool(repeated)
        passes += sharing + bool(sharing)
    work = work_of(found, found.within(again), again)
    return RepeatedBackward(work, passes / found.steps.steps)


def _groups(found: Operators) -> list[list[Int64]]:
    """Operators of each backward pass, those together whose gradients are added up."""
    trace = found.trace
    marks = np.flatnonzero(kinds.marked(trace, BACKWARD) & found.steps.inside)
    marks = marks[np.argsort(trace.start[marks])]
    updates = np.sort(trace.start[kinds.optimizer(trace)])
    ends = [*updates.tolist(), np.iinfo(np.int64).max]
    following = np.searchsorted(updates, trace.ends_of(marks))
    if not (following[:-1] == np.searchsorted(updates, trace.start[marks[1:]])).any():
        # Each is followed by an update, as nearly everywhere.
        return []
    forward = found.in_phase(FORWARD)
    start = trace.start[found.rows]
    sums, added = _sums(found)
    groups: list[list[Int64]] = []
    last, step = -1, None
    for begin, end in zip(trace.start[marks].tolist(), trace.ends_of(marks).tolist(), strict=True):
        mine = (start >= begin) & (start < end)
        here = found.steps.step_at(begin)
        between = (start >= last) & (start < begin) & ~forward
        joins = (
            groups
            and here is step
            and ends[int(np.searchsorted(ends, last))] >= begin
            and bool(added[mine].any())
            and _most_alike(found, between) < np.count_nonzero(sums & mine)
        )
        if not joins:
            groups.append([])
        groups[-1].append(np.flatnonzero(mine))
        last, step = end, here
    return [group for group in groups if len(group) > 1]


def _sums(found: Operators) -> tuple[Mask, Mask]:
    """Nodes that keep a parameter's gradient, and what adds one to another that is there."""
    sums = found.named((NODE + KEEPS_GRADIENT).__eq__)
    inner = found.named(KEEPS_GRADIENT.__eq__)
    added = found.named("aten::add_".__eq__) & (found.caller != NONE)
    added[added] = (sums | inner)[found.caller[added]]
    return sums, added


def _most_alike(found: Operators, between: Mask) -> int:
    """How often one operator is called there: what is done to each gradient by itself is done as
    often as there are parameters."""
    outer = between & (found.caller == NONE)
    return max(Counter(found.name[outer].tolist()).values(), default=0)


def _numbers(found: Operators, group: Sequence[Int64]) -> dict[int, tuple[object, ...]]:
    """What tells each node from all others, by its position; empty where the graph of backward
    itself is kept (``create_graph``): then the second pass is another one."""
    names = found.trace.names
    rows = {int(found.rows[at]): int(at) for one in group for at in one.tolist()}
    numbers: dict[int, tuple[object, ...]] = {}
    try:
        known = list(arguments_of(found.trace, np.array(sorted(rows), dtype=np.int64)))
    except TraceError as problem:
        raise UnknownError("the trace does not number the nodes") from problem
    for row, arguments in known:
        at = rows[row]
        name, number = names[found.name[at]], arguments.get(_NUMBER)
        if number is None:
            continue
        if name.startswith(NODE):
            numbers[at] = (name, arguments.get(_THREAD), number)
        elif name.startswith("aten::"):
            return {}
    return numbers
