"""Copies between the host and the GPU that the step waits for."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops.calls import called_operators
from perftui.analysis.steps import EXPOSED_COPIES
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.host_waits import SMALL, Copies, host_copies, host_waits, idle_of_host
from perftui.facts.gpu.idle import device_steps, per_step, rows_place, window_step
from perftui.facts.source.operator_lines import with_line
from perftui.facts.step.trace_steps import TraceSteps
from perftui.trace.model import DEVICE_ACTIVITY, LAUNCHES, MEMCPY, NONE, Int64, Mask, Trace

_MAKES = re.compile(
    r"aten::(full|full_like|zeros|ones|zeros_like|ones_like|arange|range|linspace|logspace|eye"
    r"|rand|randn|randint|randperm|rand_like|randn_like|normal|normal_|uniform_|bernoulli|bernoulli_"
    r"|random_|exponential_|fill_|tril|triu|tril_indices|triu_indices|scalar_tensor|lift_fresh"
    r"|one_hot|hann_window|hamming_window|multinomial|poisson)$"
)
"""Operators that create values, not move or view them."""

_ENQUEUES = re.compile(r"Launch|Memcpy|Memset", re.I)

_STEPS_BACK = 12
"""Most operators between the creation of a tensor and its copy."""

FARTHEST = 5_000_000
"""Longest time between two operators of such a chain, ns."""

FASTEST_WRITE = 500
"""Bytes per ns above which no CPU writes memory: operators that took less time did not create the
tensor. Old versions of PyTorch call ``aten::zeros`` for a mark, right before the copy."""

_LEVELS = 10
"""Levels of calls within an operator searched for device work."""


CpuMade = tuple[Int64, Int64, Int64, Int64]
"""Tensors created by chains of operators of one thread, in columns: the operator that copies the
tensor to the device, the first of the chain, the longest that creates values, and ns to create and
copy it, without what comes between, such as getting memory from the driver."""


@trace_fact
def made_on_cpu(analysis: TraceAnalysis) -> CpuMade:
    """Copies to the device of tensors that operators have just created on the CPU.

    Of the operators directly before the copy on its thread, none works on the device, and at least
    one creates values. What is created while a batch is fetched is data. Unknown if the trace shows
    no GPU."""
    copies, trace = host_copies(analysis), analysis.trace
    chosen = np.flatnonzero(copies.to_device & (copies.outer != NONE))
    chosen = chosen[np.argsort(copies.outer[chosen], kind="stable")]
    ordered, launch = copies.outer[chosen], copies.launch[chosen]
    outer = np.unique(ordered)
    same_track = np.isin(trace.track, np.unique(trace.track[outer]))
    called = called_operators(trace, kinds.operators(trace) & same_track)
    calls: Int64 = called.rows[called.caller == NONE].astype(np.int64)
    if not len(calls):
        return calls, calls, calls, calls
    at = np.minimum(np.searchsorted(calls, outer), max(len(calls) - 1, 0))
    valid = calls[at] == outer
    first = np.minimum(np.searchsorted(ordered, outer[valid]), max(len(ordered) - 1, 0))
    return _chains(trace, calls, at[valid], outer[valid], launch[first], copies.size[chosen][first])


def _chains(
    trace: Trace, calls: Int64, at: Int64, outer: Int64, launch: Int64, size: Int64
) -> CpuMade:
    """The chains before copies; ``launch`` is the call that begins each copy of ``size`` bytes."""
    on_device, makes = _on_device(trace, calls), kinds.named(trace, _MAKES.match)[calls]
    fetching = _within(trace, calls, np.flatnonzero(kinds.input_wait(trace)).astype(np.int64))
    first, maker = np.full(len(at), NONE), np.full(len(at), NONE)
    current, going = at.copy(), np.ones(len(at), dtype=bool)
    worked = np.zeros(len(at), dtype=np.int64)
    for _ in range(_STEPS_BACK):
        before = np.maximum(current - 1, 0)
        row, following = calls[before], calls[current]
        apart = trace.start[following] - trace.ends_of(row)
        going &= (current > 0) & ~on_device[before] & ~fetching[before]
        going &= (trace.track[row] == trace.track[following]) & (apart < FARTHEST)
        worked += np.where(going, trace.duration[row], 0)
        creates = going & makes[before] & (size <= worked * FASTEST_WRITE)
        first = np.where(creates, row, first)
        longer = (maker == NONE) | (trace.duration[row] >= trace.duration[maker])
        maker = np.where(creates & longer, row, maker)
        current = np.where(going, before, current)
    # torch.tensor(values, device=...) creates it on the CPU internally, and leaves a mark.
    after = calls[np.minimum(at + 1, len(calls) - 1)]
    lifted = (
        (maker == NONE) & kinds.named(trace, "aten::lift_fresh".__eq__)[after] & (after > outer)
    )
    first, maker = np.where(lifted, outer, first), np.where(lifted, outer, maker)
    created = maker != NONE
    making = np.maximum(trace.start[outer] - trace.start[first], 0)
    copying = trace.ends_of(outer) - trace.start[launch]
    return (
        outer[created],
        first[created].astype(np.int64),
        maker[created].astype(np.int64),
        (making + copying)[created].astype(np.int64),
    )


def _on_device(trace: Trace, calls: Int64) -> Mask:
    """Which of ``calls`` enqueue work internally."""
    enqueues = trace.in_category(*LAUNCHES) & kinds.named(trace, _ENQUEUES.search)
    above = np.flatnonzero(enqueues).astype(np.int64)
    marked = np.zeros(len(trace) + 1, dtype=bool)
    for _ in range(_LEVELS):
        above = np.unique(trace.parent[above].astype(np.int64))
        above = above[above != NONE]
        marked[above] = True
    return marked[calls]


def _within(trace: Trace, calls: Int64, ranges: Int64) -> Mask:
    """Which of ``calls`` begin during one of ``ranges`` on the same thread."""
    mask = np.zeros(len(calls), dtype=bool)
    for track in np.unique(trace.track[ranges]).tolist():
        mine = ranges[trace.track[ranges] == track]
        index = np.searchsorted(trace.start[mine], trace.start[calls], side="right") - 1
        inside = (index >= 0) & (trace.start[calls] < trace.ends_of(mine)[np.maximum(index, 0)])
        mask |= inside & (trace.track[calls] == track)
    return mask


LITTLE = 64 * 1024
"""Bytes below which a copy takes as long as one of a byte; nsys-ai counts copies of fewer."""

PINNED_RATE = 25
"""Bytes per ns of a pinned copy over PCIe 4 x16, and half of the rate of version 5."""

FREEING = 0.25
"""Most ns per byte to free the memory of a batch: 1 us for each page of 4 KiB."""

_WORKERS = re.compile(r"enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter")


class CopyKind(str, enum.Enum):
    """Direction and kind of memory of a copy."""

    MADE = "made on the CPU"
    """To the device, of a tensor just created on the CPU."""
    PAGEABLE = "pageable"
    """To the device, from memory that is not pinned."""
    PINNED = "pinned"
    TO_HOST = "to host"
    """From the device, of more than ``SMALL`` bytes."""


@dataclass(frozen=True, eq=False)
class CopyCost:
    """Copies of one kind; times in ns of all steady steps."""

    kind: CopyKind
    rows: Int64
    outer: Int64
    """The operators, or calls, that copied."""
    size: int
    """Bytes."""
    little: int
    """Number of copies of less than ``LITTLE`` bytes."""
    alone: Intervals
    """When the device copied and did nothing else."""
    waited: int
    """Time in which the host waited for them."""
    caused: int
    """Idle time of the device caused by those waits."""

    @property
    def exposed(self) -> int:
        """ns in which the device copied and did nothing else."""
        return self.alone.total


@trace_fact
def copy_costs(analysis: TraceAnalysis) -> dict[CopyKind, CopyCost]:
    """Cost of copies between host and device, by kind. Unknown if the trace shows no GPU."""
    copies = host_copies(analysis)
    created = np.isin(copies.outer, made_on_cpu(analysis)[0]) & (copies.outer != NONE)
    to_device = copies.to_device
    masks = {
        CopyKind.MADE: to_device & created,
        CopyKind.PAGEABLE: to_device & ~created & copies.pageable,
        CopyKind.PINNED: to_device & ~created & ~copies.pageable,
        CopyKind.TO_HOST: ~to_device & (copies.size > SMALL),
    }
    return {kind: _cost(analysis, copies, kind, m) for kind, m in masks.items() if m.any()}


def _cost(analysis: TraceAnalysis, copies: Copies, kind: CopyKind, mask: Mask) -> CopyCost:
    trace, waits = analysis.trace, host_waits(analysis)
    rows, outer = copies.rows[mask], np.unique(copies.outer[mask])
    mine = np.isin(waits.rows, outer)
    copying = kinds.busy(trace, rows)
    return CopyCost(
        kind,
        rows,
        outer[outer != NONE],
        int(copies.size[mask].clip(min=0).sum()),
        int(np.count_nonzero(copies.size[mask] < LITTLE)),
        subtract(copying, _others(trace, waits.steps, copying)),
        int(waits.lasting[mine].sum()),
        int(waits.cost[mine].sum()),
    )


def _others(trace: Trace, steps: TraceSteps, during: Intervals) -> Intervals:
    """Time in which the device does anything but copy, around ``during``."""
    works = trace.in_category(*DEVICE_ACTIVITY) & ~trace.in_category(MEMCPY) & steps.on_device
    work = np.flatnonzero(works)
    if len(during):
        near = trace.start[work] < during.end[-1]
        work = work[near & (trace.ends_of(work) > during.start[0])]
    return kinds.busy(trace, work)


@trace_fact
def freeing(analysis: TraceAnalysis) -> int:
    """Idle time of the device while the training thread frees the memory of a batch copied from
    pageable memory, ns in all steady steps; 0 without batches from workers.

    A batch comes in memory shared with the worker that made it. Unless it is pinned, which a thread
    of the loader does, the training thread itself maps that memory, and unmaps it once the next
    batch is there.
    """
    trace, waits = analysis.trace, host_waits(analysis)
    pageable = copy_costs(analysis).get(CopyKind.PAGEABLE)
    if pageable is None or not any(_WORKERS.match(name) for name in trace.names):
        return 0
    main = np.flatnonzero(trace.track == main_track(trace))
    fetched = np.flatnonzero(kinds.input_wait(trace)[main])
    fetched = fetched[waits.steps.inside[main[fetched]]]
    ends = trace.ends_of(main[fetched])
    following = np.searchsorted(trace.start[main], ends)
    has_next = following < len(main)
    behind = union(ends[has_next], trace.start[main][following[has_next]])
    return min(intersect(behind, idle_of_host(analysis)).total, round(pageable.size * FREEING))


MANY_COPIES = 50
"""Fewest copies a step that are many; nsys-ai."""

ENQUEUE = 10_000
"""ns for the host to start a copy: an operator, a call of the runtime."""


@rule(
    when="batches are copied to the GPU from pageable (not pinned) memory",
    limits=Limits(info=0.01),
    answer="pass pin_memory=True to the DataLoader, and copy with .to(device, non_blocking=True)",
)
def pageable_copies(facts: Facts) -> Lost | None:
    """The driver copies pageable memory twice, and the host launches nothing meanwhile. Only both
    options together let copies overlap with computation."""
    steps, step = device_steps(facts), window_step(facts)
    pageable = copy_costs(facts).get(CopyKind.PAGEABLE)
    if pageable is None or _both_ways(facts, copy_costs(facts)):
        return None
    waits, place = host_waits(facts), rows_place(facts, pageable.outer)
    loader = training_loader(facts)
    # Batches of a loader that pins are freed elsewhere.
    free = 0 if loader and loader.pin_memory else freeing(facts)
    idle = min(pageable.caused + free, waits.idle)
    count = max(steps.steps, 1)
    # The step loses what the host would save, as far as the device has to wait for it.
    pinned = max(pageable.exposed - pageable.size // PINNED_RATE, 0)
    cost = min(per_step(facts, idle) + pinned // count, (pageable.waited + free) // count)
    return Lost(
        cost,
        step,
        f"Batches are copied to the GPU from pageable memory{place.at}: "
        f"{fmt.size(pageable.size / count)}{' a step' if step.count else ''}, for which the "
        f"{'step' if step.count else 'training'} waits {step.part_of(cost)}.",
        (
            Figure("copied a step", pageable.size // count, "B"),
            Figure("copying, nothing else running", pageable.exposed // count, "ns"),
            Figure("the host waits for them", pageable.waited // count, "ns"),
            *((Figure("freeing the memory of batches", free // count, "ns"),) if free else ()),
            Figure("profiled steps", steps.steps, "count"),
        ),
        label="pageable copies",
        place=place,
        parts=_parts(pageable, free),
    )


def _both_ways(facts: Facts, copies: dict[CopyKind, CopyCost]) -> bool:
    """Whether the step waits for copies to the GPU from pageable memory and for copies back: one
    cause, which is told once."""
    least = (
        copies_exposed.limits.warning * window_step(facts).mean * max(device_steps(facts).steps, 1)
    )
    both = [copies.get(kind) for kind in (CopyKind.PAGEABLE, CopyKind.TO_HOST)]
    return all(copy is not None and copy.exposed >= least for copy in both)


@rule(
    when="the GPU copies from or to the host without computing",
    limits=Limits(),
    answer=(
        "reduce outputs on the GPU before copying; pin batches, and copy the next one on another "
        "stream"
    ),
)
def copies_exposed(facts: Facts) -> Lost | None:
    """The host seldom needs whole outputs."""
    steps, step = device_steps(facts), window_step(facts)
    copies = copy_costs(facts)
    is_both = _both_ways(facts, copies)
    kinds_told = (CopyKind.TO_HOST, CopyKind.PINNED, *([CopyKind.PAGEABLE] if is_both else ()))
    costs = [copies[kind] for kind in kinds_told if kind in copies]
    count = max(steps.steps, 1)
    # Copies both ways at the same time count once.
    total = unite(*(one_way.alone for one_way in costs)).total // count
    if not costs or not total:
        return None
    most = max(costs, key=lambda copy: copy.exposed)
    place = rows_place(facts, most.outer)
    share = total / step.mean if step.mean else 0.0
    way = "to the host" if most.kind is CopyKind.TO_HOST else "to the GPU"
    what = f"mostly {fmt.size(most.size / count)} {way}"
    if is_both:
        there, back = (copies[kind].size / count for kind in (CopyKind.PAGEABLE, CopyKind.TO_HOST))
        what = f"{fmt.size(there)} to the GPU from pageable memory and {fmt.size(back)} back"
    return Lost(
        min(total, step.mean),
        step,
        f"The GPU copies for {step.part_of(total)} without computing, {what}{place.at}.",
        (
            Figure.share("exposed copies", share, copies_exposed.limits.warning),
            *(
                Figure(f"copied, {copy.kind.value}", copy.size // count, "B", place=place)
                for copy in costs
            ),
            Figure("profiled steps", steps.steps, "count"),
        ),
        place=place,
        parts=(EXPOSED_COPIES,),
        advice="pin memory, copy with non_blocking=True, and keep what goes back and forth"
        if is_both
        else "",
    )


@rule(
    when="tensors are created on the CPU and then copied to the GPU",
    limits=Limits(info=0.01),
    answer="create tensors with device=x.device, or once before the loop in a buffer of the module",
)
def created_on_cpu(facts: Facts) -> Lost | None:
    """torch.full, arange, zeros, randn or tensor without device= create the tensor on the CPU, and
    .to(device) copies it while the host waits."""
    steps, step = device_steps(facts), window_step(facts)
    copying = copy_costs(facts).get(CopyKind.MADE)
    copied, first, maker, lasting = made_on_cpu(facts)
    if copying is None or not len(copied):
        return None
    trace, count = steps.analysis.trace, max(steps.steps, 1)
    host = int(lasting.sum()) - len(copied) * ENQUEUE
    lost = min(max(host, 0), host_waits(facts).idle + copying.exposed)
    cost = min(per_step(facts, lost), step.mean)
    longest = maker[trace.duration[maker].argmax()]
    chains = union(trace.start[first], trace.ends_of(copied))
    place = rows_place(facts, maker, trace.name_of(int(longest)), chains)
    place = with_line(facts, place, None) or place
    number = len(copied) // count
    return Lost(
        cost,
        step,
        f"{fmt.several(number, 'tensor')}{' of each step' if step.count else ''} "
        f"{'is' if number == 1 else 'are'} created on the CPU and then copied to the GPU "
        f"({place.operator}{place.at}): this takes {step.part_of(cost)}.",
        (
            Figure("tensors a step", number, "count"),
            Figure("copied a step", copying.size // count, "B"),
            Figure("profiled steps", steps.steps, "count"),
        ),
        label="made on the CPU",
        place=place,
        parts=_parts(copying, 0),
    )


@rule(
    when="many small copies between the host and the GPU in each step",
    limits=Limits("nsys-ai reports 50 copies below 64 KiB.", info=0.01),
    answer="stack the values where the batch is made, and copy them once",
)
def many_small_copies(facts: Facts) -> Lost | None:
    """Each copy takes about 10 µs to start, however small."""
    steps, step = device_steps(facts), window_step(facts)
    others = [copy for copy in copy_costs(facts).values() if copy.kind is not CopyKind.MADE]
    count = max(steps.steps, 1)
    little = sum(copy.little for copy in others)
    if not steps.steps or little < MANY_COPIES * count:
        return None
    most = max(others, key=lambda copy: copy.little)
    number = little // count
    lost = sum(copy.exposed + copy.caused for copy in others if copy.little > len(copy.rows) // 2)
    cost = min(per_step(facts, lost), step.mean)
    place = rows_place(facts, most.outer)
    return Lost(
        cost,
        step,
        f"{number} copies of less than {fmt.size(LITTLE)} in each step{place.at} take "
        f"{step.part_of(cost)}.",
        (
            Figure("small copies a step", number, "count", MANY_COPIES),
            Figure("profiled steps", steps.steps, "count"),
        ),
        label="small copies",
        place=place,
        parts=_parts(most, 0),
    )


def _parts(cost: CopyCost, free: int) -> tuple[str, ...]:
    """Parts of the step that contain the copies: the copying, and the idle time around it."""
    parts = [EXPOSED_COPIES] if cost.exposed else []
    if cost.caused or cost.kind is CopyKind.MADE:
        parts += [GapCause.SYNCHRONISATION.value, GapCause.LAUNCH.value]
    if cost.kind is CopyKind.MADE:
        # Operators that create the tensors.
        parts.append(GapCause.CPU_OPERATORS.value)
    # A host that waits so long is late with its Python, too.
    if free or cost.caused > cost.exposed:
        parts.append(GapCause.PYTHON.value)
    return tuple(parts)
