"""All tables of one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Idle, explain_idle
from perftui.analysis.gpu_idle.enclosing_op import EnclosingOps
from perftui.analysis.gpu_idle.gaps import MOST, list_gaps
from perftui.analysis.gpu_idle.host import Host
from perftui.analysis.intervals import Intervals
from perftui.analysis.kernels.activity import device_activities
from perftui.analysis.kernels.table import kernel_table
from perftui.analysis.links import Links, link, shared_correlations
from perftui.analysis.model import (
    DeviceActivity,
    Gap,
    Step,
    StepParts,
    TraceAnalysis,
)
from perftui.analysis.ops.calls import op_table
from perftui.analysis.ops.modules import module_table
from perftui.analysis.steps.find import find_steps
from perftui.analysis.steps.parts import device_parts, step_parts
from perftui.analysis.steps.phases import FORWARD, OPERATORS, find_phases
from perftui.trace.model import NONE, NOT_READ, Trace


def analyse(trace: Trace) -> TraceAnalysis:
    """Every table of the trace, and notes on what it cannot say: what was not read comes first."""
    links = link(trace)
    activity = device_activities(trace, links)
    view = _View(trace, links, Host(trace))
    steps = find_steps(trace)
    idle = {each.device: view.idle(each.device) for each in activity}
    return TraceAnalysis(
        trace=trace,
        activity=activity,
        ops=op_table(trace, links),
        modules=module_table(trace, links),
        kernels=kernel_table(trace, links),
        gaps=view.gaps(idle),
        steps=steps,
        step_parts=view.step_parts(steps or (_whole(trace),), activity, idle),
        notes=tuple(_notes(view, activity, steps, idle)),
    )


def without_tables(trace: Trace) -> TraceAnalysis:
    """What can be drawn of a trace before it is analysed: its events and its steps."""
    return TraceAnalysis(trace, find_steps(trace))


@dataclass(frozen=True, eq=False)
class _View:
    """What several tables are made from."""

    trace: Trace
    links: Links
    host: Host

    @cached_property
    def phases(self) -> Mapping[str, Intervals]:
        """Phases of the main thread."""
        return find_phases(self.trace, self.host)

    def mine(self, device: int) -> kinds.Mask:
        """Mask of ``links.activity`` for one device."""
        mask: kinds.Mask = kinds.devices(self.trace)[self.links.activity] == device
        return mask

    def idle(self, device: int) -> Idle:
        """Idle time of a device over the whole trace."""
        return explain_idle(
            self.trace, self.links, self.mine(device), self.host, *_range(self.trace)
        )

    def gaps(self, idle: Mapping[int, Idle]) -> tuple[Gap, ...]:
        """Gaps of all devices, longest first."""
        enclosing = EnclosingOps(self.trace, self.host)
        phases = {name: part for name, part in self.phases.items() if name != OPERATORS}
        found = [
            gap
            for device, each in idle.items()
            for gap in list_gaps(device, each, enclosing, phases)
        ]
        return tuple(sorted(found, key=_longest_first))

    def step_parts(
        self,
        steps: tuple[Step, ...],
        activity: tuple[DeviceActivity, ...],
        idle: Mapping[int, Idle],
    ) -> tuple[StepParts, ...]:
        """By the busiest device, or by the main thread where there is none."""
        if not activity:
            return step_parts(steps, self.phases)
        device = _busiest(activity).device
        rows = self.links.activity[self.mine(device)]
        return step_parts(steps, device_parts(self.trace, rows, idle[device]))


def _longest_first(gap: Gap) -> tuple[int, int]:
    return -gap.duration, gap.start


def _busiest(activity: Iterable[DeviceActivity]) -> DeviceActivity:
    return max(activity, key=lambda each: each.busy)


def _range(trace: Trace) -> tuple[int, int]:
    return int(trace.start.min()), int(trace.end.max())


def _whole(trace: Trace) -> Step:
    """Stands for the steps of a trace that marks none."""
    start, end = _range(trace)
    return Step(index=-1, start=start, end=end, row=NONE)


def _notes(
    view: _View,
    activity: tuple[DeviceActivity, ...],
    steps: tuple[Step, ...],
    idle: Mapping[int, Idle],
) -> Iterable[str]:
    yield from (warning.message for warning in view.trace.warnings)
    if not activity:
        yield "no GPU activity recorded"
    if not steps:
        yield "no steps marked: the budget is that of the whole trace"
    if len(activity) > 1:
        yield (
            f"{len(activity)} devices: the budget is that of device {_busiest(activity).device}, "
            "the busiest"
        )
    unread = view.trace.metadata.get(NOT_READ)
    if isinstance(unread, Mapping):
        tables = ", ".join(f"{table} ({rows})" for table, rows in unread.items())
        yield f"not read: the rows of {tables}"
    unlinked = sum(each.unlinked for each in activity)
    if unlinked:
        yield f"{unlinked} GPU events whose launch is not in the trace"
    shared = shared_correlations(view.trace) if activity else 0
    if shared:
        yield (
            f"correlation ids shared by calls of several processes: {shared}; what launched their "
            "GPU events is uncertain"
        )
    if activity and not len(view.host.span):
        yield "no CPU activity recorded: idle time cannot be explained"
    if any(len(each.inner) > MOST for each in idle.values()):
        yield f"only the {MOST} longest gaps of a device are listed"
    if FORWARD not in view.phases and not activity:
        yield "forward passes are not marked: their operators count as operators"
