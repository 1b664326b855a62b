"""CPU operators in the steady steps of a trace, each with its own time and its phase."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, intersect, numbered
from perftui.analysis.kinds import part_of_rows, within
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import called_operators
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS, OPTIMIZER, OTHER, find_phases
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.step.judged_step import LOSS, PYTHON_IN, JudgedStep, judged_step, waiting_reads
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import NONE, Int32, Int64, Mask, Trace

PHASES = (FORWARD, BACKWARD, OPTIMIZER, OPERATORS, OTHER)
"""Where operators run; ``operators`` is forward in a trace without marked forward passes."""


@dataclass(frozen=True, eq=False)
class Operators:
    """Columns as long as ``rows``, which are in order of the trace: by thread, then by start."""

    steps: TraceSteps
    lengths: Mapping[str, int]
    """Time of each of ``PHASES`` in all steady steps, ns."""
    rows: Int64
    own: Int64
    """Time without called operators, ns."""
    caller: Int32
    """Position of the calling operator; NONE at the top."""
    phase: npt.NDArray[np.int8]
    """Index into ``PHASES`` of the phase it begins in."""

    @property
    def trace(self) -> Trace:
        """The trace of the operators."""
        return self.steps.analysis.trace

    @cached_property
    def name(self) -> Int32:
        """Indices into ``trace.names``."""
        return self.trace.name[self.rows]

    @cached_property
    def duration(self) -> Int64:
        """Duration of each operator including called ones, ns."""
        return self.trace.duration[self.rows]

    @cached_property
    def top(self) -> Int64:
        """Positions of operators without a caller."""
        return np.flatnonzero(self.caller == NONE)

    @cached_property
    def top_by_start(self) -> Int64:
        """``top`` of all threads, by start."""
        return self.top[np.argsort(self.trace.start[self.rows[self.top]], kind="stable")]

    def marks(self, phase: str) -> Int64:
        """Rows of the trace that mark ``phase`` within the steps, by start."""
        rows = np.flatnonzero(kinds.marked(self.trace, phase) & self.steps.inside)
        return rows[np.argsort(self.trace.start[rows], kind="stable")]

    @cached_property
    def _by_start(self) -> tuple[Int64, Int64]:
        """Positions of all operators by start, and their starts."""
        start = self.trace.start[self.rows]
        order = np.argsort(start, kind="stable")
        return order, start[order]

    def begun(self, begin: int, end: int) -> Int64:
        """Positions of operators that begin at or after ``begin`` and before ``end``, by start."""
        order, starts = self._by_start
        first, last = np.searchsorted(starts, (begin, end))
        return order[first:last]

    def named(self, accepts: Callable[[str], object]) -> Mask:
        """The operators whose names ``accepts`` accepts."""
        names = self.trace.names
        accepted = [number for number in self._names if accepts(names[number])]
        return numbered(self.name, accepted, len(names))

    @cached_property
    def _names(self) -> list[int]:
        result: list[int] = np.flatnonzero(np.bincount(self.name)).tolist()
        return result

    def within(self, chosen: Mask) -> Mask:
        """The ``chosen`` operators, and everything they call."""
        if not chosen.any():
            return chosen
        # A thread's operators are sorted by start, callers first: whatever begins before the latest
        # end of those chosen so far is inside one.
        return within(self.trace, self.rows, chosen)

    def by_phase(self, taken: Int64, chosen: Mask) -> Int64:
        """Sums of ``taken`` over the ``chosen`` operators, by index into ``PHASES``."""
        at = np.flatnonzero(chosen)
        sums = np.bincount(self.phase[at], taken[at], len(PHASES))
        return sums.astype(np.int64)

    @cached_property
    def whole(self) -> Int64:
        """Own time of all operators, by index into ``PHASES``, ns."""
        return self.by_phase(self.own, np.ones(len(self.rows), dtype=bool))

    def in_phase(self, *names: str) -> Mask:
        """The operators that begin in one of these phases."""
        return numbered(self.phase, [PHASES.index(name) for name in names], len(PHASES))


@dataclass(frozen=True, eq=False)
class Work:
    """Time of some operators in all steady steps of the trace."""

    by_phase: Int64
    """Own time of these operators by index into ``PHASES``, ns."""
    calls: int
    """Counted operators per step."""


def work_of(ops: Operators, mine: Mask, counted: Mask) -> Work:
    """The own time of ``mine``, and how many of them are ``counted``."""
    calls = int(np.count_nonzero(mine & counted)) // ops.steps.steps
    return Work(ops.by_phase(ops.own, mine), calls)


@dataclass(frozen=True)
class StepTime:
    """Time of some operators in a mean step, ns, and the parts of the step it lies in."""

    ns: int
    parts: tuple[str, ...]


@trace_fact
def operators(analysis: TraceAnalysis) -> Operators:
    """Operators of a trace's steady steps (of very many, only of the first steps). Unknown if it
    has no steps or operators."""
    steps = trace_steps(analysis)
    if steps is None or not steps.steps:
        raise UnknownError("no profiled step shows the operators")
    return all_operators(analysis)


@trace_fact
def all_operators(analysis: TraceAnalysis) -> Operators:
    """As ``operators``, but of the whole trace if its steps are unknown. Unknown without
    operators."""
    steps, trace = trace_steps(analysis), analysis.trace
    chosen = kinds.operators(trace)
    if steps is None or not chosen.any():
        raise UnknownError("the trace shows no operators")
    steps = steps.first(chosen)
    rows, caller, own = called_operators(trace, chosen & steps.inside)
    phases = find_phases(trace)
    phase = part_of_rows(trace, [phases.get(name, EMPTY) for name in PHASES])[rows]
    phase[phase == NONE] = PHASES.index(OTHER)
    lengths = {name: intersect(part, steps.times).total for name, part in phases.items()}
    lengths = {OTHER: steps.times.total - sum(lengths.values()), **lengths}
    return Operators(steps, lengths, rows, own, caller, phase)


def cpu_operators(facts: Facts) -> tuple[Operators, JudgedStep]:
    """Operators of a training that computes on the CPU, and the step they are part of. Not
    applicable on a GPU, or if nothing shows its operators: ``healthy`` reports that for all
    callers."""
    return _on_cpu(facts, operators.or_none(facts))


def all_cpu_operators(facts: Facts) -> tuple[Operators, JudgedStep]:
    """As ``cpu_operators``; for a trace alone without known steps, all operators."""
    return _on_cpu(facts, (operators if facts.run else all_operators).or_none(facts))


def _on_cpu(facts: Facts, ops: Operators | None) -> tuple[Operators, JudgedStep]:
    judged = judged_step.or_none(facts) if ops is not None else None
    if ops is None or judged is None or judged.on_device:
        raise NotApplicableError
    return ops, judged


def in_step(ops: Operators, judged: JudgedStep, taken: Int64) -> StepTime:
    """Time of the mean step in operators that take ``taken`` ns by phase in all steps of the trace:
    in each phase the trace's share of it."""
    total, parts = 0, []
    reading = waiting_reads(ops.steps.analysis)
    for name, mine in zip(PHASES, taken.tolist(), strict=True):
        # Waits for values are a part of their own, outside the phase here.
        length = round(ops.lengths.get(name, 0) * (1 - reading.get(name, 0.0)))
        of_phase = (name, f"{PYTHON_IN}{name}", *((LOSS,) if name == OTHER else ()))
        here = sum(judged.part(part) for part in of_phase)
        if length and mine and here:
            total += round(here * min(mine / length, 1.0))
            parts += [part for part in of_phase if judged.part(part)]
    return StepTime(min(total, judged.of.mean), tuple(parts))


def of_phases(ops: Operators, *names: str) -> Int64:
    """Own time of all operators of these phases, as ``in_step`` takes it."""
    chosen = np.array([name in names for name in PHASES])
    return np.where(chosen, ops.whole, 0)


WEIGHTED = re.compile(r"aten::(addmm|mm|bmm|convolution|mkldnn_rnn_layer|native_layer_norm)$")


WEIGHTED_NODE = re.compile(r"(Addmm|Mm|Bmm|Convolution|MkldnnRnnLayer|NativeLayerNorm)Backward\d*$")


NODE = "autograd::engine::evaluate_function: "
"""Prefix of the operator around a node of the backward pass."""


KEEPS_GRADIENT = "torch::autograd::AccumulateGrad"
"""The node that accumulates the gradient of a parameter."""


TWICE = 1.7
"""Ratio of forward to backward operators from which some passes have no backward."""


MOST_PASSES = 3
"""Most forward passes per backward pass of a repetition: with more, they play, generate or look
ahead, on other inputs."""


@trace_fact
def repeated_passes(analysis: TraceAnalysis) -> Work:
    """Operators of forward passes without a backward pass that repeat another one of their step;
    empty if all have a backward pass, or they differ."""
    ops = operators(analysis)
    mine = np.zeros(len(ops.rows), dtype=bool)
    trace = ops.trace
    weighted = ops.named(WEIGHTED.match) & ops.in_phase(FORWARD)
    nodes = ops.named(WEIGHTED_NODE.match)
    if not nodes.any() or np.count_nonzero(weighted) < TWICE * np.count_nonzero(nodes):
        return work_of(ops, mine, mine)
    marks = np.flatnonzero(kinds.marked(trace, FORWARD))
    top = ops.top_by_start
    start = trace.start[ops.rows]
    first = np.searchsorted(start[top], trace.start[marks])
    last = np.searchsorted(start[top], trace.ends_of(marks))
    passes = [top[begin:end] for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
    alike: dict[tuple[int, bytes], list[Int64]] = {}
    for forward in passes:
        step = ops.steps.step_at(int(start[forward[0]])) if len(forward) else None
        if step is not None:
            alike.setdefault((step.index, ops.name[forward].tobytes()), []).append(forward)
    with_backward = np.count_nonzero(nodes) / np.count_nonzero(weighted)
    for group in alike.values():
        trained = max(round(len(group) * with_backward), 1)
        if len(group) <= MOST_PASSES * trained:
            for forward in group[trained:]:
                mine[forward] = True
    return work_of(ops, ops.within(mine), mine)
