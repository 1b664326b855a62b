"""Backward passes of one step through the same layers, recognised by the numbers of their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.facts.cpu.operators import (
    KEEPS_GRADIENT,
    NODE,
    NUMBER,
    Operators,
    Work,
    operators,
    work_of,
)
from perftui.facts.fact import trace_fact
from perftui.trace.model import NONE, Int64

_Key = tuple[str, object, int]
"""Name, thread and sequence number of a node, which are unique together."""

FIRST_GROUPS, EDGE = 16, 8
"""Groups of passes, and nodes at both ends of each, checked first for shared nodes."""

MOST_READ = 13_000
"""About how many operators' numbers are read: the others do the same, and each takes 5 us."""

CALLED = 32
"""Called operators read per pass, in addition to its nodes."""

_THREAD = "Fwd thread id"


@trace_fact
def repeated_backward(analysis: TraceAnalysis) -> tuple[Work, float]:
    """Work repeated by backward passes whose gradients are just summed, and the mean number of such
    passes in a step: only forward passes run in between, so one pass from the sum of losses would
    do. Each node's first run does not count. Unknown if the trace does not number nodes."""
    ops = operators(analysis)
    again = ops.at()
    passes = 0
    is_node = ops.named(lambda name: name.startswith(NODE))
    # The nodes of a pass, then some of the operators they call: these also have numbers if they
    # build a graph of their own.
    groups = [
        [np.concatenate([rows[is_node[rows]], rows[~is_node[rows]][:CALLED]]) for rows in group]
        for group in _groups(ops)
    ]
    groups = _sharing(ops, groups) if groups else []
    looked_at = _first(groups)
    for group in looked_at:
        numbers = _numbers(ops, group)
        seen: set[_Key] = set()
        sharing = 0
        for rows in group:
            nodes = [at for at in rows.tolist() if at in numbers]
            repeated = [at for at in nodes if numbers[at] in seen]
            seen |= {numbers[at] for at in nodes}
            again[repeated] = True
            sharing += bool(repeated)
        passes += sharing + bool(sharing)
    work = work_of(ops, ops.within(again), again)
    all_of_them = sum(map(len, groups)) / max(sum(map(len, looked_at)), 1)
    return work.times(all_of_them), passes * all_of_them / ops.steps.steps


def _sharing(ops: Operators, groups: Sequence[list[Int64]]) -> list[list[Int64]]:
    """Groups with a pass that comes down to numbers of an earlier one, by its first and last nodes:
    nodes run from the highest number to the lowest."""
    some = groups[:FIRST_GROUPS]
    edges = [[np.concatenate([run[:EDGE], run[-CALLED - EDGE :]]) for run in runs] for runs in some]
    numbers = _numbers(ops, [run for runs in edges for run in runs])
    chosen = []
    for group, ends in zip(some, edges, strict=True):
        highest = -1
        for rows in ends:
            used = [numbers[at][2] for at in rows.tolist() if at in numbers]
            if used and min(used) <= highest:
                chosen.append(group)
                break
            highest = max([highest, *used])
    # The other groups are assumed to do as the first ones.
    return [*chosen, *groups[FIRST_GROUPS:]] if chosen else []


def _first(groups: Sequence[list[Int64]]) -> list[list[Int64]]:
    """The first passes with ``MOST_READ`` operators in all; at least two of a group."""
    chosen: list[list[Int64]] = []
    left = MOST_READ
    for group in groups:
        if left <= 0:
            break
        ends = np.cumsum([len(rows) for rows in group])
        chosen.append(group[: max(int(np.searchsorted(ends, left, side="right")), 2)])
        left -= int(ends[len(chosen[-1]) - 1])
    return chosen


def _groups(ops: Operators) -> list[list[Int64]]:
    """Operators of each backward pass, grouped by passes whose gradients are summed."""
    trace, marks = ops.trace, ops.marks(BACKWARD)
    updates = np.sort(trace.start[kinds.optimizer(trace)])
    ends = [*updates.tolist(), np.iinfo(np.int64).max]
    following = np.searchsorted(updates, trace.ends_of(marks))
    if not (following[:-1] == np.searchsorted(updates, trace.start[marks[1:]])).any():
        # An update follows each pass, as nearly everywhere.
        return []
    forward = ops.in_phase(FORWARD)
    sums, inner = ops.named((NODE + KEEPS_GRADIENT).__eq__), ops.named(KEEPS_GRADIENT.__eq__)
    # Operators that add a parameter's gradient to another.
    added = ops.named("aten::add_".__eq__) & ops.called_by(sums | inner)
    groups: list[list[Int64]] = []
    last, step = -1, None
    for begin, end in zip(trace.start[marks].tolist(), trace.ends_of(marks).tolist(), strict=True):
        mine = ops.begun(begin, end)
        here = ops.step_at(begin)
        between = ops.begun(last, begin)
        outer = between[~forward[between] & (ops.caller[between] == NONE)]
        joins = (
            groups
            and here is step
            and ends[int(np.searchsorted(ends, last))] >= begin
            and bool(added[mine].any())
            # Work on each gradient is called once per parameter.
            and np.bincount(ops.name[outer]).max(initial=0) < np.count_nonzero(sums[mine])
        )
        if not joins:
            groups.append([])
        groups[-1].append(mine)
        last, step = end, here
    return [group for group in groups if len(group) > 1]


def _numbers(ops: Operators, group: Sequence[Int64]) -> dict[int, _Key]:
    """The key of each node, by its position; empty if backward builds a graph of its own
    (``create_graph``): the second pass is then a different one."""
    names = ops.trace.names
    numbers: dict[int, _Key] = {}
    for at, arguments in ops.arguments(np.concatenate(group)).items():
        name, number = names[ops.name[at]], arguments.get(NUMBER)
        if not isinstance(number, int):
            continue
        if name.startswith(NODE):
            numbers[at] = (name, arguments.get(_THREAD), number)
        elif name.startswith("aten::"):
            return {}
    return numbers
