"""Kernels that the steady steps launched: by kind of work, by operator, in chains.

If the host runs ahead, the device works on a step long after its mark has ended: a kernel belongs
to the step that launched it. All memory-bound kernels (elementwise, normalisation, reductions)
between two matrix products of a stream are a chain: each moves whole tensors through memory and
reads what the one before wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perftui.analysis.intervals import EMPTY, mask_of, numbered, sums
from perftui.analysis.kernels.category import MEMORY_BOUND, Category, category_of
from perftui.analysis.kinds import begun_in, busy, part_of_rows
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, find_phases
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.gpu.idle import source_line
from perftui.facts.place import Place
from perftui.facts.step.trace_steps import gpu_steps
from perftui.trace.model import KERNEL, NONE, Int32, Int64, Mask, Trace

_PHASES = (FORWARD, BACKWARD, OPTIMIZER)
CATEGORIES = tuple(Category)
"""By number."""

_SHOWN = 3
"""Number of kernel names listed by findings."""


@dataclass(frozen=True, eq=False)
class StepKernels:
    """Kernels of the busiest device, ordered by start; all columns are as long as ``rows``."""

    analysis: TraceAnalysis
    steps: int
    """Steps that the kernels belong to; 1 for the whole of a trace without marked steps."""
    rows: Int64
    launch: Int64
    """Rows of the launching calls; NONE if not in the file."""
    operator: Int64
    """Rows of the innermost operators around the launching calls; NONE without one."""
    phase: Int64
    """Index into ``_PHASES`` of the launching phase; NONE outside all phases."""
    category: Int64
    """Index into ``CATEGORIES``; ``OPTIMIZER`` for everything the optimizer launches."""
    _kept: dict[object, StepKernels] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: Mask | Int64) -> StepKernels:
        """Some of the kernels, by a mask or by indices."""
        columns = (self.rows, self.launch, self.operator, self.phase, self.category)
        return StepKernels(self.analysis, self.steps, *(column[chosen] for column in columns))

    def kept(self, key: object, choose: Callable[[StepKernels], Mask | Int64]) -> StepKernels:
        """The kernels that ``choose`` selects, cached by ``key``: a run is judged anew several
        times a second, its newest window does not change."""
        if key not in self._kept:
            self._kept[key] = self.where(choose(self))
        return self._kept[key]

    def of(self, *categories: Category) -> StepKernels:
        """Kernels of some kinds of work."""
        return self.kept(categories, lambda kernels: kernels.are(*categories))

    def are(self, *categories: Category) -> Mask:
        """Mask of kernels of some kinds of work."""
        numbers = [CATEGORIES.index(category) for category in categories]
        return numbered(self.category, numbers, len(CATEGORIES))

    def named(self, accepts: Callable[[str], object]) -> Mask:
        """Mask of kernels with a name that ``accepts`` accepts."""
        return self._numbered(self._names, accepts)

    def called_by(self, accepts: Callable[[str], object]) -> Mask:
        """Mask of kernels launched by an operator with a name that ``accepts`` accepts."""
        return self._numbered(self._operator_names, accepts)

    def _numbered(self, column: Int32, accepts: Callable[[str], object]) -> Mask:
        names = self.analysis.trace.names
        used = np.flatnonzero(np.bincount(column + 1, minlength=1)[1:]).tolist()
        # One more than there are names, for NONE.
        return numbered(column, [n for n in used if accepts(names[n])], len(names) + 1)

    @cached_property
    def _names(self) -> Int32:
        return self.analysis.trace.name[self.rows]

    @cached_property
    def _operator_names(self) -> Int32:
        names = self.analysis.trace.name[self.operator]
        return np.where(self.operator == NONE, np.int32(NONE), names)

    def in_phase(self, phase: str) -> Mask:
        """Mask of kernels launched in ``phase``."""
        result: Mask = self.phase == _PHASES.index(phase)
        return result

    @property
    def duration(self) -> Int64:
        """Durations of the kernels, ns."""
        return self.analysis.trace.duration[self.rows]

    @cached_property
    def busy(self) -> int:
        """Total time in which any of them runs, ns: the union if several overlap."""
        return busy(self.analysis.trace, self.rows).total

    @property
    def time(self) -> int:
        """Device time per step, ns."""
        return self.busy // self.steps

    @property
    def count(self) -> int:
        """Launches per step."""
        return len(self) // self.steps

    @cached_property
    def longest(self) -> list[tuple[str, int, Place]]:
        """The names with the most time: each with its time per step, ns, and the launch place of
        its longest kernel."""
        if not len(self):
            return []
        trace = self.analysis.trace
        times = np.bincount(self._names, weights=self.duration)
        names = []
        for number in np.argsort(-times, kind="stable")[:_SHOWN].tolist():
            mine = self.where(self._names == number)
            if len(mine):
                names.append((trace.names[number], mine.time, mine.place))
        return names

    @cached_property
    def place(self) -> Place:
        """Launch place of the longest kernel: operator, and line if stacks were recorded."""
        trace, at = self.analysis.trace, int(np.argmax(self.duration))
        row, operator = int(self.rows[at]), int(self.operator[at])
        file, line = source_line(trace, operator)
        start = int(trace.start[row])
        return Place(
            start=start,
            end=start + int(trace.duration[row]),
            trace_row=row,
            operator=trace.name_of(operator) if operator != NONE else None,
            file=file,
            line=line,
        )


@trace_fact
def step_kernels(analysis: TraceAnalysis) -> StepKernels:
    """Kernels that the steady steps launched (of very many, only those of the first steps); if
    launches are not in the file, those that begin in them. Unknown if the trace shows none."""
    steps = gpu_steps(analysis)
    trace, links = analysis.trace, link(analysis.trace)
    kernels = trace.in_category(KERNEL) & steps.on_device
    steps, mine = steps.first(kernels), kernels[links.activity]
    rows, launch = links.activity[mine], links.launch[mine]
    launched, phases = launch != NONE, find_phases(trace)
    begun = part_of_rows(trace, [phases.get(name, EMPTY) for name in _PHASES])
    phase = np.where(launched, begun[launch], NONE).astype(np.int64)
    by_name = np.zeros(len(trace.names), dtype=np.int64)
    for number in np.flatnonzero(np.bincount(trace.name[rows])).tolist():
        by_name[number] = CATEGORIES.index(category_of(trace.names[number]))
    category = by_name.take(trace.name[rows])
    category[phase == _PHASES.index(OPTIMIZER)] = CATEGORIES.index(Category.OPTIMIZER)
    operator = links.operator[mine].astype(np.int64)
    result = StepKernels(analysis, max(steps.steps, 1), rows, launch, operator, phase, category)
    if not steps.steps:
        return result
    within = begun_in(trace, steps.on_host)[launch] & launched
    if not within.any():
        within = steps.inside[rows]
    if not within.any():
        raise UnknownError("the steady steps of the trace launch no kernels")
    return result.where(within)


@trace_fact
def time_by_category(analysis: TraceAnalysis) -> Mapping[Category, int]:
    """Device time per step by kind of work, ns, longest first; overlapping kinds both count in
    full."""
    kernels = step_kernels(analysis)
    times = {category: kernels.of(category).time for category in Category}
    return dict(sorted(((c, t) for c, t in times.items() if t), key=lambda item: -item[1]))


def is_named(trace: Trace, rows: Int64, *names: str) -> Mask:
    """Which of ``rows`` have one of ``names``; NONE has none."""
    numbers = [number for number, name in enumerate(trace.names) if name in names]
    result: Mask = numbered(trace.name[rows], numbers, len(trace.names)) & (rows != NONE)
    return result


_FUSED_PASSES = 3
"""Time of a fused chain, in multiples of its longest kernel: it reads its inputs and writes its
outputs, some of them for the backward pass. Written out GELU and layer normalisation on an H100
took 38.7 ms, fused ones 5.4 ms: the estimate is 13 ms."""

BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
"""Operators for batched matrix products."""


@trace_fact
def kernel_chains(analysis: TraceAnalysis) -> tuple[StepKernels, int]:
    """Kernels in chains of the steady steps, except those of the optimizer and of attention, and
    ns per step that fusing them saves. Unknown if the trace shows no kernels."""
    kernels, trace = step_kernels(analysis), analysis.trace
    if not len(kernels):
        raise UnknownError("the steady steps of the trace launch no kernels")
    kernels = kernels.where(np.lexsort((trace.start[kernels.rows], trace.track[kernels.rows])))
    member = kernels.are(*MEMORY_BOUND)
    # Of each kernel the index of its chain, or of the run between two chains.
    track = kernels.analysis.trace.track[kernels.rows]
    begins = np.ones(len(member), dtype=bool)
    begins[1:] = (
        (member[1:] != member[:-1])
        | (track[1:] != track[:-1])
        | (kernels.phase[1:] != kernels.phase[:-1])
    )
    chain = np.cumsum(begins) - 1
    times = sums(chain, kernels.duration, int(chain[-1]) + 1)
    longest = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(longest, chain, kernels.duration)
    member &= ~_around_softmax(kernels, member, chain)[chain]
    saved = np.maximum(times - _FUSED_PASSES * longest, 0)
    return kernels.where(member), int(saved[np.unique(chain[member])].sum()) // kernels.steps


def _around_softmax(kernels: StepKernels, member: Mask, chain: Int64) -> Mask:
    """Which chains contain a softmax and lie between two batched matrix products."""
    softmax = member & kernels.named(lambda name: "softmax" in name.lower())
    softmax &= ~kernels.called_by(lambda name: "log_softmax" in name)
    products = kernels.are(Category.GEMM) & kernels.called_by(lambda name: name in BATCHED)
    wanted, follows = (mask_of(int(chain[-1]) + 1, chain[of]) for of in (softmax, products))
    wanted[:-1] &= follows[1:]
    wanted[1:] &= follows[:-1]
    return wanted


@trace_fact
def kernels_begun(analysis: TraceAnalysis) -> Int64:
    """Rows of the kernels of the busiest device that begin in the steady steps, by start. Unknown
    if the trace shows none."""
    steps, trace = gpu_steps(analysis), analysis.trace
    rows = link(trace).activity
    chosen = trace.in_category(KERNEL) & steps.on_device & steps.inside
    return rows[chosen[rows]]
