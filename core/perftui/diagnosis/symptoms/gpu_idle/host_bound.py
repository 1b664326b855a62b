"""The GPU idles because the host is late: with its launches, or after it waited for the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis.gpu_idle.gaps import lists_all
from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, rule
from perftui.diagnosis.symptoms.script.python_bound import python_bound, script_python
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.host_waits import HostWaits, SyncCalls, host_waits, syncs
from perftui.facts.gpu.idle import (
    gap_place,
    idle_steps,
    longest_named,
    per_step,
    rows_place,
    window_step,
)
from perftui.facts.gpu.kernels import kernels_begun
from perftui.facts.place import Place
from perftui.facts.question import Evidence, Question
from perftui.facts.script.looks import anomaly_checks
from perftui.facts.source.lines import main_thread
from perftui.facts.source.operator_lines import forward_lines, idle_place, with_line
from perftui.facts.source.stack_profile import moments
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import TraceSteps, gpu_steps, host_code, trains
from perftui.run.columns import FORWARD
from perftui.trace.model import KERNEL, NONE, Int64

MANY_KERNELS = 100
"""Kernels per step from which their number takes the host's time; nsys-ai."""

BACKWARD = "_engine_run_backward"
"""Torch's function that runs a backward pass."""

MOSTLY_GRAPHS = 0.5
"""Share of kernels in CUDA graphs from which the rest is only a hint: the usual fix is in use."""

LEAST = 0.10
"""Share of the step from which it is reported."""

LEAST_HALF = 0.2
"""Share of launching and Python together from which either is a half of one cause: the host that is
late. With less, the other is the cause."""

SHORT_KERNEL = 10_000
"""ns below which a kernel ends before the next one is launched: a launch takes 5 to 10 us of the
host. nsys-ai and TraceLens use 10 us."""


@dataclass(frozen=True)
class Launches:
    """How kernels were launched on a device."""

    kernels_per_step: int
    median_ns: int
    """Median duration of a kernel."""
    empty_queue: float | None
    """Share of linked launches with nothing running on the device; None without links."""
    in_graphs: float
    """Share of linked kernels launched together with others, by a CUDA graph."""


@trace_fact
def launches(analysis: TraceAnalysis) -> Launches | None:
    """Launches of the busiest device in the steady steps; None if it ran no kernel there."""
    trace = analysis.trace
    durations = np.sort(trace.duration[kernels_begun(analysis)])
    if not len(durations):
        return None
    links, steps = link(trace), gpu_steps(analysis)
    mine = steps.on_device[links.activity]
    rows, launch = links.activity[mine], links.launch[mine]
    # Activities of a device are ordered by start: the running maximum of their ends is when the
    # device, over all its streams, has finished everything before.
    ends = np.maximum.accumulate(trace.ends_of(rows))
    earlier = np.concatenate(([np.iinfo(np.int64).min], ends[:-1]))
    # Marks that the profiler copies onto the device's tracks span whole steps: they are no work.
    chosen = (trace.in_category(KERNEL) & steps.inside)[rows] & (launch != NONE)
    earlier, launch = earlier[chosen], launch[chosen]
    kernels_of = np.unique(launch, return_counts=True)[1]
    return Launches(
        kernels_per_step=len(durations) // max(steps.steps, 1),
        median_ns=int(durations[(len(durations) - 1) // 2]),
        empty_queue=float(np.mean(earlier <= trace.start[launch])) if len(launch) else None,
        in_graphs=float(kernels_of[kernels_of > 1].sum() / max(len(launch), 1)),
    )


@rule(
    when="the GPU idles while the host prepares the next launch",
    limits=Limits("gpu-idle calls a GPU well used from 80 %.", 0.25, 0.40, info=LEAST),
    claims=Claim(idle=GapCause.LAUNCH),
    fixes=("compile", "compile-graphs"),
    answer=(
        "launch fewer, longer kernels: torch.compile, CUDA graphs, foreach or fused optimizers, "
        "larger batches"
    ),
)
def launch_bound(facts: Facts) -> Lost | None:
    """Launching a kernel takes longer than running it. The time goes to operators, to the calls
    that enqueue kernels, and to the Python between them."""
    trace, judged = idle_steps(facts), judged_step(facts)
    late, step = _late(facts), judged.of
    idle = sum(late.values())
    counts = launches(trace.analysis)
    if counts is None or idle < LEAST * step.mean:
        return None
    which = "a step" if trace.steps else "in all"
    half = "half of them no longer than" if counts.kernels_per_step > 1 else "of"
    code = host_code(trace.analysis)
    python = f" and while the host runs {code}, with nothing queued" if len(late) > 1 else ""
    return Lost(
        idle,
        step,
        f"The GPU idles {step.part_of(idle)} between launches{python}: "
        f"{fmt.several(counts.kernels_per_step, 'kernel')} {which}, "
        f"{half} {fmt.duration(counts.median_ns)}.",
        (
            *(Figure(f"device idle, {name}", ns, "ns") for name, ns in late.items() if python),
            *_figures(counts, which, trace.steps),
        ),
        label="device idle, launching",
        parts=tuple(late),
        place=with_line(facts, _launching_place(facts, trace), forward_lines.or_none(facts)),
        worst=Severity.INFO if counts.in_graphs >= MOSTLY_GRAPHS else Severity.CRITICAL,
        advice=_advice(counts, is_training=facts.run is not None or trains(facts)),
    )


def _late(facts: Facts) -> Mapping[str, int]:
    """Idle time in which the host is late, by part, ns: with its launches, and with the Python in
    between, if that is a half of the same cause and no other rule reports it."""
    judged = judged_step(facts)
    launch, python = (judged.part(cause.value) for cause in (GapCause.LAUNCH, GapCause.PYTHON))
    own = script_python.or_none(facts)
    if own is not None and own.ns >= (python_bound.limits.info or 0) * judged.of.mean:
        python = 0
    if min(launch, python) < LEAST_HALF * (launch + python):
        return {GapCause.LAUNCH.value: launch}
    return {GapCause.LAUNCH.value: launch, GapCause.PYTHON.value: python}


def _launching_place(facts: Facts, trace: TraceSteps) -> Place | None:
    """The line of the forward pass, if samples show only the backward pass, which launches what the
    forward pass called."""
    place, lines = idle_place(facts, GapCause.LAUNCH, trace), main_thread(facts)
    launching = next(iter(lines.lines), None) if lines else None
    if place is None or launching is None or BACKWARD not in launching.inner:
        return place
    if (place.file, place.line) != (launching.file, launching.line):
        return place
    stacks = moments(facts)
    forward = stacks.lines(stacks.stage == FORWARD) if stacks else None
    if forward is None or not forward.suffices or not forward.lines[0].file:
        return place
    return facts.at(forward.lines[0])


def _figures(counts: Launches, which: str, steps: int) -> Iterator[Figure]:
    yield Figure(f"kernels {which}", counts.kernels_per_step, "count")
    yield Figure("median kernel", counts.median_ns, "ns")
    if counts.empty_queue is not None:
        yield Figure.share("launches into an empty queue", counts.empty_queue)
    if counts.in_graphs:
        yield Figure.share("kernels launched by CUDA graphs", counts.in_graphs)
    yield Figure("profiled steps", steps, "count")


def _advice(counts: Launches, *, is_training: bool) -> str:
    """Advice by the number and the length of the kernels."""
    if counts.in_graphs >= MOSTLY_GRAPHS:
        return "move the remaining launches into the CUDA graphs"
    if counts.median_ns >= SHORT_KERNEL:
        return "use torch.compile for less host work per launch"
    if counts.kernels_per_step >= MANY_KERNELS:
        fused = ", fused optimizers" if is_training else ""
        return f"use CUDA graphs, torch.compile{fused} or larger batches"
    return "use a larger batch, or several steps in a CUDA graph"


_NEAR = (GapCause.SYNCHRONISATION.value, GapCause.LAUNCH.value)
"""Parts of the step in which the device waits for a host that has waited for it. Python that runs
meanwhile is a cause of its own."""

_SHOWN_CALLS = 3
"""Calls listed, if counted; the report has more of them."""

_NAMED_GAPS = 100
"""Number of longest gaps searched for the operator."""

_SYNCHRONIZE = re.compile(r"(Device|Ctx|Event)Synchronize")
"""Calls that wait because they are asked to, not for a copy."""

_SHOWN_GAPS = 3
"""Places listed, of the longest gaps; the timeline has all."""


@rule(
    when="the host waits for the GPU, then the GPU for the host",
    limits=Limits(),
    claims=Claim(idle=GapCause.SYNCHRONISATION),
    answer="keep values on the GPU, and read them every N steps or at the end of the step",
)
def sync_bound(facts: Facts) -> Lost | None:
    """A call such as .item(), print(loss), nonzero or a condition on a tensor waits until the GPU
    has finished all queued work. Then the GPU waits for the next launch."""
    trace = idle_steps(facts)
    waits, step = host_waits(facts), window_step(facts)
    values, checks = np.flatnonzero(waits.reads), anomaly_checks.or_none(facts)
    if checks is not None:
        # The script does not read these.
        values = values[~np.isin(waits.rows[values], checks[0])]
    counted = syncs(facts)
    counted = counted if counted and counted.on_gpu else None
    judged = judged_step(facts)
    names = {trace.analysis.trace.name_of(row) for row in waits.rows[values].tolist()}
    # Without steps, one that only synchronizes may do so once, after what is measured: nothing
    # shows that without it the host would have been ahead.
    is_asked = not trace.steps and all(map(_SYNCHRONIZE.search, names))
    near = _NEAR[:1] if is_asked else _NEAR
    cost = min(_cost(facts, waits, values, counted), sum(map(judged.part, near)))
    share = cost / step.mean if step.mean else 0.0
    if not len(values) or share < sync_bound.limits.warning:
        return None
    gaps = trace.gaps(GapCause.SYNCHRONISATION)
    number = len(values) // max(trace.steps, 1)
    place, where = _waiting_place(facts, waits.rows[values], gaps, trace, counted)
    often = f" {fmt.several(number, 'time')} a step" if trace.steps and number > 1 else ""
    longest = [(gap, gap_place(gap, trace)) for gap in gaps[:_SHOWN_GAPS]]
    return Lost(
        cost,
        step,
        f"{f'{where} makes the CPU wait' if where else 'The CPU waits'} for the GPU{often}; "
        f"the GPU then idles {step.part_of(cost)}.",
        (
            Figure("mean idle", cost, "ns"),
            *((Figure("waits a step", number, "count"),) if trace.steps else ()),
            Figure("gaps", len(gaps), "count")
            if lists_all(trace.analysis.gaps, trace.device)
            else Figure("gaps", f"at least {len(gaps)}"),
            Figure("profiled steps", trace.steps, "count"),
            *(
                Figure(place.source or place.operator or "gap", gap.duration, "ns", place=place)
                for gap, place in longest
            ),
            *_calls(counted, facts),
        ),
        label="device idle after synchronising",
        place=place,
        parts=near,
        advice=_waiting_advice(facts, place.operator, gaps),
        question=None
        if counted or place.file
        else Question(Evidence.SYNCS, "which lines wait for the GPU", share),
    )


def _cost(facts: Facts, waits: HostWaits, values: Int64, counted: SyncCalls | None) -> int:
    """Cost of the waits; counted calls include the Python around the operator."""
    steps = max(waits.steps.steps, 1)
    lasting = int(waits.lasting[values].sum())
    caused = int(waits.cost[values].sum())
    if counted is not None and caused == lasting:
        timed = sum(max(call.time, 0) for call in counted.calls) * steps // counted.steps
        caused = min(max(caused, timed), waits.idle)
    return per_step(facts, caused)


def _waiting_place(
    facts: Facts, rows: Int64, gaps: list[Gap], trace: TraceSteps, counted: SyncCalls | None
) -> tuple[Place, str]:
    """Where the host waits, and that in words."""
    if counted is not None and counted.calls:
        call = counted.calls[0]
        return facts.at(call, call.call), call.short
    place = rows_place(facts, rows, longest_named(gaps[:_NAMED_GAPS], trace))
    return place, f"{place.operator}{place.at}" if place.operator else ""


def _waiting_advice(facts: Facts, call: str | None, gaps: list[Gap]) -> str:
    """What to do about waits that read no values, and where nothing trains."""
    if (
        gaps
        and gaps[0].previous_row == NONE
        and 2 * gaps[0].duration > sum(gap.duration for gap in gaps)
    ):
        return "record later: the wait is that before the first kernel"
    if call and _SYNCHRONIZE.search(call):
        return "remove synchronize(), or call it once, at the end"
    if facts.run is not None or trains(facts):
        return ""
    return "keep values on the GPU, and read them together at the end"


def _calls(counted: SyncCalls | None, facts: Facts) -> Iterator[Figure]:
    """The lines that wait longest, with their time per step."""
    if counted is None:
        return
    for call in (call for call in counted.calls[:_SHOWN_CALLS] if call.time >= 0):
        time, place = call.time // counted.steps, facts.at(call, call.call)
        yield Figure(f"{call.call}, a step", time, "ns", place=place)
