"""What TensorBoard's plugin for PyTorch profiles computes, from our columns.

The plugin stretches each step to the end of what it launched, counts the time by one fixed order of
precedence, and knows communication by operators: its parts are not those of our budgets. They must
follow from our columns by the plugin's own definition. What is the same by our tables is met."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, Intervals, intersect, subtract, union, unite
from perftui.analysis.ops.calls import innermost
from perftui.trace.model import NONE, Int64
from tests.verify.corpus.opened import Opened, opened
from tests.verify.corpus.outcome import MET, Differs, Verdict, explained, not_shown, recomputed

ROLES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CpuOp")
"""In order of precedence; what is left of a step is Other."""

_RUNTIMES = ("cuda_runtime", "mtia_runtime", "glow_runtime", "xpu_runtime", "privateuse1_runtime")
_COLLECTIVES = frozenset(
    f"{library}:{name}"
    for library in ("nccl", "gloo")
    for name in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)
_FETCH = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#")


@dataclass(frozen=True, eq=False)
class Run:
    """A trace as the plugin sees it."""

    it: Opened

    @cached_property
    def on_host(self) -> kinds.Mask:
        trace = self.it.trace
        return trace.in_category("cpu_op", "user_annotation", "gpu_user_annotation")

    @cached_property
    def is_step(self) -> kinds.Mask:
        return self.on_host & kinds.named(
            self.it.trace, lambda name: name.startswith("ProfilerStep#")
        )

    @cached_property
    def marks(self) -> Int64:
        """Rows of steps by start; copies on the device count too."""
        rows = np.flatnonzero(self.is_step)
        return rows[np.argsort(self.it.trace.start[rows], kind="stable")]

    @cached_property
    def roles(self) -> Mapping[str, Intervals]:
        trace = self.it.trace
        collectives = self.on_host & kinds.named(trace, _COLLECTIVES.__contains__)
        is_fetch = self.on_host & kinds.named(trace, _FETCH.match)
        named = trace.external_id[collectives]
        communicates = trace.in_category("kernel") & np.isin(
            trace.external_id, named[named != NONE]
        )
        masks = {
            "Kernel": trace.in_category("kernel") & ~communicates,
            "Memcpy": trace.in_category("gpu_memcpy"),
            "Memset": trace.in_category("gpu_memset"),
            "Communication": communicates | collectives,
            "Runtime": trace.in_category(*_RUNTIMES),
            "DataLoader": is_fetch,
            "CpuOp": self.on_host & ~collectives & ~is_fetch & ~self.is_step,
        }
        return {role: union(trace.start[mask], trace.end[mask]) for role, mask in masks.items()}

    @cached_property
    def launched(self) -> tuple[Int64, Int64]:
        """Rows of the calls that count as launches, and of what they launched."""
        links = self.it.links
        linked = links.launch != NONE
        linked &= self.it.trace.in_category(*_RUNTIMES)[links.launch]
        return links.launch[linked], links.activity[linked]

    @cached_property
    def all_steps(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Every step, and how much device activity each launched."""
        trace, marks = self.it.trace, self.marks
        launch, activity = self.launched
        windows = [(int(trace.start[row]), int(trace.end[row])) for row in marks.tolist()]
        if not windows:
            rows = self.on_host & ~trace.in_category("user_annotation", "gpu_user_annotation")
            if rows.any():
                windows = [(int(trace.start[rows].min()), int(trace.end[rows].max()))]
        counts: list[int] = []
        ends: list[int] = []
        first = NONE
        position = 0
        order = np.argsort(trace.start[launch], kind="stable")
        launch, activity = launch[order], activity[order]
        inside_any = np.zeros(len(launch), dtype=bool)
        for begin, end in windows:
            inside = (trace.start[launch] >= max(begin, position)) & (trace.end[launch] <= end)
            # No call before the end of a step counts for the next, though they may overlap.
            position = max(position, end)
            inside_any |= inside
            mine = activity[inside]
            counts.append(len(mine))
            ends.append(int(trace.end[mine].max()) if len(mine) else NONE)
            if len(counts) == 1 and len(mine):
                first = int(trace.start[mine].min())
        if not any(counts):
            return windows, counts
        previous = windows[0][0]
        if first != NONE:
            others = np.setdiff1d(self.it.links.activity, activity[inside_any])
            before = trace.end[others][trace.end[others] < first]
            previous = max(previous, int(before.max())) if len(before) else previous
        steps = []
        for (begin, end), last in zip(windows, ends, strict=True):
            start = max(previous, begin)
            previous = max(end, last, start)
            steps.append((start, previous))
        return steps, counts

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """Steps that are counted: none behind the last that launched anything, and not that one
        either if it launched less than 80 % of the one before."""
        steps, counts = self.all_steps
        if len(steps) < 2 or not any(counts):
            return steps
        last = max(index for index, count in enumerate(counts) if count)
        if last > 0 and counts[last - 1] * 0.8 > counts[last]:
            last -= 1
        return steps[: last + 1]

    @cached_property
    def parts(self) -> list[dict[str, float]]:
        """Parts of each step in us."""
        left = unite(*(_window(*step) for step in self.steps))
        shares: dict[str, Intervals] = {}
        for role in ROLES:
            shares[role] = intersect(left, self.roles[role])
            left = subtract(left, shares[role])
        shares["Other"] = left
        return [
            {
                **{
                    role: intersect(_window(*step), share).total / 1000
                    for role, share in shares.items()
                },
                "Total": (step[1] - step[0]) / 1000,
            }
            for step in self.steps
        ]

    @property
    def average(self) -> dict[str, float]:
        names = (*ROLES, "Other", "Total")
        return {name: sum(part[name] for part in self.parts) / len(self.parts) for name in names}

    def utilization(self, device: int) -> float | None:
        """Share of the time between first and last step in which the device runs a kernel."""
        trace = self.it.trace
        rows = trace.in_category("kernel") & (kinds.devices(trace) == device)
        if not rows.any():
            return None
        window = _window(self.steps[0][0], self.steps[-1][1])
        busy = intersect(window, union(trace.start[rows], trace.end[rows])).total
        return busy / (self.steps[-1][1] - self.steps[0][0])


def _window(start: int, end: int) -> Intervals:
    return union(np.array([start]), np.array([end])) if end > start else EMPTY


@cache
def run(name: str) -> Run:
    return Run(opened(name))


PARTS = recomputed("TensorBoard's own steps, each until what it launched ends, and their parts")
DOUBLES = recomputed("TensorBoard's own steps and parts, with times as doubles")
LAST_STEP = explained("TensorBoard", Differs.LAST_STEP)
COPIES = recomputed("TensorBoard's own steps, which count their copies on the device too")
NO_STEP = recomputed("TensorBoard's own step 0, which is a trace without steps")
NO_HOST = recomputed("TensorBoard's own step 0, which ends before it begins without operators")
OWN_TIME = recomputed("an operator's own time without its runtime calls (its other times are met)")
UTILIZATION = recomputed("use of the device in TensorBoard's own steps")
DEVICE = not_shown("SM efficiency and occupancy of a device (its use in such steps follows)")
OCCUPANCY = not_shown("occupancy and tensor cores of a kernel (its calls and times are met)")
ADVICE = not_shown("another tool's advice")

_NAMES = {"CPU Exec": "CpuOp"}


def claims(entry: dict[str, Any]) -> bool:
    """Whether the entry is the plugin's."""
    return bool(entry["quantity"].startswith(("tb.", "tbrun.")))


def judge(entry: dict[str, Any]) -> Verdict:
    """The verdict on one entry; fails where our columns do not give the value."""
    tool, quantity = entry["quantity"].split(".", 1)
    if quantity == "recommendations":
        return ADVICE
    if match := re.fullmatch(r"(kernel|op)\[(.*)\]", quantity, re.DOTALL):
        return (_kernel if match[1] == "kernel" else _operator)(
            opened(entry["trace"]), match[2], entry["value"]
        )
    its = run(entry["trace"])
    if not its.steps:
        return _without_host(quantity, entry["value"])
    if quantity == "steps_names":
        return _step_names(its, entry["value"])
    if tool == "tbrun":
        return _ran(entry, quantity, its)
    return _printed(quantity, entry["value"], its)


def _step_names(its: Run, value: list[str]) -> Verdict:
    if not len(its.marks):
        assert value == ["0"]
        return NO_STEP
    trace = its.it.trace
    found = [kinds.STEP.match(trace.name_of(row)) for row in its.marks.tolist()]
    names = [match[1] for match in found if match]
    assert names[: len(its.steps)] == value
    if value == [str(step.index) for step in its.it.analysis.steps]:
        return MET
    return LAST_STEP if len(its.marks) == len(its.it.analysis.steps) else COPIES


def _without_host(quantity: str, value: Any) -> Verdict:
    if quantity == "steps_names":
        assert value == ["0"]
    elif quantity == "avg_us":
        assert value["Total"] == -(2.0**64)
        assert not any(part for role, part in value.items() if role != "Total")
    else:
        assert value["gpu_utilization"] == 0
    return NO_HOST


def _ran(entry: dict[str, Any], quantity: str, its: Run) -> Verdict:
    value = entry["value"]
    if quantity.startswith("gpu"):
        device, wanted = int(quantity.removeprefix("gpu")), value["gpu_utilization"]
        # It is given with six digits; two traces need times as doubles for the last of them.
        found = [each.utilization(device) for each in (its, Run(its.it.as_doubles))]
        assert any(wanted == pytest.approx(each, abs=5.0001e-7, rel=0) for each in found), found
        return DEVICE
    if quantity == "steps_us":
        assert its.parts == [pytest.approx(part, abs=1e-6, rel=0) for part in value]
        return PARTS
    assert quantity == "avg_us"
    if _near(its.average, value):
        return PARTS
    rounded = Run(its.it.as_doubles).average
    assert _near(rounded, value), (rounded, value)
    return DOUBLES


def _near(parts: Mapping[str, float], value: Mapping[str, float]) -> bool:
    """The plugin adds up doubles of times since 1970, which lie 0.12 us and more apart."""
    return all(
        parts[name] == pytest.approx(expected, abs=0.03, rel=0) for name, expected in value.items()
    )


def _printed(quantity: str, value: float, its: Run) -> Verdict:
    """An entry of the page that the plugin's own test expects."""
    if quantity.startswith("gpu0."):
        if quantity == "gpu0.GPU Utilization":
            utilization = its.utilization(0)
            assert 100 * utilization == pytest.approx(value, abs=0.0050001, rel=0)
            return UTILIZATION
        return not_shown("SM efficiency and occupancy of a device")
    if quantity == "avg_step_us":
        found = its.average["Total"]
        assert found == pytest.approx(value, abs=0.5, rel=0)
        return PARTS
    where, name = quantity.split(".")
    role, unit = name.rsplit("_", 1)
    role = _NAMES.get(role, role)
    if where == "avg":
        share = its.average[role]
        found = 100 * share / its.average["Total"] if unit == "pct" else share
        assert found == pytest.approx(value, abs=0.0050001 if unit == "pct" else 0.5, rel=0)
    else:
        indices = [step.index for step in its.it.analysis.steps]
        assert its.parts[indices.index(int(where.removeprefix("step")))][role] == value
    return PARTS


def _kernel(it: Opened, name: str, value: dict[str, Any]) -> Verdict:
    """A line of the plugin's table of kernels, whose name is cut off: the first that fits."""
    table = it.analysis.kernels
    index = next(i for i, each in enumerate(table.names) if each.startswith(name))
    calls, total = int(table.calls[index]), int(table.total[index])
    assert calls == value["Calls"]
    assert total == value["Total Duration (us)"] * 1000
    assert round(total / calls / 1000) == value["Mean Duration (us)"]
    assert table.longest[index] == value["Max Duration (us)"] * 1000
    assert table.shortest[index] == value["Min Duration (us)"] * 1000
    return OCCUPANCY


def _operator(it: Opened, name: str, value: dict[str, Any]) -> Verdict:
    """A line of the plugin's table of operators."""
    trace, table = it.trace, it.analysis.ops
    index = table.names.index(name)
    assert table.calls[index] == value["calls"]
    assert table.device_self[index] == value["device_self_duration"] * 1000
    assert table.device_total[index] == value["device_total_duration"] * 1000
    assert table.cpu_total[index] == value["host_total_duration"] * 1000
    operators = kinds.operators(trace)
    around = innermost(trace, operators)
    called = trace.in_category("cuda_runtime") & (around >= 0)
    called &= trace.name[around] == trace.names.index(name)
    runtime = int(trace.duration[called].sum())
    assert table.cpu_self[index] - runtime == value["host_self_duration"] * 1000
    return OWN_TIME
