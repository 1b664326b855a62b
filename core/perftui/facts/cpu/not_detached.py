"""Backward passes that go on into a model which they do not train, as where the critic of a GAN
learns from samples that were not detached from the generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.facts.cpu.model_passes import KEEPS_GRADIENT, NODE
from perftui.facts.cpu.operators import Operators, Work, operators, work_of
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.steady import Mask
from perftui.trace.arguments import arguments_of
from perftui.trace.errors import TraceError
from perftui.trace.model import Int64

_NUMBER = "Sequence number"

FIRST_TURNS = 24
"""Updates whose passes are looked at: all do the same, and reading their numbers takes time."""

FIRST_OPERATORS = 16
"""Operators of a call among which one has a number: those that keep no gradient have none."""


@dataclass(frozen=True, eq=False)
class NotDetached:
    """What goes on into a model that is not trained."""

    work: Work
    """Its nodes, and all that they call."""
    parameters: int
    """Of how many parameters such a pass keeps gradients."""


@dataclass(frozen=True, eq=False)
class _Turn:
    """The backward passes before one update."""

    nodes: Int64
    """Positions of their nodes."""
    call: Int64
    """For each node the call of a model that it belongs to, by number; -1 for none."""

    def names_in(self, found: Operators, call: int) -> bytes:
        """What distinguishes calls of different models."""
        names = np.sort(found.name[self.nodes[self.call == call]])
        return names.tobytes()

    def calls(self) -> list[int]:
        """The calls gone through, first made first."""
        known: list[int] = np.unique(self.call[self.call >= 0]).tolist()
        return known


@trace_fact
def not_detached(analysis: TraceAnalysis) -> NotDetached | None:
    """Where updates take turns: the passes before some go through more calls of models than those
    before others, and reach as many parameters as any. They need not have gone on into the model
    that is called first where least is gone through. None where there are none.

    Each node belongs to the call in which its number was given; torch numbers them as they are
    recorded.

    Raises:
        UnknownError: the trace does not number the nodes.
    """
    found = operators(analysis)
    trace, marks = found.trace, _marks(found, BACKWARD)
    updates = np.sort(trace.start[kinds.optimizer_steps(trace) & found.steps.inside])
    turn_of = np.searchsorted(updates, trace.ends_of(marks))
    sums = found.named((NODE + KEEPS_GRADIENT).__eq__)
    inside: dict[int, list[Int64]] = {}
    reached: dict[int, int] = {}
    seen = turn_of < FIRST_TURNS
    for mark, turn in zip(marks[seen].tolist(), turn_of[seen].tolist(), strict=True):
        begin = int(trace.start[mark])
        here = found.begun(begin, begin + int(trace.duration[mark]))
        inside.setdefault(turn, []).append(here)
        reached[turn] = max(reached.get(turn, 0), int(np.count_nonzero(sums[here])))
    if len(inside) < 2:
        return None
    last = int(trace.ends_of(marks[seen]).max())
    first, most = _first_numbers(found, last), max(reached.values())
    is_node = found.named(lambda name: name.startswith(NODE))
    nodes = {turn: np.concatenate(each) for turn, each in inside.items()}
    nodes = {turn: each[is_node[each]] for turn, each in nodes.items()}
    numbers = _numbers(found, np.concatenate(list(nodes.values())))
    turns = {turn: _turn(each, numbers, first) for turn, each in nodes.items()}
    mine = _farther(
        found, list(turns.values()), [turns[turn] for turn in turns if reached[turn] == most]
    )
    work = work_of(found, found.within(mine), mine)
    all_of_them = len(np.unique(turn_of)) / len(inside)
    by_phase = np.rint(work.by_phase * all_of_them).astype(np.int64)
    return NotDetached(Work(by_phase, round(work.calls * all_of_them)), most)


def _marks(found: Operators, phase: str) -> Int64:
    """Rows that mark a phase within the steps, by start."""
    rows = np.flatnonzero(kinds.marked(found.trace, phase) & found.steps.inside)
    return rows[np.argsort(found.trace.start[rows], kind="stable")]


def _first_numbers(found: Operators, until: int) -> Int64:
    """The lowest number that was given in each call of a model before ``until``, ascending."""
    trace, marks = found.trace, _marks(found, FORWARD)
    marks = marks[trace.start[marks] < until]
    calls = zip(trace.start[marks].tolist(), trace.ends_of(marks).tolist(), strict=True)
    begun = [found.begun(*call)[:FIRST_OPERATORS].tolist() for call in calls]
    numbers = _numbers(found, np.array([at for each in begun for at in each], dtype=np.int64))
    given = ([numbers[at] for at in each if at in numbers] for each in begun)
    return np.array(sorted(min(each) for each in given if each), dtype=np.int64)


def _turn(nodes: Int64, numbers: Mapping[int, int], first: Int64) -> _Turn:
    known = np.array([numbers.get(at, -1) for at in nodes.tolist()], dtype=np.int64)
    return _Turn(nodes, np.where(known >= 0, np.searchsorted(first, known, side="right") - 1, -1))


def _farther(found: Operators, turns: list[_Turn], farthest: list[_Turn]) -> Mask:
    """Nodes of the model that is called first where least is gone through, in those of the
    ``farthest`` turns that go through more."""
    mine = np.zeros(len(found.rows), dtype=bool)
    least = min(turns, key=lambda turn: len(turn.calls()))
    calls = least.calls()
    if len(calls) < 2:
        return mine
    model = least.names_in(found, calls[0])
    for turn in farthest:
        if len(turn.calls()) > len(calls):
            for call in turn.calls():
                if turn.names_in(found, call) == model:
                    mine[turn.nodes[turn.call == call]] = True
    return mine


def _numbers(found: Operators, positions: Int64) -> dict[int, int]:
    """The numbers of nodes, by position."""
    at = {int(found.rows[one]): int(one) for one in positions.tolist()}
    try:
        known = arguments_of(found.trace, np.array(sorted(at), dtype=np.int64))
        numbers = {at[row]: arguments.get(_NUMBER) for row, arguments in known}
    except TraceError as problem:
        raise UnknownError("the trace does not number the nodes") from problem
    return {
        one: number for one, number in numbers.items() if isinstance(number, int) and number >= 0
    }
