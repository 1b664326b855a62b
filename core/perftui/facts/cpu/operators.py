"""Operators in the steady steps of a trace, each with its phase and its time on the judged device.

On the CPU that is the time of the operator itself. On a GPU it is the time of what the operator
launched, and the time that the GPU idles while the host is in the operator. Times exclude called
operators, and no nanosecond counts twice: with what no operator launched, and the idle time between
operators, they sum to the device's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import (
    EMPTY,
    Intervals,
    intersect,
    mask_of,
    numbered,
    subtract,
    sums,
    union,
    unite,
)
from perftui.analysis.kinds import begun_in, part_of_rows, within
from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.ops.calls import called_operators, link
from perftui.analysis.steps import (
    BACKWARD,
    COMPUTE,
    FORWARD,
    OPERATORS,
    OPTIMIZER,
    OTHER,
    find_phases,
)
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import (
    HOST_AT_WORK,
    IDLE_PARTS,
    LOSS,
    PYTHON_IN,
    JudgedStep,
    judged_step,
    phase_shares,
)
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import MEMCPY, NONE, Int32, Int64, Ints, Mask, Trace, TraceError

PHASES = (FORWARD, BACKWARD, OPTIMIZER, OPERATORS, OTHER)
"""Where operators run; ``operators`` is forward in a trace without marked forward passes."""

NUMBER = "Sequence number"
"""The argument by which an operator and the nodes that it made are matched."""


@dataclass(frozen=True, eq=False)
class OnDevice:
    """The judged GPU's time in all steady steps, ns."""

    idle: Int64
    """Idle time while the host is in each operator, without called operators."""
    between: Int64
    """Idle time that the host causes between operators, by index into ``PHASES``."""
    computing: int
    """All of its computing, whoever launched it."""
    unknown: int
    """The part of it that no operator launched, as far as the trace shows."""


@dataclass(frozen=True, eq=False)
class Operators:
    """Columns as long as ``rows``, which are in order of the trace: by thread, then by start."""

    steps: TraceSteps
    spans: Mapping[str, Intervals]
    """Each of ``PHASES`` in all steady steps on the host."""
    rows: Int64
    own: Int64
    """Time in the operator, or of what it launched on the GPU, without called operators, ns."""
    caller: Int32
    """Position of the calling operator; NONE at the top."""
    phase: npt.NDArray[np.int8]
    """Index into ``PHASES`` of the phase it begins in."""
    device: OnDevice | None = None
    """What else the GPU does; None on the CPU."""

    @property
    def trace(self) -> Trace:
        """The trace of the operators."""
        return self.steps.analysis.trace

    def during(self, phase: str) -> Intervals:
        """The phase in all steady steps on the host."""
        return self.spans.get(phase, EMPTY)

    @cached_property
    def spent(self) -> Int64:
        """Time of each operator including called ones, ns: on a GPU that of all they launched."""
        if self.device is None:
            return self.duration
        above = self.caller
        result: Int64 = self.own.copy()
        while (called := above != NONE).any():
            result += sums(above[called], self.own[called], len(result))
            above = np.where(called, self.caller[above], NONE)
        return result

    def step_at(self, time: int) -> Step | None:
        """The steady step on the host that contains ``time``."""
        return next((step for step in self.steps.marked if step.start <= time < step.end), None)

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
        return self.by_start(self.caller == NONE)

    def by_start(self, chosen: Mask) -> Int64:
        """Positions of the ``chosen`` operators of all threads, by start."""
        at = np.flatnonzero(chosen)
        return at[np.argsort(self.trace.start[self.rows[at]], kind="stable")]

    def marks(self, phase: str) -> Int64:
        """Rows of the trace that mark ``phase`` within the steps, by start."""
        marked = kinds.marked(self.trace, phase) & begun_in(self.trace, self.steps.on_host)
        rows = np.flatnonzero(marked)
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

    def at(self, *positions: list[int] | Ints) -> Mask:
        """The operators at all of these ``positions``."""
        return mask_of(len(self.rows), *positions)

    def called_by(self, chosen: Mask) -> Mask:
        """The operators that a ``chosen`` one calls itself."""
        mask: Mask = (self.caller != NONE) & chosen[self.caller]
        return mask

    def within(self, chosen: Mask) -> Mask:
        """The ``chosen`` operators, and everything they call."""
        if not chosen.any():
            return chosen
        # A thread's operators are sorted by start, callers first: whatever begins before the latest
        # end of those chosen so far is inside one.
        return within(self.trace, self.rows, chosen)

    def arguments(self, positions: Int64) -> dict[int, Mapping[str, Any]]:
        """The recorded arguments of the operators at ``positions``. Unknown if there are none."""
        at = {int(self.rows[position]): int(position) for position in positions.tolist()}
        try:
            read = arguments_of(self.trace, np.array(sorted(at), dtype=np.int64))
            return {at[row]: arguments for row, arguments in read}
        except TraceError as problem:
            raise UnknownError("the trace does not number its operators") from problem

    def numbers(self, positions: Int64) -> dict[int, int]:
        """Torch's numbers of operators and nodes, by position, of those that have one."""
        numbers = {at: given.get(NUMBER) for at, given in self.arguments(positions).items()}
        return {at: one for at, one in numbers.items() if isinstance(one, int) and one >= 0}

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
    idle: int = 0
    """Idle time of the GPU while the host is in them, ns."""
    row: int = NONE
    """Row of the longest of them; NONE without any."""

    def longest_of(self, *names: str) -> str:
        """The one of these phases with most of it."""
        return max(names, key=lambda name: int(self.by_phase[PHASES.index(name)]))

    def times(self, share: float) -> Work:
        """So many times as much work."""
        by_phase = np.rint(self.by_phase * share).astype(np.int64)
        return Work(by_phase, round(self.calls * share), round(self.idle * share), self.row)


def work_of(ops: Operators, mine: Mask, counted: Mask | None = None) -> Work:
    """The own time of ``mine``, and how many of them are ``counted``."""
    calls = 0 if counted is None else int(np.count_nonzero(mine & counted))
    idle = int(ops.device.idle[mine].sum()) if ops.device else 0
    row = int(ops.rows[np.argmax(np.where(mine, ops.own, NONE))]) if mine.any() else NONE
    by_phase = sums(ops.phase[mine], ops.own[mine], len(PHASES))
    return Work(by_phase, calls // max(ops.steps.steps, 1), idle, row)


@dataclass(frozen=True)
class StepTime:
    """Time of some operators in a mean step, ns, and the parts of the step it lies in."""

    ns: int
    parts: tuple[str, ...]
    won: int
    """How much shorter the step is without them: less where a GPU waits for the host in any
    case."""


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
    chosen = kinds.operators(trace) & kinds.believable(trace)
    if steps is None or not chosen.any():
        raise UnknownError("the trace shows no operators")
    steps = steps.first(chosen)
    rows, caller, own = called_operators(trace, chosen & begun_in(trace, steps.on_host))
    phases = find_phases(trace)
    phase = part_of_rows(trace, [phases.get(name, EMPTY) for name in PHASES])[rows]
    phase[phase == NONE] = PHASES.index(OTHER)
    of_steps = {name: intersect(part, steps.on_host) for name, part in phases.items()}
    of_steps[OTHER] = subtract(steps.on_host, unite(EMPTY, *of_steps.values()))
    if not steps.has_gpu:
        return Operators(steps, of_steps, rows, own, caller, phase)
    own, device = _on_device(steps, rows, caller, of_steps)
    return Operators(steps, of_steps, rows, own, caller, phase, device)


def _on_device(
    steps: TraceSteps, rows: Int64, caller: Int32, phases: Mapping[str, Intervals]
) -> tuple[Int64, OnDevice]:
    """Computing that each of ``rows`` launched, ns, and the rest of the GPU's time."""
    trace, links = steps.analysis.trace, link(steps.analysis.trace)
    computes = steps.on_device & ~kinds.communication(trace) & ~trace.in_category(MEMCPY)
    mine = computes[links.activity]
    activity, launch = links.activity[mine], links.launch[mine]
    # What runs while something older runs adds only what is left when that is over.
    start, end = trace.start[activity], trace.ends_of(activity)
    reach = np.maximum.accumulate(np.concatenate([[0], end[:-1]])) if len(end) else end
    taken = np.maximum(end - np.maximum(start, reach), 0)
    position = np.full(len(trace) + 1, NONE, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    by = position[links.operator[mine]]
    known = by != NONE
    own = sums(by[known], taken[known], len(rows))
    launched = begun_in(trace, steps.on_host)[launch]
    elsewhere = ~known & np.where(launch == NONE, steps.inside[activity], launched)
    idle = intersect(idle_of_host(steps.analysis), steps.times)
    times, left = np.zeros(len(rows), dtype=np.int64), idle
    launching = np.flatnonzero(np.bincount(trace.track[launch[launch != NONE]]))
    for track in dict.fromkeys((main_track(trace), *launching.tolist())):
        here = np.flatnonzero(trace.track[rows] == track)
        begin, stop, innermost = _innermost(trace, rows, caller, here)
        times += sums(innermost, left.within(begin, stop), len(rows))
        left = subtract(left, union(begin, stop))
    between = [intersect(left, phases.get(name, EMPTY)).total for name in PHASES]
    unknown = int(taken[elsewhere].sum())
    computing = int(own.sum()) + unknown
    return own, OnDevice(times, np.array(between, dtype=np.int64), computing, unknown)


def _innermost(trace: Trace, rows: Int64, caller: Int32, here: Int64) -> tuple[Int64, Int64, Int64]:
    """Starts and ends of intervals of one thread, and the position of the innermost operator in
    each; ``here`` are the positions of its operators."""
    end, longer = trace.ends_of(rows), True
    while longer:
        # By rounding, what an operator calls may end later.
        until = np.where(caller == NONE, end, np.minimum(end, end[caller]))
        longer, end = bool((until < end).any()), until
    here = here[end[here] > trace.start[rows[here]]]
    times = np.concatenate([trace.start[rows[here]], end[here]])
    within_it = np.concatenate([here, caller[here]]).astype(np.int64)
    # At one time, inner operators end before outer ones, and then outer ones begin before inner.
    order = np.lexsort((np.concatenate([here, -here - 1]), times))
    times, within_it = times[order], within_it[order]
    begin, stop, within_it = times[:-1], times[1:], within_it[:-1]
    some = (stop > begin) & (within_it != NONE)
    return begin[some], stop[some], within_it[some]


MOSTLY = 0.5
"""Share of a GPU's computing that known operators launch, from which operators are judged."""


def judged_operators(facts: Facts, *, whole: bool = False) -> tuple[Operators, JudgedStep]:
    """Operators of a training, and the step they are part of; with ``whole`` also all operators of
    a trace alone without known steps. Not applicable if nothing shows the operators: ``healthy``
    reports that for all callers. Unknown if nothing shows what launched the kernels of a GPU."""
    of_trace = all_operators if whole and not facts.run else operators
    judged = judged_step.or_none(facts)
    if judged is None:
        raise NotApplicableError
    if not judged.on_device:
        ops = of_trace.or_none(facts)
        if ops is not None:
            return ops, judged
        raise UnknownError("no window has been profiled") if has_gpu(facts) else NotApplicableError
    ops = of_trace(facts)
    if ops.device is None or ops.device.unknown > MOSTLY * ops.device.computing:
        raise UnknownError("the trace does not show which operators launched the kernels")
    return ops, judged


def in_step(ops: Operators, judged: JudgedStep, work: Work) -> StepTime:
    """Time of the mean step in operators that do ``work`` in all steps of the trace: on the CPU in
    each phase the trace's share of it, on a GPU of its computing and of its idle time."""
    if ops.device is not None and judged.on_device:
        of_all = int(work.by_phase.sum()) / max(ops.device.computing, 1)
        computing = round(judged.part(COMPUTE) * min(of_all, 1.0))
        idle = idle_in_step(ops, judged, work.idle)
        named = (*((COMPUTE,) if computing else ()), *(HOST_AT_WORK if idle else ()))
        busy = min((1 - sum(map(judged.part, IDLE_PARTS)) / judged.of.mean) / FULLY_BUSY, 1.0)
        return StepTime(
            min(computing + idle, judged.of.mean),
            tuple(part for part in named if judged.part(part)),
            min(round(computing * busy) + idle, judged.of.mean),
        )
    total, parts = 0, []
    shares = phase_shares.or_none(Facts(None, ops.steps.analysis)) or {}
    for name, mine in zip(PHASES, work.by_phase.tolist(), strict=True):
        # Waits for values are a part of their own, outside the phase here.
        reading = shares[name].reading if name in shares else 0.0
        length = round(ops.during(name).total * (1 - reading))
        of_phase = (name, f"{PYTHON_IN}{name}", *((LOSS,) if name == OTHER else ()))
        here = sum(judged.part(part) for part in of_phase)
        if length and mine and here:
            total += round(here * min(mine / length, 1.0))
            parts += [part for part in of_phase if judged.part(part)]
    total = min(total, judged.of.mean)
    return StepTime(total, tuple(parts), total)


FULLY_BUSY = 0.80
"""Share of the step from which a GPU's time is the step's; gpu-idle calls it then well used."""


def idle_in_step(ops: Operators, judged: JudgedStep, idle: int) -> int:
    """``idle`` ns of all steps of the trace as a part of the mean step: the profiler slows the
    host, and so prolongs idle time."""
    steps = ops.steps
    recorded = sum(steps.part(name) for name in IDLE_PARTS) * max(steps.steps, 1)
    scale = sum(judged.part(name) for name in IDLE_PARTS) / recorded if recorded else 0.0
    return round(idle * min(scale, 1 / max(steps.steps, 1)))


def of_phases(ops: Operators, *names: str) -> Work:
    """All operators of these phases."""
    return work_of(ops, ops.in_phase(*names))


SHORT_NS = 20_000
"""ns below which a call of an operator on the CPU computes little: without the profiler, one core
multiplied 1 x 128 by 128 x 128 in 3 us, 32 x 128 in 14 and 256 x 128 in 86."""

MANY_CALLS = 100
"""Calls of a step from which what each costs adds up."""


MANY_GROUPS = 20
"""Groups of an optimizer from which more than one for two tensors are more than layers need."""


def fewer_calls(facts: Facts, phase: str = "") -> str:
    """What to do where an optimizer, in its ``phase``, works on nearly each tensor by itself since
    each has a group of its own, or where short calls take most of the operators' time on the CPU;
    empty elsewhere."""
    for one in settings(facts).optimizers or ():
        groups, tensors = one.groups or 0, one.parameters or 0
        if phase == OPTIMIZER and groups >= max(MANY_GROUPS, tensors / 2):
            return (
                f"one group for all parameters with the same options: {one.class_name} has "
                f"{groups} groups for {tensors} tensors, and works on one after the other"
            )
    ops = operators.or_none(facts)
    if ops is None or ops.device is not None:
        return ""
    short = ops.duration < SHORT_NS
    calls = int(np.count_nonzero(short)) // ops.steps.steps
    if calls < MANY_CALLS or 2 * int(ops.own[short].sum()) < int(ops.own.sum()):
        return ""
    return (
        f"a larger batch, or fewer and larger operators: {calls} calls of a step take less than "
        f"{fmt.duration(SHORT_NS)} each, which is most of the operators' time"
    )


WEIGHTED = re.compile(
    r"aten::(addmm|mm|bmm|convolution|mkldnn_rnn_layer|_cudnn_rnn|native_layer_norm)$"
)


WEIGHTED_NODE = re.compile(
    r"(Addmm|Mm|Bmm|Convolution|MkldnnRnnLayer|CudnnRnn|NativeLayerNorm)Backward\d*$"
)


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
    trace = ops.trace
    weighted = ops.named(WEIGHTED.match) & ops.in_phase(FORWARD)
    nodes = ops.named(WEIGHTED_NODE.match)
    if not nodes.any() or np.count_nonzero(weighted) < TWICE * np.count_nonzero(nodes):
        return work_of(ops, ops.at())
    marks = np.flatnonzero(kinds.marked(trace, FORWARD))
    top = ops.top_by_start
    start = trace.start[ops.rows]
    first = np.searchsorted(start[top], trace.start[marks])
    last = np.searchsorted(start[top], trace.ends_of(marks))
    passes = [top[begin:end] for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
    alike: dict[tuple[int, bytes], list[Int64]] = {}
    for forward in passes:
        step = ops.step_at(int(start[forward[0]])) if len(forward) else None
        if step is not None:
            alike.setdefault((step.index, ops.name[forward].tobytes()), []).append(forward)
    with_backward = np.count_nonzero(nodes) / np.count_nonzero(weighted)
    again: list[Int64] = []
    for group in alike.values():
        trained = max(round(len(group) * with_backward), 1)
        if len(group) <= MOST_PASSES * trained:
            again += group[trained:]
    mine = ops.at(*again)
    return work_of(ops, ops.within(mine), mine)
