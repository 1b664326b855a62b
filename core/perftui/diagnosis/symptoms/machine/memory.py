"""The GPU's memory runs short, or has room for a larger batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.diagnosis.symptoms.operators.work import PARTS, kernel_work
from perftui.diagnosis.symptoms.step.growth import memory_growth
from perftui.facts.cpu.machine import DeviceMemory, has_gpu, machine_use
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.cards import gpu_memory, peak_reserved, trace_card
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.facts.place import Place
from perftui.facts.source.operator_lines import forward_lines, with_line
from perftui.facts.step.steps import median, steady_rows, step_count
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import Int64, TraceError

MOST_READ = 600
RUNS = 3
"""Kernels whose launches are read, and the number of evenly spaced runs they are read in: each run
reads a piece or two of the file, 2 ms each."""

_NOT_OF_THE_BATCH = (Category.COMMUNICATION, Category.OPTIMIZER)
"""Kernels that take as long for any batch."""

FEW = 0.5
"""Blocks per multiprocessor up to which a kernel fills few of them. Good kernels may have slightly
fewer than one for each: matrix products on 132 of them often have 128."""

MUCH = 0.30
"""Share of the time of all kernels from which the batch is small. A ResNet-50 on an H100 has 0.43
of it in such kernels with 4 images a step, less than 0.12 with 128."""


@trace_fact
def fill(analysis: TraceAnalysis) -> tuple[float, float, Place]:
    """Kernels launched with so few blocks that half of the card's multiprocessors have none: their
    share of the time of all kernels of a step, 0 to 1; that of what empty multiprocessors could
    have computed meanwhile; and the launch place of the longest. Unknown if the trace does not say
    how kernels were launched, or on which card."""
    kernels, card = step_kernels(analysis), trace_card(analysis)
    if not card.multiprocessors:
        raise UnknownError("the trace does not record how many multiprocessors the card has")
    read = kernels.where(_chosen(len(kernels)))
    blocks = _blocks(read)
    has_blocks, duration = blocks > 0, read.duration
    if not has_blocks.any() or not duration[has_blocks].sum():
        raise UnknownError("the trace does not record the number of blocks per kernel launch")
    few = has_blocks & (blocks <= FEW * card.multiprocessors) & ~read.are(*_NOT_OF_THE_BATCH)
    whole, time, chosen = int(duration[has_blocks].sum()), duration[few], read.where(few)
    unused = float((time * (1 - blocks[few] / card.multiprocessors)).sum())
    return int(time.sum()) / whole, unused / whole, chosen.place if few.any() else Place()


def _chosen(count: int) -> Int64:
    """Indices of the kernels that are read, out of ``count``."""
    if count <= MOST_READ:
        return np.arange(count)
    length = MOST_READ // RUNS
    first = np.linspace(0, count - length, RUNS).astype(np.int64)
    return (first[:, None] + np.arange(length)).ravel()


def _blocks(kernels: StepKernels) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Blocks of each kernel; 0 if unknown."""
    trace = kernels.analysis.trace
    of_row: dict[int, int] = {}
    try:
        for row, arguments in arguments_of(trace, kernels.rows):
            grid = arguments.get("grid", [arguments.get(f"grid{side}") for side in "XYZ"])
            if isinstance(grid, list) and all(isinstance(side, int) for side in grid):
                of_row[row] = math.prod(grid)
    except TraceError as error:
        raise UnknownError(str(error)) from error
    return np.array([of_row.get(row, 0) for row in kernels.rows.tolist()], dtype=np.int64)


FEWEST = 20
"""Fewest steps with known memory."""

MOST = 200
"""Most steps compared with each other."""

LEAST = 32 << 20
"""Least growth over all steps, bytes: less is noise of the allocator."""

NOISE = 4.0
"""Least growth in multiples of the median deviation from the slope."""


def _slope(step: Int64, sizes: Int64) -> float:
    """Median slope over all pairs, bytes per step."""
    first, second = np.triu_indices(len(step), 1)
    return median((sizes[second] - sizes[first]) / (step[second] - step[first]))


OFTEN = 0.01
"""Share of steps with retried allocations that takes time; the first few do not."""

FRAGMENTED = 2.0
"""Ratio of reserved memory to the tensors' peak; TraceML."""

HALF_IN_USE, BUSY = 0.5, 0.7
"""Share of memory and use of the card below which a larger batch is suggested; SageMaker."""


@trace_fact
def recorded_memory(analysis: TraceAnalysis) -> tuple[DeviceMemory, ...]:
    """What PyTorch reserved of each GPU whose size the trace names, by the totals beside its
    allocations: at least so much was in use."""
    memory, sizes = analysis.trace.memory, {}
    listed = analysis.trace.metadata.get("deviceProperties")
    for card in listed if isinstance(listed, list) else []:
        total = card.get("totalGlobalMem") if isinstance(card, dict) else None
        if isinstance(total, int) and total > 0:
            sizes[card.get("id")] = total
    peaks = ((device, memory.reserved[(memory.device_type != 0) & (memory.device == device)])
             for device in sizes)  # fmt: skip
    return tuple(
        DeviceMemory(f"gpu{device}", sizes[device], int(peak.max()))
        for device, peak in peaks
        if peak.max(initial=0) > 0
    )


@rule(
    when="the GPU's memory is nearly used up",
    limits=Limits(
        "The TensorBoard plugin and TraceML warn at 90 %.", 0.90, 0.97, of="of its memory"
    ),
    answer="use activation checkpointing, lower precision or smaller micro-batches",
)
def memory_pressure(facts: Facts) -> Lost | None:
    """A longer sample would end the run. Until allocations are retried, that costs no time."""
    # GPU memory that is nearly full: it costs no time, but may end the run.
    if has_gpu(facts) is False:
        return None
    host, reserved = machine_use(facts), peak_reserved(facts)
    known, who = host.memory, ""
    if facts.run is None and not known:
        known, who = recorded_memory.or_none(facts) or (), "PyTorch on "
    if not known:
        raise UnknownError(
            f"which of {fmt.several(host.cards, 'GPU')} the training uses is not known"
            if host.cards
            else "GPU memory was not sampled"
        )
    fullest = max(known, key=lambda memory: memory.share)
    place = Place(rank=facts.rank_number)
    figures = [
        Figure.share("peak memory in use", fullest.share, memory_pressure.limits.warning, place),
        Figure("peak", fullest.peak, "B", place=place),
        Figure("total", fullest.total, "B", place=place),
    ]
    if reserved is not None:
        figures.append(Figure("reserved by PyTorch", reserved, "B", place=place))
    used = gpu_memory(facts)
    retries, failures = (used.retries or 0, used.failures or 0) if used else (0, 0)
    if retries or failures:
        figures.append(Figure("allocation retries", retries, "count", place=place))
    tried = f" {fmt.several(retries, 'allocation')} had to be retried." if retries else ""
    return without_cost(
        f"{who}{fullest.name} has used {fmt.size(fullest.peak)} of its "
        f"{fmt.size(fullest.total)} ({fmt.percent(fullest.share)}): "
        f"a larger batch or a longer sample may not fit.{tried}",
        tuple(figures),
        share=fullest.share,
        worst=_worst(facts, retries, failures),
    )


def _worst(facts: Facts, retries: int, failures: int) -> Severity:
    """Highest severity: a nearly full card loses no time, only failing allocations do."""
    if failures or retries > OFTEN * max(step_count(facts), 1):
        return Severity.CRITICAL
    return Severity.WARNING if retries else Severity.INFO


@rule(
    when="much more GPU memory is reserved than tensors ever took",
    limits=Limits("As in TraceML.", 0.30, 0.90, of="of its memory"),
    fixes=("expandable-segments",),
    answer="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad tensors to a few sizes",
)
def fragmentation(facts: Facts) -> Lost | None:
    """Tensors of ever-changing sizes leave gaps in the memory that PyTorch reserves, and the next
    tensor does not fit into them."""
    # Difference between PyTorch's reserved memory and the tensors' peak; freed caches aside.
    if has_gpu(facts) is False:
        return None
    used, machine = gpu_memory(facts), machine_use(facts)
    if used is None or not machine.memory:
        return None
    if not used.knows_peak:
        raise UnknownError("how much memory tensors took within steps was not recorded")
    share = used.peak_reserved / max(memory.total for memory in machine.memory)
    if used.peak_reserved < FRAGMENTED * max(used.peak_allocated, 1):
        return None
    return without_cost(
        f"PyTorch reserves {fmt.size(used.peak_reserved)} of GPU memory, though tensors never took "
        f"more than {fmt.size(used.peak_allocated)}: the rest is in pieces too small to use.",
        (
            Figure("reserved by PyTorch", used.peak_reserved, "B"),
            Figure("peak in tensors", used.peak_allocated, "B"),
            Figure.share("reserved, of the card", share, fragmentation.limits.warning),
        ),
        share=share,
        worst=_worst(facts, used.retries or 0, used.failures or 0),
    )


def _growing(facts: Facts) -> Lost | None:
    """Growth of memory by the median slope between any two steps (Theil-Sen), if it is beyond its
    noise in both halves of the steady steps."""
    memory, steady = gpu_memory(facts), steady_rows(facts)
    if has_gpu(facts) is False or memory is None or not len(steady):
        return None
    is_steady = memory.step >= int(steady["index"][0])
    step, sizes = memory.step[is_steady], memory.allocated[is_steady]
    if len(step) < FEWEST:
        return None
    chosen = np.linspace(0, len(step) - 1, min(len(step), MOST)).astype(np.int64)
    step, sizes = step[chosen], sizes[chosen]
    slope, steps, half = _slope(step, sizes), int(step[-1] - step[0]), len(step) // 2
    lowest = min(_slope(step[:half], sizes[:half]), _slope(step[half:], sizes[half:]))
    noise = median(np.abs(sizes - sizes[0] - slope * (step - step[0])))
    if slope * steps < max(LEAST, NOISE * noise) or lowest < slope / 2:
        return None
    share = slope * 100 / max(median(sizes), 1.0)
    return without_cost(
        f"GPU memory in tensors grows by {fmt.size(slope)} per step, "
        f"{fmt.size(slope * steps)} over {steps} steps: each step leaves something behind.",
        (
            Figure("a step", round(slope), "B"),
            Figure.share("growth in 100 steps", share, GROWTH.limits.warning),
            Figure("over so many steps", steps, "count"),
        ),
        share=share,
        worst=Severity.WARNING,
    )


@rule(
    when="half of the GPU's memory is free and the GPU is often idle",
    limits=Limits(
        "SageMaker reports a card that is busy less than 70 %.",
        HALF_IN_USE,
        1.0,
        of="of its memory free",
    ),
    answer="use larger batches, and adjust the learning rate",
)
def memory_headroom(facts: Facts) -> Lost | None:
    """A larger batch gives the GPU more work per launch."""
    if has_gpu(facts) is False:
        return None
    machine, reserved = machine_use(facts), peak_reserved(facts)
    if not machine.memory or machine.gpu_busy is None:
        return None
    fullest = max(machine.memory, key=lambda memory: memory.share)
    if reserved is None or fullest.share > HALF_IN_USE or machine.gpu_busy >= BUSY:
        return None
    if (filled := fill.or_none(facts)) and filled[0] >= MUCH:
        # Kernels with few blocks take much of the time.
        return None
    return without_cost(
        f"{fullest.name} is busy {fmt.percent(machine.gpu_busy)} of the time and has used "
        f"{fmt.percent(fullest.share)} of its memory: a larger batch would fit.",
        (
            Figure.share("peak memory in use", fullest.share),
            Figure.share("GPU busy", machine.gpu_busy),
        ),
        share=1 - fullest.share,
        worst=Severity.INFO,
    )


GROWTH = replace(
    memory_growth,
    lost=_growing,
    limits=Limits("TraceML warns at 1.5 % in 100 steps.", 0.015, 1.0, of="of it in 100 steps"),
)
"""Growth of the GPU's memory, if that of the processes does not grow."""

HALF = 0.5
"""Share of memory in use above which a larger batch may not fit."""

WORTH = 0.10
"""Gain, as a share of the step, for a warning: other waits of the GPU stay as they are."""


@rule(
    when="kernels have too few blocks to fill the GPU, and its memory is mostly free",
    limits=Limits(
        "A ResNet-50 on an H100 has 43 % with 4 images, below 12 % with 128.",
        MUCH,
        1.0,
        of="of GPU compute",
    ),
    answer="use larger batches or fewer micro-batches, and adjust the learning rate",
)
def small_batch(facts: Facts) -> Lost | None:
    """A multiprocessor without a block does nothing, so a larger batch takes no longer while some
    are empty. The cost is what these could have computed, where the step waits for the GPU."""
    # The gain is what the empty part of the card would have computed meanwhile.
    work = kernel_work(facts)
    memory, analysis = machine_use(facts).memory, work.kernels.analysis
    used = max((gpu.share for gpu in memory), default=0.0)
    small = fill(analysis) if memory else fill.or_none(facts)
    share, empty, place = small or (0.0, 0.0, Place())
    if share < MUCH or used > HALF:
        return None
    if not memory:
        raise UnknownError("how much of the GPU's memory a larger batch could take is not known")
    cost, row = work.won(work.kernels.time * empty), place.trace_row
    return Lost(
        cost,
        work.of,
        f"Kernels that leave at least half of the GPU empty take {fmt.percent(share)} of its "
        f"time, and {fmt.percent(used)} of its memory is in use: a larger batch takes less time "
        "per sample, but changes the training.",
        (
            Figure.share("of GPU compute in kernels of few blocks", share, MUCH),
            Figure("multiprocessors", trace_card(analysis).multiprocessors, "count"),
            Figure.share("peak memory in use", used),
            Figure(
                "for example", analysis.trace.name_of(row) if row is not None else "", place=place
            ),
            work.steps,
        ),
        with_line(facts, place, forward_lines.or_none(facts)),
        PARTS,
        share=share,
        worst=Severity.WARNING if cost >= WORTH * work.of.mean else Severity.INFO,
    )
