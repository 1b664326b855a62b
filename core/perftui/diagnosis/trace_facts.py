"""What a trace says of its steps: the mean budget, and how kernels were launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from perftui.analysis import frames
from perftui.analysis.gaps import MOST
from perftui.analysis.intervals import union
from perftui.analysis.links import matching
from perftui.analysis.model import Gap, GapCause, Step, StepBudget, TraceAnalysis
from perftui.diagnosis.model import Place
from perftui.run.steady import Mask, warm_up_length
from perftui.run.step_budget import exact_means
from perftui.trace.categories import DEVICE_ACTIVITY, KERNEL, LAUNCHES, PYTHON
from perftui.trace.model import NONE, Int64, Trace


@dataclass(frozen=True)
class TraceFacts:
    """The mean of the steady steps of a trace, or the whole trace where it marks none."""

    analysis: TraceAnalysis
    budgets: tuple[StepBudget, ...]
    """The steps that the means are over."""
    steps: int
    """How many there are; 0 where the trace marks no steps."""
    step_ns: int
    """Mean step, or the length of the trace."""
    parts: tuple[tuple[str, int], ...]
    """Means by name; they sum to ``step_ns``."""

    @property
    def has_gpu(self) -> bool:
        """Whether device activity was recorded."""
        return self.analysis.has_gpu

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, 0 where the budget has no such part."""
        return dict(self.parts).get(name, 0)

    @property
    def device(self) -> int | None:
        """The device whose time the parts are, the busiest; None without one."""
        busiest = max(self.analysis.activity, key=lambda each: each.busy, default=None)
        return busiest.device if busiest else None

    @property
    def lists_all_gaps(self) -> bool:
        """Whether every gap of the device is listed, rather than the longest ``MOST``."""
        return sum(gap.device == self.device for gap in self.analysis.gaps) < MOST

    def gaps(self, cause: GapCause) -> list[Gap]:
        """Listed idle stretches of the device, of that cause, inside the steady steps, longest
        first."""
        return [
            gap
            for gap in self.analysis.gaps
            if gap.cause is cause and gap.device == self.device and self.step_at(gap.start)
        ]

    def names_within(self) -> frozenset[str]:
        """Names of everything that begins inside the steady steps."""
        trace = self.analysis.trace
        inside = np.unique(trace.name[_inside(trace.start, self)])
        return frozenset(trace.names[index] for index in inside.tolist())

    def step_at(self, time: int) -> Step | None:
        """The steady step (or the whole trace) that ``time`` falls in."""
        steps = (budget.step for budget in self.budgets)
        return next((step for step in steps if step.start <= time < step.end), None)


def trace_facts(analysis: TraceAnalysis) -> TraceFacts | None:
    """Facts of ``analysis``; None where it holds no time at all."""
    budgets = analysis.budgets
    marked = bool(analysis.steps)
    if marked:
        durations = np.array([budget.step.duration for budget in budgets], dtype=np.int64)
        budgets = budgets[warm_up_length(durations) if len(budgets) > 1 else 0 :]
    names = list(dict.fromkeys(name for budget in budgets for name, _ in budget.parts))
    totals = [sum(dict(budget.parts).get(name, 0) for budget in budgets) for name in names]
    step_ns, means = exact_means(totals, len(budgets))
    if not step_ns:
        return None
    parts = tuple(zip(names, means, strict=True))
    return TraceFacts(analysis, budgets, len(budgets) if marked else 0, step_ns, parts)


@dataclass(frozen=True)
class LaunchFacts:
    """How kernels reached a device."""

    kernels_per_step: int
    median_ns: int
    """Median duration of a kernel."""
    empty_queue: float | None
    """Share of linked launches that found the device with nothing running; None without links."""


def launch_facts(facts: TraceFacts) -> LaunchFacts | None:
    """Kernels of the facts' device in the steady steps; None where there are none."""
    trace = facts.analysis.trace
    device_of = np.array([track.device for track in trace.tracks], dtype=np.int64)[trace.track]
    kernels = trace.in_category(KERNEL) & (device_of == facts.device) & _inside(trace.start, facts)
    durations = np.sort(trace.duration[kernels])
    if not len(durations):
        return None
    return LaunchFacts(
        kernels_per_step=len(durations) // max(facts.steps, 1),
        median_ns=int(durations[(len(durations) - 1) // 2]),
        empty_queue=_empty_queue(trace, kernels, device_of == facts.device),
    )


def _inside(times: Int64, facts: TraceFacts) -> Mask:
    """Which times fall inside the steady steps."""
    start = np.array([budget.step.start for budget in facts.budgets], dtype=np.int64)
    end = np.array([budget.step.end for budget in facts.budgets], dtype=np.int64)
    return union(start, end).holds(times)


def _empty_queue(trace: Trace, kernels: Mask, mine: Mask) -> float | None:
    """Share of launches of ``kernels`` during which every earlier activity of their device
    (``mine``) was over.

    Activities of a device are ordered by start; the running maximum of their ends is when the
    device, over all its streams, has nothing left of what came before.
    """
    # Marks that the profiler copies onto the device's tracks span whole steps: they are no work.
    rows = np.flatnonzero(trace.in_category(*DEVICE_ACTIVITY) & mine).astype(np.int64)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    ends = np.maximum.accumulate(trace.ends_of(rows))
    earlier = np.concatenate(([np.iinfo(np.int64).min], ends[:-1]))
    chosen = kernels[rows]
    launch = matching(trace.correlation, rows[chosen], trace.in_category(*LAUNCHES))
    known = launch != NONE
    if not known.any():
        return None
    return float(np.mean(earlier[chosen][known] <= trace.start[launch[known]]))


def place_of(gap: Gap, facts: TraceFacts) -> Place:
    """Where a gap is: its times, what caused it (the wait that came before, else what ran on the
    launching thread) and the line of user code."""
    trace, within = facts.analysis.trace, facts.step_at(gap.start)
    step = within.index if within and facts.steps else None
    known = [row for row in (gap.wait_row, gap.operator_row, gap.launch_row) if row != NONE]
    row = known[0] if known else NONE
    operator = trace.name_of(row) if row != NONE else None
    file, line = source_line(trace, row)
    return Place(None, step, gap.start, gap.end, row if row != NONE else None, operator, file, line)


def source_line(trace: Trace, row: int) -> tuple[str | None, int | None]:
    """Innermost frame of user code above ``row``, in a trace recorded with stacks."""
    while row != NONE:
        if trace.categories[int(trace.category[row])] == PYTHON:
            found = frames.source_line(trace.name_of(row))
            if found is not None:
                return found.file, found.line
        row = int(trace.parent[row])
    return None, None


def most_common(names: Iterable[str | None]) -> str | None:
    """The name that occurs most; None where all are unknown."""
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else None
