"""The GPU idles because of the host: it waits for the GPU first, or launches too slowly."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.model import Gap, GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gap_places import most_common, place_of
from perftui.facts.gpu import device_steps
from perftui.facts.launches import Launches, launches
from perftui.facts.place import Place
from perftui.facts.sync_calls import SyncCalls, syncs
from perftui.facts.trace_steps import TraceSteps

LAUNCH_KERNELS = 100
"""Fewest kernels a step; nsys-ai."""

LAUNCH_KERNEL_NS = 10_000
"""Median kernel below this: a launch takes 5 to 10 µs of host time, so shorter kernels end before
the next one is there. nsys-ai and TraceLens use 10 µs."""

LAUNCH_EMPTY_QUEUE = 0.5
"""Share of launches that find nothing queued or running on the device: most of them."""

_SHOWN_CALLS = 3
"""Calls listed, where they were counted; the report has more of them."""

_SHOWN_GAPS = 3
"""Places listed: the longest gaps; all of them are in the timeline."""


def _synchronising(facts: Facts) -> Lost | None:
    trace = device_steps(facts)
    idle = trace.part(GapCause.SYNCHRONISATION.value)
    if idle / trace.step_ns < SYNC.limits.warning:
        return None
    gaps = trace.gaps(GapCause.SYNCHRONISATION)
    counted = syncs(facts)
    counted = counted if counted and counted.on_gpu else None
    describe = fmt.part_of_step if trace.steps else fmt.part_of_trace
    share = round(100 * idle / trace.step_ns, 1)
    return Lost(
        idle,
        trace.breakdown,
        f"The GPU idles {describe(idle, trace.step_ns)} because the host "
        f"waited for it first{_where(gaps, trace, counted)}.",
        (
            Figure("device idle after synchronising", share, "%", 100 * SYNC.limits.warning),
            Figure("mean idle", idle, "ns"),
            Figure("gaps", len(gaps), "count")
            if trace.lists_all_gaps
            else Figure("gaps", f"at least {len(gaps)}"),
            Figure("steady steps", trace.steps, "count"),
            *_longest(gaps, trace),
            *_calls(counted, facts),
        ),
    )


def _where(gaps: list[Gap], trace: TraceSteps, counted: SyncCalls | None) -> str:
    if counted is not None and counted.calls:
        return f" ({counted.calls[0].short})"
    places = [place_of(gap, trace) for gap in gaps]
    source = most_common(place.source for place in places)
    operator = most_common(place.operator for place in places)
    named = operator and (f"{operator} at {source}" if source else operator)
    return f" ({named})" if named else ""


def _longest(gaps: list[Gap], trace: TraceSteps) -> Iterator[Figure]:
    for gap in gaps[:_SHOWN_GAPS]:
        place = place_of(gap, trace)
        yield Figure(place.source or place.operator or "gap", gap.duration, "ns", place=place)


def _calls(counted: SyncCalls | None, facts: Facts) -> Iterator[Figure]:
    """The lines that wait longest, with that time in each step."""
    if counted is None:
        return
    for call in (call for call in counted.calls[:_SHOWN_CALLS] if call.time >= 0):
        place = Place(rank=facts.rank_number, operator=call.call, file=call.file, line=call.line)
        yield Figure(f"{call.call}, a step", call.time // counted.steps, "ns", place=place)


def _launching(facts: Facts) -> Lost | None:
    trace = device_steps(facts)
    if trace.steps == 0:
        raise UnknownError("the trace marks no steps, so kernels a step cannot be counted")
    found = launches(trace.analysis)
    idle = trace.part(GapCause.LAUNCH.value)
    if found is None:
        return None
    empty = round(100 * (found.empty_queue or 0.0), 1)
    share = round(100 * idle / trace.step_ns, 1)
    return Lost(
        idle,
        trace.breakdown,
        f"The GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches: "
        f"{found.kernels_per_step} kernels a step, "
        f"half of them no longer than {fmt.duration(found.median_ns)}.",
        (
            Figure("device idle, launching", share, "%", 100 * LAUNCH.limits.warning),
            Figure("kernels a step", found.kernels_per_step, "count", LAUNCH_KERNELS),
            Figure("median kernel", found.median_ns, "ns", LAUNCH_KERNEL_NS),
            Figure("launches into an empty queue", empty, "%", 100 * LAUNCH_EMPTY_QUEUE),
            Figure("steady steps", trace.steps, "count"),
        ),
        doubt=_other_than_short_kernels(found, idle, trace),
    )


def _other_than_short_kernels(found: Launches, idle: int, trace: TraceSteps) -> str:
    """What speaks against launching as the cause, empty where nothing does."""
    if found.empty_queue is None:
        return "the kernels' launches are not in the trace"
    if found.kernels_per_step < LAUNCH_KERNELS:
        but = f"a step has only {fmt.several(found.kernels_per_step, 'kernel')}"
    elif found.median_ns >= LAUNCH_KERNEL_NS:
        but = f"half of its kernels last {fmt.duration(found.median_ns)} or more"
    elif found.empty_queue < LAUNCH_EMPTY_QUEUE:
        but = "its queue is seldom empty"
    else:
        return ""
    waits = f"the GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches"
    return f"{waits}, yet {but}: no rule says why"


SYNC = Rule(
    id="sync-bound",
    when="the host waits for the GPU, then the GPU for the host",
    explanation=(
        "A call such as .item() or a blocking copy waits until the GPU has done all it was given. "
        "By then its queue is empty, and it idles until the host has launched more. Read values "
        "every N steps, keep them on the device, or wait once at the end of the step."
    ),
    lost=_synchronising,
    limits=Limits(0.05, 0.20, "TraceLens speaks of exposed time from 5 %."),
    claims=Claim(idle=GapCause.SYNCHRONISATION),
    answer="read values every N steps, keep them on the GPU",
)

LAUNCH = Rule(
    id="launch-bound",
    when="the GPU idles while many short kernels are launched",
    explanation=(
        "The host takes longer to launch a kernel than the GPU to run it. Fewer, longer kernels "
        "help: torch.compile, CUDA graphs, foreach or fused optimizers, a larger batch."
    ),
    lost=_launching,
    limits=Limits(0.10, 0.20, "A fifth of the step is critical, as for data."),
    claims=Claim(idle=GapCause.LAUNCH),
    answer="torch.compile, CUDA graphs, fused optimizers, larger batches",
)
