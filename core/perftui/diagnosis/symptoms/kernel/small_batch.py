"""The batch is so small that kernels leave most of the GPU empty."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.kernel.fill import MUCH, fill
from perftui.facts.source.operator_lines import forward_lines, with_line

HALF = 0.5
"""Share of its memory in use above which a larger batch may not fit."""

WORTH = 0.10
"""Share of the step that must be won for a warning: other waits of the GPU stay as they are."""


def _small(facts: Facts) -> Lost | None:
    """Won is what the empty part of the card would have computed meanwhile."""
    work = kernel_work(facts)
    memory = machine_use(facts).memory
    used = max((one.share for one in memory), default=0.0)
    found = fill(work.kernels.analysis) if memory else fill.or_none(facts)
    if found is None or found.share < MUCH or used > HALF:
        return None
    if not memory:
        raise UnknownError("how much of the GPU's memory a larger batch could take is not known")
    cost = work.won(work.kernels.time * found.empty)
    return Lost(
        cost,
        work.of,
        f"Kernels that leave at least half of the GPU empty take {fmt.percent(found.share)} of its "
        f"time, and {fmt.percent(used)} of its memory is in use: a larger batch takes less time "
        "per sample, but changes the training.",
        (
            Figure.share("of GPU compute in kernels of few blocks", found.share, MUCH),
            Figure("multiprocessors", found.multiprocessors, "count"),
            Figure.share("peak memory in use", used),
            Figure("for example", found.example, place=found.place),
            work.steps,
        ),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
        share=found.share,
        worst=Severity.WARNING if cost >= WORTH * work.of.mean else Severity.INFO,
    )


SMALL_BATCH = Rule(
    id="small-batch",
    when="kernels have too few blocks to fill the GPU, and its memory is mostly free",
    explanation=(
        "A multiprocessor without a block of the kernel does nothing. A larger batch has more "
        "blocks, and takes no longer while some multiprocessors are empty. It changes the "
        "training: adjust the learning rate; with gradient accumulation, use fewer and larger "
        "micro-batches. The cost is what the empty multiprocessors could have computed, counted "
        "only where the step waits for the GPU."
    ),
    lost=_small,
    limits=Limits(
        MUCH,
        1.0,
        "A ResNet-50 on an H100 is at 43 % with 4 images a step, below 12 % with 128; only a hint "
        "if it would gain less than a tenth of the step.",
        of="of GPU compute",
    ),
    answer="larger batches, if training allows",
)
