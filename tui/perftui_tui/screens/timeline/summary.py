"""Where to look in a trace while nothing is selected: slow steps, idle time, long operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.recorded_steps import ONLY_STEPS
from perftui.analysis.steps import median_duration, slow_steps
from perftui.analysis.timeline.tracks import device_label
from perftui.facts.fact import Facts
from perftui.facts.gpu.idle import idle_by_cause
from perftui.format import middle, several
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, Int64, Trace
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import counted, format_count, format_ns, format_percent
from perftui_tui.screens.timeline.detail_pane import Line, Target, cut, place_of_event
from perftui_tui.screens.timeline.track_cells import phase_label

HINT = (
    "click an event, or press {timeline.event(1)} for the next event, {timeline.gap(1)} for the "
    "next gap, {timeline.largest_gap} for the largest gap"
)

MOST_NAMES = 12
"""Operators, or kernels, that are listed."""

MOST = 8
"""Lines of each kind."""

_LONGEST_NAME = 60


def summary_lines(analysis: TraceAnalysis, run: RunSnapshot | None = None) -> list[Line]:
    """Slow steps, idle time by cause, long gaps and long operators, the longest first; each line
    leads to its place. Samples of ``run``, whose window it is, name the lines of the script."""
    lines = [Line(hint(HINT), "dim"), *_steps(analysis)]
    trace, ops, kernels = analysis.trace, analysis.ops, analysis.kernels
    if ONLY_STEPS in trace.metadata:
        return lines
    if not analysis.has_tables:
        return [*lines, Line("gaps and their causes follow once the whole trace is read", "dim")]
    lines += [*_idle(analysis, run), *_gaps(analysis)]
    lines += () if analysis.ranks else _breakdown(analysis)
    if analysis.has_gpu:
        lines += _top("GPU activity by time", trace, kernels, kernels.short_names, kernels.total)
    return [*lines, *_top("operators by own CPU time", trace, ops, ops.names, ops.cpu_self)]


def _steps(analysis: TraceAnalysis) -> Iterator[Line]:
    steps = analysis.steps
    if not steps:
        return
    if analysis.ranks:
        yield from _steps_by_rank(analysis)
        return
    median = median_duration(steps)
    slow = sorted(slow_steps(steps), key=lambda step: -step.duration)
    slower = f"{format_count(len(slow))} slow" if slow else "none 10 % slower"
    keys = hint("{timeline.step(1)} next, {timeline.slow_step(1)} next slow")
    facts = f"{counted(len(steps), 'step')}, median {format_ns(median)}, {slower}"
    yield Line(f"{facts}  {keys}", "bold")
    for step in slow[:MOST]:
        over = format_percent(step.duration / median - 1)
        text = f"{format_ns(step.duration):>10}  step {step.index}, {over} above the median"
        yield Line(text, place=Target(step.start, step.end, step.row))


def _steps_by_rank(analysis: TraceAnalysis) -> Iterator[Line]:
    """The slowest ranks first; each leads to its slowest step."""
    keys = hint("{timeline.step(1)} next, {timeline.slow_step(1)} next slow, in the selected rank")
    yield Line(f"steps by rank, the slowest first  {keys}", "bold")
    found = [(rank, analysis.steps_of(rank)) for rank in analysis.ranks]
    medians = {rank: median_duration(steps) for rank, steps in found if steps}
    slowest = sorted(((r, s) for r, s in found if s), key=lambda each: -medians[each[0]])
    for rank, steps in slowest[:MOST]:
        longest = max(steps, key=lambda step: step.duration)
        slow = len(slow_steps(steps))
        facts = [
            f"{format_ns(medians[rank]):>10}",
            f"rank {rank}",
            counted(len(steps), "step"),
            f"{format_count(slow)} slow" if slow else "none 10 % slower",
        ]
        yield Line("  ".join(facts), place=Target(longest.start, longest.end, longest.row))
    left = len(slowest) - MOST
    if left > 0:
        yield Line(f"{'':>10}  and {counted(left, 'faster rank')}", "dim")


def _idle(analysis: TraceAnalysis, run: RunSnapshot | None) -> Iterator[Line]:
    """How long each cause kept a GPU idle; each line leads to the longest such gap."""
    causes = idle_by_cause(Facts(run, analysis))
    if not causes:
        return
    yield Line("GPU idle by cause", "bold")
    many = bool(analysis.ranks) or len({one.device for one in causes}) > 1
    for one in causes[:MOST]:
        gap, device = one.longest, device_label(analysis.trace, one.device)
        facts = [f"{format_ns(one.total):>10}", f"{one.cause.value:<15}"]
        facts += [device] if many else []
        facts.append(several(one.count, "gap") if one.count else "within other gaps")
        facts += [f"max {format_ns(gap.duration)}"] if gap else []
        facts += [one.line.short] if one.line else []
        place = Target(gap.start, gap.end) if gap else None
        yield Line("  ".join(facts), one_row=True, place=place)


def _gaps(analysis: TraceAnalysis) -> Iterator[Line]:
    if not analysis.gaps:
        return
    yield Line(hint("largest gaps of the GPU  {timeline.largest_gap} next"), "bold")
    many = bool(analysis.ranks) or len({gap.device for gap in analysis.gaps}) > 1
    for gap in analysis.gaps[:MOST]:
        facts = [f"{format_ns(gap.duration):>10}", f"{gap.cause.value:<15}"]
        facts += [device_label(analysis.trace, gap.device)] if many else []
        facts.append(f"at {format_ns(gap.start)}")
        facts += [phase_label(printable(gap.phase))] if gap.phase else []
        if gap.operator_row != NONE:
            facts.append(cut(printable(analysis.trace.name_of(gap.operator_row)), _LONGEST_NAME))
        yield Line("  ".join(facts), place=Target(gap.start, gap.end))


def _breakdown(analysis: TraceAnalysis) -> Iterator[Line]:
    """The mean step by part, as the overview's bar has it."""
    steps = [each for each in analysis.step_parts if each.step.duration]
    total = sum(each.step.duration for each in steps)
    if not total:
        return
    what = "whole trace" if steps[0].step.index < 0 else "mean step"
    mean = total / len(steps)
    yield Line(f"{what}: {format_ns(mean)}", "bold")
    sums: dict[str, int] = {}
    for each in steps:
        for name, time in each.parts:
            sums[name] = sums.get(name, 0) + time
    for name, time in sorted(sums.items(), key=lambda item: -item[1]):
        if time:
            figures = f"{format_ns(time / len(steps)):>10}  {format_percent(time / total):>7}"
            yield Line(f"{figures}  {phase_label(name)}", one_row=True)


def _top(
    title: str, trace: Trace, table: OpTable | KernelTable, names: Sequence[str], times: Int64
) -> Iterator[Line]:
    """The rows of a table with the most time; each leads to its longest call."""
    if not len(table):
        return
    yield Line(title, "bold")
    for at in np.argsort(-times, kind="stable")[:MOST_NAMES].tolist():
        name = middle(printable(names[at]), _LONGEST_NAME)
        calls = counted(int(table.calls[at]), "call")
        text = f"{format_ns(int(times[at])):>10}  {name}  {calls}"
        yield Line(text, place=place_of_event(trace, int(table.first_row[at])))
