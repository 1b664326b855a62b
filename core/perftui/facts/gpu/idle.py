"""Idle time of the GPU: gaps by cause, the host's line in them, and their part of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.gpu_idle.gaps import lists_all
from perftui.analysis.intervals import Intervals
from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.analysis.ops import call_groups
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact, trace_fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, LineShare, lines_by_time, stack_samples
from perftui.facts.step.judged_step import IDLE_PARTS, judged_step
from perftui.facts.step.steps import StepBreakdown, steady_rows
from perftui.facts.step.trace_steps import TraceSteps, complete, no_kernels, trace_steps
from perftui.run.columns import COLLATE, FETCH
from perftui.run.table import Table
from perftui.trace.model import CPU_OP, NONE, PYTHON, Int64, Mask, Trace


@trace_fact
def gap_times(analysis: TraceAnalysis) -> Mapping[GapCause, Int64]:
    """Devices, starts and ends of the gaps mostly explained by each cause, longest first."""
    groups: dict[GapCause, list[tuple[int, int, int]]] = {}
    for gap in analysis.gaps:
        groups.setdefault(gap.cause, []).append((gap.device, gap.start, gap.end))
    return {cause: np.array(gaps, np.int64).T for cause, gaps in groups.items()}


@trace_fact
def trace_span(analysis: TraceAnalysis) -> tuple[int, int]:
    """Start of the trace's first event and end of its last, ns; zeros without events."""
    trace = analysis.trace
    first = int(trace.start.min(initial=0))
    return first, int(trace.ends_of(slice(None)).max(initial=first))


def gap_place(gap: Gap, steps: TraceSteps) -> Place:
    """Where a gap is: its times, its cause (the wait before it, else what ran on the launching
    thread) and the line of user code."""
    trace, within = steps.analysis.trace, steps.step_at(gap.start)
    step = within.index if within and steps.steps else None
    rows = [gap.wait_row, gap.operator_row, gap.launch_row]
    if gap.wait_row == NONE and _launches_over(trace, gap):
        rows = [gap.launch_row]
    row = next((row for row in rows if row != NONE), NONE)
    operator = trace.name_of(row) if row != NONE else None
    file, line = source_line(trace, row)
    return Place(None, step, gap.start, gap.end, row if row != NONE else None, operator, file, line)


def _launches_over(trace: Trace, gap: Gap) -> bool:
    """Whether the launch takes most of a gap, outside any operator."""
    if gap.launch_row == NONE or int(trace.parent[gap.launch_row]) != gap.operator_row:
        return False
    if trace.categories[int(trace.category[gap.operator_row])] == CPU_OP:
        return False
    start = max(int(trace.start[gap.launch_row]), gap.start)
    end = int(trace.start[gap.launch_row] + trace.duration[gap.launch_row])
    return 2 * (min(end, gap.end) - start) > gap.duration


def source_line(trace: Trace, row: int) -> tuple[str | None, int | None]:
    """Innermost frame of user code above ``row``, in a trace with stacks."""
    while row != NONE:
        if trace.categories[int(trace.category[row])] == PYTHON:
            frame = call_groups.source_line(trace.name_of(row))
            if frame is not None:
                return frame.file, frame.line
        row = int(trace.parent[row])
    return None, None


def longest_named(gaps: Iterable[Gap], steps: TraceSteps) -> str | None:
    """The operator or call of most of the time of ``gaps``; None if all are unknown."""
    times: Counter[str] = Counter()
    for gap in gaps:
        if name := gap_place(gap, steps).operator:
            times[name] += gap.duration
    return max(times, key=lambda name: times[name], default=None)


FEWEST_IN_GAPS = 5
"""Fewest samples in gaps: a single one is one moment of one gap."""

CERTAIN_SAMPLES = 3
"""Sampling intervals from which an interval names a gap inside it: so long a one has no sample
inside once in 20 times (``exp(-3)``), and the samples at its ends agree."""


@dataclass(frozen=True)
class GapLines:
    """Where the main thread was while the GPU idled for one cause."""

    cause: GapCause
    idle: int
    """Total time of those gaps, ns."""
    thread: LinesByTime


@fact
def gap_lines(facts: Facts) -> tuple[GapLines, ...]:
    """Where the main thread was while the GPU idled in the window, by cause, most idle first, as
    far as stack samples show."""
    if facts.analysis is None:
        return ()
    samples = stack_samples(facts)
    of_causes = (
        GapLines(
            cause, int((end - start).sum()), _sampled_within(samples, facts.analysis, start, end)
        )
        for cause, (_, start, end) in gap_times(facts.analysis).items()
    )
    shown = (gaps for gaps in of_causes if gaps.thread.samples >= FEWEST_IN_GAPS)
    return tuple(sorted(shown, key=lambda gaps: -gaps.idle))


def line_of_gap(samples: Sequence[Table], analysis: TraceAnalysis, gap: Gap) -> LinesByTime | None:
    """Where the main thread was in ``gap``; None without a sample in it."""
    thread = _sampled_within(samples, analysis, np.array([gap.start]), np.array([gap.end]))
    return thread if thread.samples else None


def certain(stacks: Table, analysis: TraceAnalysis, origin: int) -> Mask:
    """Intervals within the trace so long that another sample would have fallen between. Before and
    after a window the training waits for the profiler, both times at one line, and what it computed
    in between may have no sample."""
    starts: Int64 = stacks["time"] - origin
    first, last = trace_span(analysis)
    seen = np.minimum(starts + stacks["held"], last) - np.maximum(starts, first)
    return np.asarray(seen >= CERTAIN_SAMPLES * stacks["every"])


def _sampled_within(
    samples: Sequence[Table], analysis: TraceAnalysis, begins: Int64, ends: Int64
) -> LinesByTime:
    """Lines of the gaps, by the table of ``samples`` that saw most of them."""
    options = (_of_gaps(stacks, analysis, begins, ends) for stacks in samples if len(stacks))
    return max(options, key=lambda lines: lines.samples, default=LinesByTime((), 0, 0))


def _of_gaps(stacks: Table, analysis: TraceAnalysis, begins: Int64, ends: Int64) -> LinesByTime:
    """An interval counts for the gap it begins in, from there on, and for gaps inside it if that is
    certain."""
    origin = analysis.trace.wall_origin
    if origin is None:
        return LinesByTime((), 0, 0)
    starts: Int64 = stacks["time"] - origin
    stops: Int64 = starts + stacks["held"]
    every: Int64 = np.maximum(stacks["every"], 1)
    is_certain = certain(stacks, analysis, origin)
    times = np.zeros(len(starts), dtype=np.int64)
    samples = 0
    # Windows are short: a few intervals meet thousands of gaps.
    meets = (stops > begins.min(initial=0)) & (starts < ends.max(initial=0))
    for row in np.flatnonzero(meets).tolist():
        start, end = starts[row], stops[row]
        covers = (begins <= start) & (start < ends)
        if is_certain[row]:
            covers |= (begins >= start) & (ends <= end)
        overlap = np.minimum(ends[covers], end) - np.maximum(begins[covers], start)
        times[row] = overlap.sum()
        samples += max(int(np.any(covers)), int(times[row] // every[row]))
    return lines_by_time(stacks, times, samples)


FEWEST_FOLDED = 3
"""Fewest samples of other steps at the same places of their steps to name a line."""


def rows_place(
    facts: Facts, rows: Int64, operator: str | None = None, during: Intervals | None = None
) -> Place:
    """Where ``rows`` of the host's threads were called from: by the trace's stacks, else by samples
    within them (or ``during``), else by samples at the same places of other steps.

    Without a sample the line stays unknown, and the place has only its ``operator``."""
    if facts.analysis is None or not len(rows):
        return Place(rank=facts.rank_number, operator=operator)
    trace = facts.analysis.trace
    longest = int(rows[np.argmax(trace.duration[rows])])
    file, line = source_line(trace, longest)
    if file is None:
        during = during or kinds.busy(trace, rows)
        line_share = line_during(facts, during)
        file, line = (line_share.file, line_share.line) if line_share else (None, None)
    start = int(trace.start[longest])
    return Place(
        rank=facts.rank_number,
        start=start,
        end=start + int(trace.duration[longest]),
        trace_row=longest,
        operator=operator or trace.name_of(longest),
        file=file,
        line=line,
    )


def line_during(facts: Facts, during: Intervals) -> LineShare | None:
    """The line where the main thread spent most of ``during``, in ns since the trace's start."""
    if facts.analysis is None or not len(during):
        return None
    trace = facts.analysis.trace
    outside, inside = stack_samples(facts)
    if trace.wall_origin is not None:
        for stacks in (inside, outside):
            if len(stacks):
                # A sample stands for one period at its first moment, or for all of its time if it
                # is so long that no other sample can have fallen between.
                start = stacks["time"] - trace.wall_origin
                moment = np.where(during.holds(start), stacks["every"], 0)
                is_certain = certain(stacks, facts.analysis, trace.wall_origin)
                time = np.where(is_certain, during.within(start, start + stacks["held"]), moment)
                if line := lines_by_time(stacks, time).first_own:
                    return line
    return _other_steps(facts, trace, outside, during)


def _other_steps(facts: Facts, trace: Trace, stacks: Table, during: Intervals) -> LineShare | None:
    """By samples of unprofiled steps, each at its moment's share of its own step. A call into
    torch's own code from the user's line has no Python frame inside it: such samples come first."""
    steps, marks = steady_rows(facts), _step_marks(facts)
    if not len(stacks) or not len(steps) or not len(marks):
        return None
    row, time = _moments(stacks)
    at = np.maximum(np.searchsorted(steps["start"], time, side="right") - 1, 0)
    since, length = time - steps["start"][at], np.maximum(steps["duration"][at], 1)
    inside = (since >= 0) & (since < length)
    if "stage" in stacks:
        inside &= ~np.isin(stacks["stage"], (FETCH, COLLATE))[row]
    begin, lasting = int(trace.start[marks[-1]]), int(trace.duration[marks[-1]])
    inside &= during.holds(begin + (since / length * lasting).astype(np.int64))
    for chosen in (inside & _is_direct(stacks)[row], inside):
        if np.count_nonzero(chosen) >= FEWEST_FOLDED:
            counts = np.bincount(row[chosen], minlength=len(stacks)).astype(np.int64)
            return lines_by_time(stacks, counts).first_own
    return None


def _moments(stacks: Table) -> tuple[Int64, Int64]:
    """Rows of ``stacks`` and moments at which they were seen, one per sampling period."""
    every = np.maximum(stacks["every"], 1)
    count = np.maximum(stacks["held"] // every, 1)
    row = np.repeat(np.arange(len(stacks)), count)
    number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, stacks["time"][row] + number * every[row]


@trace_fact
def _step_marks(analysis: TraceAnalysis) -> Int64:
    """Rows of step marks on the training thread."""
    trace = analysis.trace
    marks = np.flatnonzero(kinds.ranges_named(trace, kinds.STEP.match))
    result: Int64 = marks[trace.track[marks] == main_track(trace)].astype(np.int64)
    return result


def _is_direct(stacks: Table) -> Mask:
    """Samples whose innermost frame is the user's own line."""
    columns = (stacks[name].tolist() for name in ("file", "line", "inner"))
    direct = [
        f"{file.rpartition('/')[2]}:{line}" == inner.rpartition("/")[2].split(" ")[0]
        for file, line, inner in zip(*columns, strict=True)
    ]
    return np.array(direct, dtype=bool)


@fact
def device_steps(facts: Facts) -> TraceSteps:
    """Steps of a trace with GPU activity. Not applicable if the training has no GPU. Unknown if no
    trace shows it."""
    trace = trace_steps.or_none(facts)
    if trace and trace.has_gpu:
        return trace
    if has_gpu(facts) is False:
        raise NotApplicableError
    if trace is None:
        raise UnknownError("no window has been profiled")
    raise UnknownError(no_kernels(trace.analysis))


@fact
def idle_steps(facts: Facts) -> TraceSteps:
    """``device_steps`` of a trace whose idle time can be trusted. Not applicable if the training
    has no GPU. Unknown if no trace shows it, or too little of it."""
    steps = device_steps(facts)
    complete(steps.analysis)
    return steps


@dataclass(frozen=True)
class IdleOfCause:
    """Idle time of one device due to one cause."""

    device: int
    cause: GapCause
    total: int
    """ns in all gaps, each nanosecond by its own cause: over causes they sum to all idle time."""
    count: int
    """Listed gaps with this main cause; 0 if it is only a lesser part of others."""
    longest: Gap | None
    """The longest of those gaps; None without one."""
    line: LineShare | None = None
    """The main thread's line for most of those gaps; None without samples."""


@fact
def idle_by_cause(facts: Facts) -> tuple[IdleOfCause, ...]:
    """Idle time of each device of the trace by cause, most time first; empty without idle time. If
    a device has very many gaps, only the longest are counted; times cover all."""
    if facts.analysis is None:
        return ()
    groups: dict[tuple[int, GapCause], list[Gap]] = {}
    for gap in facts.analysis.gaps:
        groups.setdefault((gap.device, gap.cause), []).append(gap)
    lines = {gaps.cause: gaps.thread.first_own for gaps in gap_lines(facts)}
    result = []
    for idle in facts.analysis.idle:
        # Gaps are listed longest first.
        some = groups.get((idle.device, idle.cause), [])
        longest = next(iter(some), None)
        line = lines.get(idle.cause)
        result.append(IdleOfCause(idle.device, idle.cause, idle.total, len(some), longest, line))
    return tuple(sorted(result, key=lambda idle: (-idle.total, idle.device, idle.cause.value)))


def counts_all(facts: Facts) -> bool:
    """Whether every gap is counted, not only the longest of a device."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    return all(lists_all(gaps, device) for device in {gap.device for gap in gaps})


@fact
def window_step(facts: Facts) -> StepBreakdown:
    """The judged step, with the trace's number of steps: its evidence is only that large. Unknown
    if there is no trace or no step."""
    judged, steps = judged_step(facts), trace_steps(facts)
    return replace(judged.of, count=steps.steps if steps else 0, of_run=False)


def per_step(facts: Facts, idle_ns: int) -> int:
    """Idle time of all steady steps of the trace, converted to one judged step, ns: the profiler
    slows the host, and so prolongs idle time. Unknown if there is no trace or no step."""
    steps, judged = trace_steps(facts), judged_step(facts)
    if steps is None:
        return idle_ns
    recorded, idle = sum(map(steps.part, IDLE_PARTS)), sum(map(judged.part, IDLE_PARTS))
    scale = min(idle / recorded, 1.0) if recorded else 1.0
    return round(idle_ns / max(steps.steps, 1) * scale)
