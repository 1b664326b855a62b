"""A GPU's memory runs short."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.gpu.memory import gpu_memory, peak_reserved
from perftui.facts.kernel.fill import fills_few
from perftui.facts.place import Place
from perftui.facts.step.steady import median
from perftui.facts.step.steps import steady_rows, step_count
from perftui.trace.model import Int64

FEWEST = 20
"""Steps whose memory is known."""

MOST = 200
"""Steps that are compared with each other."""

LEAST = 32 << 20
"""Bytes over all steps: less is noise of the allocator."""

NOISE = 4.0
"""Times the median deviation from the slope that it has to come to."""


@dataclass(frozen=True)
class MemoryGrowth:
    """Sizes in bytes."""

    each_step: float
    whole: float
    """Over all ``steps``."""
    steps: int
    median: float
    """Median of the bytes held at the end of a step."""


@fact
def memory_growth(facts: Facts) -> MemoryGrowth | None:
    """Growth of memory by the median slope between any two steps (Theil and Sen); None where it
    does not grow in both halves of the steady steps, beyond its noise, or too few steps tell."""
    memory, steady = gpu_memory(facts), steady_rows(facts)
    if memory is None or not len(steady):
        return None
    known = memory.step >= int(steady["index"][0])
    step, held = memory.step[known], memory.allocated[known]
    if len(step) < FEWEST:
        return None
    chosen = np.linspace(0, len(step) - 1, min(len(step), MOST)).astype(np.int64)
    step, held = step[chosen], held[chosen]
    each = _slope(step, held)
    steps = int(step[-1] - step[0])
    half = len(step) // 2
    lowest = min(_slope(step[:half], held[:half]), _slope(step[half:], held[half:]))
    noise = median(np.abs(held - held[0] - each * (step - step[0])))
    if each * steps < max(LEAST, NOISE * noise) or lowest < each / 2:
        return None
    return MemoryGrowth(each, each * steps, steps, max(median(held), 1.0))


def _slope(step: Int64, held: Int64) -> float:
    """Median slope over all pairs, bytes a step."""
    one, other = np.triu_indices(len(step), 1)
    return median((held[other] - held[one]) / (step[other] - step[one]))


OFTEN = 0.01
"""Share of the steps with allocations tried again that takes time; the first few do not."""

FRAGMENTED = 2.0
"""Times as much reserved as tensors ever held; TraceML."""

HALF, BUSY = 0.5, 0.7
"""Memory below, and use of the card below, where a larger batch is worth a word; SageMaker."""


def _pressure(facts: Facts) -> Lost | None:
    """GPU memory that is nearly full: the cost is 0, what is at stake is the run."""
    if has_gpu(facts) is False:
        return None
    host, reserved = machine_use(facts), peak_reserved(facts)
    if not host.memory:
        raise UnknownError(
            f"which of {fmt.several(host.cards, 'GPU')} the training uses is not known"
            if host.cards
            else "GPU memory was not sampled"
        )
    fullest = max(host.memory, key=lambda memory: memory.share)
    place = Place(rank=facts.rank_number)
    figures = [
        Figure.share("peak memory in use", fullest.share, PRESSURE.limits.warning, place),
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
    return Lost(
        0,
        None,
        f"{fullest.name} has used {fmt.size(fullest.peak)} of its "
        f"{fmt.size(fullest.total)} ({fmt.percent(fullest.share)}): "
        f"a larger batch or a longer sample may not fit.{tried}",
        tuple(figures),
        share=fullest.share,
        worst=_worst(facts, retries, failures),
    )


def _worst(facts: Facts, retries: int, failures: int) -> Severity:
    """A card that is nearly full loses no time: only allocations that fail do."""
    if failures or retries > OFTEN * max(step_count(facts), 1):
        return Severity.CRITICAL
    return Severity.WARNING if retries else Severity.INFO


def _fragmented(facts: Facts) -> Lost | None:
    """Between what PyTorch holds and what tensors ever held at once; freed caches aside."""
    if has_gpu(facts) is False:
        return None
    used, machine = gpu_memory(facts), machine_use(facts)
    if used is None or not machine.memory:
        return None
    if not used.knows_peak:
        raise UnknownError("how much memory tensors took within steps was not recorded")
    total = max(memory.total for memory in machine.memory)
    share = used.peak_reserved / total
    if used.peak_reserved < FRAGMENTED * max(used.peak_allocated, 1):
        return None
    return Lost(
        0,
        None,
        f"PyTorch reserves {fmt.size(used.peak_reserved)} of GPU memory, though tensors never took "
        f"more than {fmt.size(used.peak_allocated)}: the rest is in pieces too small to use.",
        (
            Figure("reserved by PyTorch", used.peak_reserved, "B"),
            Figure("peak in tensors", used.peak_allocated, "B"),
            Figure.share("reserved, of the card", share, FRAGMENTATION.limits.warning),
        ),
        share=share,
        worst=_worst(facts, used.retries or 0, used.failures or 0),
    )


def _growing(facts: Facts) -> Lost | None:
    if has_gpu(facts) is False:
        return None
    growth = memory_growth(facts)
    if growth is None:
        return None
    share = growth.each_step * 100 / growth.median
    return Lost(
        0,
        None,
        f"GPU memory in tensors grows by {fmt.size(growth.each_step)} per step, "
        f"{fmt.size(growth.whole)} over {growth.steps} steps: each step leaves something behind.",
        (
            Figure("a step", round(growth.each_step), "B"),
            Figure.share("growth in 100 steps", share, GROWTH.limits.warning),
            Figure("over so many steps", growth.steps, "count"),
        ),
        share=share,
        worst=Severity.WARNING,
    )


def _headroom(facts: Facts) -> Lost | None:
    if has_gpu(facts) is False:
        return None
    machine, reserved = machine_use(facts), peak_reserved(facts)
    if not machine.memory or machine.gpu_busy is None:
        return None
    fullest = max(machine.memory, key=lambda memory: memory.share)
    if reserved is None or fullest.share > HALF or machine.gpu_busy >= BUSY or fills_few(facts):
        return None
    return Lost(
        0,
        None,
        f"{fullest.name} is busy {fmt.percent(machine.gpu_busy)} of the time and has used "
        f"{fmt.percent(fullest.share)} of its memory: a larger batch would fit.",
        (
            Figure.share("peak memory in use", fullest.share),
            Figure.share("GPU busy", machine.gpu_busy),
        ),
        share=1 - fullest.share,
        worst=Severity.INFO,
    )


PRESSURE = Rule(
    id="memory-pressure",
    when="the GPU's memory is nearly used up",
    explanation=(
        "At its peak the GPU had little memory left: a longer sample or a larger batch would end "
        "the run. That alone costs no time, as long as no allocation is retried. Activation "
        "checkpointing, lower precision or gradient accumulation need less memory."
    ),
    lost=_pressure,
    limits=Limits(
        0.90,
        0.97,
        "The TensorBoard plugin and TraceML warn at 90 %; beyond 97 % there is no room for one "
        "more allocation of the usual size.",
        of="of its memory",
    ),
    answer="activation checkpointing, lower precision, smaller batches",
)

FRAGMENTATION = Rule(
    id="fragmentation",
    when="much more GPU memory is reserved than tensors ever took",
    explanation=(
        "Tensors of ever-changing sizes leave gaps in the memory that PyTorch reserves, and the "
        "next tensor does not fit into them. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "lets PyTorch grow its segments; or pad to a few sizes."
    ),
    lost=_fragmented,
    limits=Limits(0.30, 0.90, "TraceML reports it from 30 % of the card.", of="of its memory"),
    fixes=("expandable-segments",),
    answer="expandable segments, fewer different sizes",
)

GROWTH = Rule(
    id="memory-growth",
    when="GPU memory held by tensors grows from step to step",
    explanation=(
        "Something that each step creates is kept: a loss summed with its graph (total += loss), "
        "outputs in a list, hooks. Use loss.detach() or .item() for values that are only logged. "
        "Otherwise it ends in an out-of-memory error."
    ),
    lost=_growing,
    limits=Limits(0.015, 1.0, "TraceML warns at 1.5 % in 100 steps.", of="of it in 100 steps"),
    answer="detach what is kept",
)

HEADROOM = Rule(
    id="memory-headroom",
    when="half of the GPU's memory is free and the GPU is often idle",
    explanation=(
        "A larger batch gives the GPU more work per launch. It changes the training: adjust the "
        "learning rate."
    ),
    lost=_headroom,
    limits=Limits(
        HALF,
        1.0,
        "SageMaker reports a card that is busy less than 70 % of the time.",
        of="of its memory free",
    ),
    answer="larger batches, if training allows",
)
