"""A trace's steps and their parts as TensorBoard's plugin for PyTorch profiles has them.

The plugin stretches each step to the end of what it launched, counts the time by one fixed order of
precedence, and knows communication by operators: its parts are not those of our budgets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, Intervals, intersect, subtract, union, unite
from perftui.trace.model import NONE, Int64
from tests.verify.corpus.opened import Opened, opened

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
