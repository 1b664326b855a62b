"""Backward passes of one step that go through the same layers, by the numbers of their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.facts.cpu.operators import KEEPS_GRADIENT, NODE, Operators, Work, operators, work_of
from perftui.facts.fact import UnknownError, trace_fact
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, Int64, Mask, TraceError

_Key = tuple[str, object, int]
"""Name, thread and number of a node: no other has all three."""

FIRST_GROUPS, EDGE = 16, 8
"""Groups of passes, and nodes at both ends of each, by which it is seen whether any are shared."""

MOST_READ = 13_000
"""Operators whose numbers are read, about: the others do the same, and each takes 5 us."""

CALLED = 32
"""Operators that nodes call, of each pass, that are read beside them."""

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
    forward is done between them, so that one pass from the sum of the losses would do. Unknown if
    the trace does not number the nodes."""
    found = operators(analysis)
    again = np.zeros(len(found.rows), dtype=bool)
    passes = 0
    is_node = found.named(lambda name: name.startswith(NODE))
    # Of the operators of a pass its nodes, and behind them some of what they call: these have
    # numbers too where they make a graph of their own.
    groups = [
        [np.concatenate([one[is_node[one]], one[~is_node[one]][:CALLED]]) for one in group]
        for group in _groups(found)
    ]
    groups = _sharing(found, groups) if groups else []
    looked_at = _first(groups)
    for group in looked_at:
        numbers = _numbers(found, group)
        seen: set[_Key] = set()
        sharing = 0
        for one in group:
            nodes = [at for at in one.tolist() if at in numbers]
            repeated = [at for at in nodes if numbers[at] in seen]
            seen |= {numbers[at] for at in nodes}
            again[repeated] = True
            sharing += bool(repeated)
        passes += sharing + bool(sharing)
    work = work_of(found, found.within(again), again)
    all_of_them = sum(map(len, groups)) / max(sum(map(len, looked_at)), 1)
    by_phase = np.rint(work.by_phase * all_of_them).astype(np.int64)
    return RepeatedBackward(
        Work(by_phase, round(work.calls * all_of_them)), passes * all_of_them / found.steps.steps
    )


def _sharing(found: Operators, groups: Sequence[list[Int64]]) -> list[list[Int64]]:
    """Groups of which a pass comes down to numbers that an earlier one has gone through, by its
    first and last nodes: nodes run from the highest number to the lowest."""
    some = groups[:FIRST_GROUPS]
    edges = [[np.concatenate([one[:EDGE], one[-CALLED - EDGE :]]) for one in each] for each in some]
    numbers = _numbers(found, [one for each in edges for one in each])
    chosen = []
    for group, ends in zip(some, edges, strict=True):
        highest = -1
        for one in ends:
            given = [numbers[at][2] for at in one.tolist() if at in numbers]
            if given and min(given) <= highest:
                chosen.append(group)
                break
            highest = max([highest, *given])
    # All do as the first ones do.
    return [*chosen, *groups[FIRST_GROUPS:]] if chosen else []


def _first(groups: Sequence[list[Int64]]) -> list[list[Int64]]:
    """Passes of ``MOST_READ`` operators, the first of all; two of a group at least."""
    chosen: list[list[Int64]] = []
    left = MOST_READ
    for group in groups:
        if left <= 0:
            break
        ends = np.cumsum([len(one) for one in group])
        chosen.append(group[: max(int(np.searchsorted(ends, left, side="right")), 2)])
        left -= int(ends[len(chosen[-1]) - 1])
    return chosen


def _groups(found: Operators) -> list[list[Int64]]:
    """Operators of each backward pass, those together whose gradients are added up."""
    trace, marks = found.trace, found.marks(BACKWARD)
    updates = np.sort(trace.start[kinds.optimizer(trace)])
    ends = [*updates.tolist(), np.iinfo(np.int64).max]
    following = np.searchsorted(updates, trace.ends_of(marks))
    if not (following[:-1] == np.searchsorted(updates, trace.start[marks[1:]])).any():
        # Each is followed by an update, as nearly everywhere.
        return []
    forward = found.in_phase(FORWARD)
    sums, added = _sums(found)
    groups: list[list[Int64]] = []
    last, step = -1, None
    for begin, end in zip(trace.start[marks].tolist(), trace.ends_of(marks).tolist(), strict=True):
        mine = found.begun(begin, end)
        here = found.steps.step_at(begin)
        joins = (
            groups
            and here is step
            and ends[int(np.searchsorted(ends, last))] >= begin
            and bool(added[mine].any())
            and _most_alike(found, found.begun(last, begin), ~forward)
            < np.count_nonzero(sums[mine])
        )
        if not joins:
            groups.append([])
        groups[-1].append(mine)
        last, step = end, here
    return [group for group in groups if len(group) > 1]


def _sums(found: Operators) -> tuple[Mask, Mask]:
    """Nodes that keep a parameter's gradient, and what adds one to another that is there."""
    sums = found.named((NODE + KEEPS_GRADIENT).__eq__)
    inner = found.named(KEEPS_GRADIENT.__eq__)
    added = found.named("aten::add_".__eq__) & (found.caller != NONE)
    added[added] = (sums | inner)[found.caller[added]]
    return sums, added


def _most_alike(found: Operators, between: Int64, counted: Mask) -> int:
    """How often one operator is called there: what is done to each gradient by itself is done as
    often as there are parameters."""
    outer = between[counted[between] & (found.caller[between] == NONE)]
    return max(Counter(found.name[outer].tolist()).values(), default=0)


def _numbers(found: Operators, group: Sequence[Int64]) -> dict[int, _Key]:
    """What identifies each node, by its position; empty where the graph of backward
    itself is kept (``create_graph``): then the second pass is another one."""
    names = found.trace.names
    rows = {int(found.rows[at]): int(at) for one in group for at in one.tolist()}
    numbers: dict[int, _Key] = {}
    try:
        known = list(arguments_of(found.trace, np.array(sorted(rows), dtype=np.int64)))
    except TraceError as problem:
        raise UnknownError("the trace does not number the nodes") from problem
    for row, arguments in known:
        at = rows[row]
        name, number = names[found.name[at]], arguments.get(_NUMBER)
        if not isinstance(number, int):
            continue
        if name.startswith(NODE):
            numbers[at] = (name, arguments.get(_THREAD), number)
        elif name.startswith("aten::"):
            return {}
    return numbers
