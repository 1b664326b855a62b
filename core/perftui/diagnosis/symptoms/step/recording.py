"""Limits of a trace: recorded while the training warmed up, or without all of the device's work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import SETS_UP, initialising, main_track
from perftui.analysis.intervals import intersect
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps import OPERATORS, OTHER, step_source
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, rule, without_cost
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.gpu.idle import gap_place, idle_steps, rows_place
from perftui.facts.place import Place
from perftui.facts.source.operator_lines import idle_place
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import (
    INCOMPLETE,
    Missing,
    complete,
    lacks_end,
    missing,
    trace_steps,
    unrecorded_gpu,
)
from perftui.trace.model import NONE, Trace

LEAST_JUDGED = 1 / 3
"""Share of a recording from which unmarked steps stand for it."""

MUCH = 1 / 3
"""Share of first uses from which a recording mostly shows them, if no other cause of idle time is
larger."""


def _mostly_first_uses(analysis: TraceAnalysis) -> Lost | None:
    """First uses in a recording whose steps are derived from their rhythm and are little of it;
    None if it is judged whole, its steps are marked, or something else is more."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.steps or not step_source(trace, analysis.steps):
        return None
    near = np.flatnonzero(kinds.believable(trace))
    whole = int(trace.ends_of(near).max() - trace.start[near].min())
    judged = steps.step_ns * steps.steps
    idle = {time.cause: time.total for time in analysis.idle if time.device == steps.device}
    first = idle.get(GapCause.INITIALISATION, 0)
    if judged >= LEAST_JUDGED * whole or first < max(MUCH * whole, *idle.values()):
        return None
    complete(analysis)
    # Of the whole recording, as the steps are little of it.
    step = StepBreakdown(0, whole, (), whole, whole, whole, usual=whole, of_run=False)
    return Lost(
        first,
        step,
        f"The GPU idles {step.part_of(first)} while the driver and libraries load code and "
        "initialize: the recording is mostly first calls, and only "
        f"{fmt.percent(judged / whole)} of it is steady steps.",
        (
            Figure.share("device idle, initialisation", first / whole, 0.10),
            Figure("profiled steps", steps.steps, "count"),
        ),
    )


FAR_LONGER = 10
"""Ratio of a first call that sets something up to its operator's longest later call: calls with
different layer sizes seldom differ by so much."""

_NEARLY = 0.9


def _first_calls(analysis: TraceAnalysis) -> Lost | None:
    """First calls of PyTorch's operators that take far longer than all later ones, by the host
    alone; None without any, and if a GPU was recorded or none is used."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not unrecorded_gpu(analysis):
        return None
    rows = np.array(list(_standing_out(trace)), dtype=np.int64)
    if not len(rows):
        return None
    covered = intersect(kinds.busy(trace, rows), steps.on_host)
    # The innermost operator that takes nearly all of the longest first call.
    longest = rows[trace.duration[rows] >= _NEARLY * trace.duration[rows].max()]
    operator = trace.name_of(int(longest[np.argmax(trace.start[longest])]))
    step, time = steps.breakdown, covered.total // max(steps.steps, 1)
    return Lost(
        time,
        step,
        f"First calls of operators take {step.part_of(time)}, far longer than later ones, mainly "
        f"{operator}: the recording shows first calls, not steady steps.",
        (
            Figure.share("in first calls", time / step.mean, 0.10),
            Figure("steady steps", step.count, "count"),
        ),
        place=Place(operator=operator),
    )


def _standing_out(trace: Trace) -> Iterator[int]:
    """Rows of such calls, of operators that are called again."""
    rows = np.flatnonzero(kinds.of_pytorch(trace) & kinds.believable(trace))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    slow = rows[trace.duration[rows] >= SETS_UP]
    for name in np.unique(trace.name[slow]).tolist():
        first, *later = rows[trace.name[rows] == name].tolist()
        far = FAR_LONGER * trace.duration[later].max(initial=0)
        if later and trace.duration[first] >= max(SETS_UP, far):
            yield first


_SHOWN = 3
"""Gaps listed."""

_MOST = 0.99

_VERSIONS = {
    "cuda_driver_version": "CUDA driver",
    "cuda_runtime_version": "CUDA runtime",
    "cupti_version": "CUPTI",
}
"""Metadata fields of a trace, as written by Kineto."""


@rule(
    when="the GPU idles while code is loaded and libraries initialize",
    limits=Limits("As for other idle time.", 0.10, 0.20),
    claims=Claim(idle=GapCause.INITIALISATION),
    answer=(
        "record after the warm-up with torch.profiler.schedule(wait=..., warmup=...), or warm a "
        "service up first"
    ),
)
def initialisation(facts: Facts) -> Lost | None:
    """The first launch of a kernel loads its code, the first call of a library initializes it,
    cudnn.benchmark tries algorithms, and graphs are captured. Such a trace says nothing about later
    steps."""
    if facts.run is None and facts.analysis is not None:
        lost = _first_calls(facts.analysis) or _mostly_first_uses(facts.analysis)
        if lost is not None:
            return lost
    trace, judged = idle_steps(facts), judged_step(facts)
    idle, step = judged.part(GapCause.INITIALISATION.value), judged.of
    if idle < initialisation.limits.warning * step.mean:
        return None
    longest = [gap_place(gap, trace) for gap in trace.gaps(GapCause.INITIALISATION)[:_SHOWN]]
    gaps = (
        Figure(place.operator or "gap", place.end - place.start, "ns", place=place)
        for place in longest
        if place.start is not None and place.end is not None
    )
    return Lost(
        idle,
        step,
        f"The GPU idles {step.part_of(idle)} while the driver and libraries load code and "
        "initialize: the recording shows first calls, not steady steps.",
        (
            Figure.share("device idle, initialisation", idle / step.mean, 0.10),
            *gaps,
            Figure("profiled steps", trace.steps, "count"),
        ),
        place=idle_place(facts, GapCause.INITIALISATION, trace),
    )


_NAMED = 2
"""Calls named in the sentence."""


@rule(
    when="calls of the driver take much of a trace whose kernels are missing",
    limits=Limits("As for other idle time.", 0.15, 0.25),
    answer=(
        "use smaller batches where memory is nearly full, remove empty_cache(), or set expandable "
        "segments"
    ),
)
def host_calls(facts: Facts) -> Lost | None:
    """cudaMalloc and cudaFree in each step mean that PyTorch's cache does not serve them. If the
    host waits for the GPU, the GPU is the limit, or values are read too often."""
    # The calls of the driver with most time of the host, of those that wait for the device and
    # those that get memory or return it, in a trace whose kernels are missing.
    steps = trace_steps(facts) if facts.run is None and facts.analysis is not None else None
    if steps is None or steps.has_gpu:
        raise NotApplicableError
    trace = steps.analysis.trace
    called = kinds.launches(trace) & kinds.believable(trace) & begun_in(trace, steps.on_host)
    called &= (trace.track == main_track(trace)) & ~initialising(trace)
    works = trace.start[kinds.operators(trace) | (called & ~kinds.synchronising(trace))]
    # At the end of a recording the profiler itself waits.
    called &= trace.start <= works.max(initial=0)
    by_kind = [np.flatnonzero(called & of(trace)) for of in (kinds.allocating, kinds.synchronising)]
    times = [kinds.busy(trace, rows).total for rows in by_kind]
    waits = times[1] > times[0]
    rows, count = by_kind[waits], max(steps.steps, 1)
    if not max(times):
        raise NotApplicableError
    by_name = np.bincount(trace.name[rows], trace.duration[rows], len(trace.names))
    longest = [trace.names[at] for at in np.argsort(-by_name)[:_NAMED].tolist() if by_name[at]]
    step, each, place = steps.breakdown, max(times) // count, rows_place(facts, rows)
    around = rows[np.argmax(trace.duration[rows])]
    while around != NONE and not (kinds.ranges(trace) | kinds.operators(trace))[around]:
        around = trace.parent[around]
    at = place.at or (f" in {trace.name_of(int(around))}" if around != NONE else "")
    why = "waits for the GPU" if waits else "allocates or frees memory"
    calls = fmt.several(len(rows) // count, "call")
    return Lost(
        0 if waits else each,
        step,
        f"The host {why} for {step.part_of(each)}: {calls} of {' and '.join(longest)}{at}.",
        (Figure("the longest call", int(trace.duration[rows].max()), "ns"),),
        place=place,
        share=each / step.mean,
        label="in these calls",
        parts=(OPERATORS, OTHER),
        worst=Severity.WARNING if waits else Severity.CRITICAL,
        advice="record again with GPU activity: the GPU may be the limit" if waits else "",
    )


@rule(
    when="kernels are missing from the trace",
    limits=Limits(
        "Complete traces lose at most 1 in 1000.", INCOMPLETE, 1.0, of="of the launches", info=0.005
    ),
    answer="record again; if kernels are still missing, use another CUDA version",
)
def trace_incomplete(facts: Facts) -> Lost | None:
    """The profiler lost events, or the file ends too early. CUPTI in CUDA 12.6 to 12.9 drops
    kernels at the start of windows (pytorch/pytorch#192021). Idle time is not judged if a twentieth
    is missing, or a tenth on a busy GPU."""
    if facts.analysis is None:
        raise NotApplicableError
    lacks, unseen = missing(facts.analysis), unrecorded_gpu(facts.analysis)
    if lacks_end(facts.analysis):
        return without_cost(
            "The file is cut off before its last kernels: what looks like idle time, or like "
            "Python, may be work that is not in it.",
            (),
            share=_MOST,
            advice="copy the file again; if it was written like that, record again",
        )
    if unseen:
        return without_cost(
            f"{unseen} runs on a GPU, but no GPU activity was recorded: what it does is not known.",
            (Figure.share("missing", _MOST, INCOMPLETE),),
            share=_MOST,
        )
    fields = facts.analysis.trace.metadata
    return without_cost(
        f"{_what(lacks)}: what looks like idle time may be work that was not recorded.",
        (
            Figure.share("missing", lacks.share, INCOMPLETE),
            Figure("kernel launches", lacks.launches, "count"),
            Figure("of them, without a kernel", lacks.lost, "count"),
            Figure("of those, before the first kernel", lacks.first, "count"),
            *(Figure(_VERSIONS[key], str(fields[key])) for key in _VERSIONS if key in fields),
        ),
        # A trace that shows little is a worry, but no loss of the training.
        share=min(lacks.share, _MOST),
        worst=Severity.INFO if lacks.is_little else Severity.CRITICAL,
        advice=""
        if not _may_drop_kernels(facts.analysis.trace)
        else "record again; CUDA 12.6 to 12.9 drop kernels at the start of windows",
    )


def _what(lacks: Missing) -> str:
    if not lacks.lost:
        return f"Work was queued for {fmt.duration(lacks.ahead)} before the first recorded kernel"
    if lacks.lost == lacks.launches:
        return f"None of the {lacks.launches} kernel launches in the trace has its kernel"
    share = fmt.percent(lacks.lost / lacks.launches)
    at_first = ", the first ones" if lacks.first == lacks.lost else ""
    return (
        f"{lacks.lost} of {lacks.launches} kernel launches in the trace ({share}{at_first}) have "
        "no kernel in it"
    )


_OF_CUDA_12_6 = 1_722_470_400 * 10**9
"""August 2024, when CUDA 12.6 was released, in ns since the epoch."""


def _may_drop_kernels(trace: Trace) -> bool:
    """Whether the trace is of CUDA 12.6 to 12.9, or names no version and may be."""
    version = trace.metadata.get("cuda_runtime_version")
    if isinstance(version, int):
        return 12_060 <= version <= 12_090
    is_new = (trace.wall_origin or 0) >= _OF_CUDA_12_6
    return is_new and "hip_runtime_version" not in trace.metadata
