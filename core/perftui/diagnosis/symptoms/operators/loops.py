"""Python loops that call a few small operators again and again, where one call would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps import BACKWARD, OPERATORS, OPTIMIZER, OTHER, find_phases
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.diagnosis.symptoms.operators.work import CpuWork, cpu_work, kernel_work
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows, time_in
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.gpu.idle import device_steps, source_line
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import at, line_of, line_place, part_lines, with_line
from perftui.facts.source.source_calls import loop_of
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import NONE, Int64, Trace

MANY_GROUPS = 50
"""Equal groups of operators in a row: as many as parameters of a small network."""

_LONGEST_GROUP = 8
"""Most operators called for one tensor."""


@dataclass(frozen=True, eq=False)
class ParameterLoop:
    """The longest loops in the steady steps."""

    operators: tuple[str, ...]
    """Operators of one group."""
    groups: int
    """Groups per step."""
    time: int
    """ns of the training thread per step, without phases in between."""
    idle: int
    """ns of ``time`` in which the device waits for the loop."""
    row: int
    """Row of the first operator."""


@trace_fact
def parameter_loop(analysis: TraceAnalysis) -> ParameterLoop | None:
    """A loop that calls the same few operators for one tensor after another, between the phases of
    a step; None without one. Operators that wait for the device are another loss.

    Raises:
        UnknownError: the trace marks no steps.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.steps:
        raise UnknownError("the trace marks no steps")
    phases = [part for name, part in find_phases(trace).items() if name != OPERATORS]
    between = subtract(steps.on_host, unite(*phases))
    rows = _called_in(trace, between)
    first, last, period = max(
        (_repeated(trace, rows, period) for period in range(1, _LONGEST_GROUP + 1)),
        key=lambda run: int((trace.start[run[1]] - trace.start[run[0]]).sum()),
    )
    if not len(first):
        return None
    spans = intersect(union(trace.start[first], trace.ends_of(last)), between)
    at = int(np.searchsorted(trace.start[rows], trace.start[first[0]]))
    waits = set(np.unique(trace.name[kinds.synchronising(trace)]).tolist())
    names = trace.name[rows[at : at + period]].tolist()
    if waits.intersection(names):
        return None
    inside_loops = spans.holds(trace.start[rows])
    return ParameterLoop(
        tuple(trace.names[name] for name in names),
        int(inside_loops.sum()) // period // steps.steps,
        spans.total // steps.steps,
        intersect(spans, idle_of_host(analysis)).total // steps.steps,
        int(first[0]),
    )


def _called_in(trace: Trace, between: Intervals) -> Int64:
    """Operators called directly by the training thread in that time, in order."""
    operators = kinds.operators(trace)
    mine = operators & (trace.track == main_track(trace)) & begun_in(trace, between)
    rows = np.flatnonzero(mine)
    above = trace.parent[rows]
    # Operators of a track are in order of their starts.
    outermost: Int64 = rows[(above == NONE) | ~operators[above]]
    return outermost


def _repeated(trace: Trace, rows: Int64, period: int) -> tuple[Int64, Int64, int]:
    """First and last rows of runs that repeat every ``period`` operators."""
    names = trace.name[rows]
    none = np.zeros(0, dtype=np.int64)
    if len(rows) <= period:
        return none, none, period
    alike = np.concatenate([[False], names[period:] == names[:-period], [False]])
    changes = np.flatnonzero(alike[1:] != alike[:-1])
    begins, ends = changes[::2], changes[1::2]
    long = ends - begins >= (MANY_GROUPS - 1) * period
    return rows[begins[long]], rows[ends[long] + period - 1], period


_SAVED = 0.9
"""Share of a loop's time saved: a few operators for all tensors at once remain."""


def _per_parameter(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    trace = work.kernels.analysis.trace
    cycle = parameter_loop(work.kernels.analysis)
    if cycle is None:
        return None
    idle = work.within(_unprofiled(facts, cycle.idle))
    file, line = source_line(trace, cycle.row)
    loop = loop_of(facts, cycle.operators) if file is None else None
    if loop is not None:
        file, line = loop.file, loop.line
    place = Place(trace_row=cycle.row, operator=trace.name_of(cycle.row), file=file, line=line)
    return Lost(
        round(idle * _SAVED),
        work.of,
        f"The GPU idles {work.of_step(idle)} during a loop that calls {', '.join(cycle.operators)} "
        f"for one tensor at a time, {cycle.groups} times a step.",
        (
            Figure("identical groups of operators", cycle.groups, "count", MANY_GROUPS),
            Figure("the loop on the host, profiled", cycle.time, "ns"),
            work.steps,
        ),
        with_line(facts, place, part_lines(facts, GapCause.LAUNCH.value)),
        (GapCause.LAUNCH.value,),
    )


def _unprofiled(facts: Facts, idle: int) -> int:
    """Idle time of the trace without the profiler, which slows the host."""
    judged, recorded = judged_step(facts), device_steps(facts)
    causes = [cause.value for cause in GapCause]
    of_trace = sum(recorded.part(cause) for cause in causes)
    of_run = sum(judged.part(cause) for cause in causes)
    return idle * min(of_run, of_trace) // of_trace if of_trace else idle


PER_PARAMETER = Rule(
    id="per-parameter-loop",
    when="a loop calls a few operators for one tensor at a time, outside the optimizer",
    explanation=(
        "Weight averaging (EMA), clipping and norms written as a loop over the parameters launch "
        "a few tiny kernels for each. torch._foreach_ functions do it for all tensors at once, as "
        "do torch.nn.utils.clip_grad_norm_ and torch.optim.swa_utils.AveragedModel with "
        "get_ema_multi_avg_fn. The cost is nine tenths of the GPU's idle time during the loop."
    ),
    lost=_per_parameter,
    limits=Limits("The same limit as for other waits that the host causes."),
    fixes=("foreach-average", "clip-grad-norm"),
    answer="torch._foreach_ functions, or those in torch.nn.utils",
)

MANY_TURNS = 50
"""Turns from which a loop in the script goes over the parameters: as many tensors as make an
optimizer slow."""

NAMED = 3
"""Operators of a turn named in the sentence."""

_INDEXING_TEXT = r"\w\[[^\]]+\]|\bfor\b.*\bin\b|\.(select|narrow|index_select|unbind|split)\("


def _per_parameter_on_cpu(facts: Facts) -> Lost | None:
    cpu, all_loops = cpu_work(facts), loops(facts)
    outside = [loop for loop in all_loops if loop.phase == OTHER and not loop.indexing]
    return _lost(cpu, PER_PARAMETER_ON_CPU, [loop for loop in outside if loop.turns >= MANY_TURNS])


def _indexing(facts: Facts) -> Lost | None:
    cpu, all_loops = cpu_work(facts), loops_over_rows(facts)
    return _lost(cpu, INDEXING, [loop for loop in all_loops if loop.phase != OPTIMIZER])


def _lost(cpu: CpuWork, rule: Rule, chosen: Sequence[Loop]) -> Lost | None:
    facts, ops, step = cpu.facts, cpu.operators, cpu.of
    called = [loop for loop in chosen if loop.phase != BACKWARD]
    if not called:
        return None
    time = time_in(ops, cpu.judged, chosen)
    longest = max(called, key=lambda loop: int(loop.taken.sum()))
    pieces = rule is INDEXING
    line = line_of(facts, longest.phase, _INDEXING_TEXT if pieces else "", only=pieces)
    line = line or loop_of(facts, longest.names, pieces=pieces) or line_of(facts, longest.phase)
    calls, part = _what(facts, longest, rule), step.part_of(time.ns)
    turns = "iterations of the longest loop" if longest.is_even else "pieces"
    return Lost(
        time.ns,
        step,
        f"A loop{at(line)} calls {calls}: this takes {part}.",
        (
            Figure(turns, longest.turns, "count"),
            Figure("operators of a step", len(ops.rows) // ops.steps.steps, "count"),
        ),
        label="in the loop",
        place=line_place(facts, line, longest.names[0]),
        parts=time.parts,
    )


def _what(facts: Facts, loop: Loop, rule: Rule) -> str:
    distinct = list(dict.fromkeys(loop.names))
    names = ", ".join(distinct[:NAMED]) + (", ..." if len(distinct) > NAMED else "")
    if not loop.is_even:
        return f"small operators ({names}) for {loop.turns} slices of tensors, one by one"
    count = fmt.several(len(loop.names), "small operator")
    setup = settings(facts) if facts.run else None
    tensors = sum(group.tensors for group in setup.parameters or ()) if setup else 0
    of = " for a slice of a tensor each" if rule is INDEXING else ""
    if rule is PER_PARAMETER_ON_CPU and loop.turns == tensors:
        return f"{count} ({names}) for each of {tensors} parameters"
    return f"{count} ({names}) {loop.turns} times{of}"


_SOURCE = "Certainly avoidable, hence a low limit; a fifth of the step is critical."

PER_PARAMETER_ON_CPU = replace(PER_PARAMETER, lost=_per_parameter_on_cpu, limits=Limits(_SOURCE))

INDEXING = Rule(
    id="loop-of-indexing",
    when="a loop slices tensors and computes piece by piece",
    explanation=(
        "A Python loop over the rows of a batch, time steps or boxes indexes a tensor and calls "
        "small operators on each slice, and the backward pass runs through all of them again. The "
        "calls cost more than their arithmetic: compute on the whole tensor, with masks for what "
        "differs between rows, or use a layer that loops internally (nn.LSTM). Calls longer than "
        "0.1 ms count as arithmetic, not as lost time."
    ),
    lost=_indexing,
    limits=Limits(_SOURCE),
    answer="operators on the whole tensor, torch.vmap, nn.LSTM",
)
