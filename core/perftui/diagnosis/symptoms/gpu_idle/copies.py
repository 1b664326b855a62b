"""Copies between the host and the GPU that the step waits for."""

from __future__ import annotations

from pathlib import PurePath

from perftui import format as fmt
from perftui.analysis.intervals import union, unite
from perftui.analysis.model import GapCause
from perftui.analysis.steps.parts import EXPOSED_COPIES
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts
from perftui.facts.gpu.copies import LITTLE, CopyCost, CopyKind, copy_costs, freeing
from perftui.facts.gpu.cpu_made import made_on_cpu
from perftui.facts.gpu.device_share import part_of, per_step, window_step
from perftui.facts.gpu.gpu import device_steps
from perftui.facts.gpu.host_waits import host_waits
from perftui.facts.place import Place
from perftui.facts.source.forward_line import with_line
from perftui.facts.source.host_lines import place_of_rows
from perftui.facts.step.step_breakdown import StepBreakdown

MANY_COPIES = 50
"""Copies a step below which they are not many; nsys-ai."""

ENQUEUE = 10_000
"""ns that the host takes to start a copy: an operator, a call of the runtime."""


def _pageable(facts: Facts) -> Lost | None:
    steps, step = device_steps(facts), window_step(facts)
    found = copy_costs(facts).get(CopyKind.PAGEABLE)
    if found is None:
        return None
    waits = host_waits(facts)
    free = 0 if _is_pinned(facts) else freeing(facts)
    idle = min(found.caused + free, waits.idle)
    count = max(steps.steps, 1)
    # The step loses what the host would save, as far as the device has to wait for it.
    cost = min(
        per_step(facts, idle) + found.saved_by_pinning // count, (found.waited + free) // count
    )
    return Lost(
        cost,
        step,
        f"Batches are copied to the GPU from pageable memory{_at(_place(facts, found))}: "
        f"{fmt.size(found.size / count)}{' a step' if step.count else ''}, for which the "
        f"{'step' if step.count else 'training'} waits {part_of(step, cost)}.",
        (
            Figure.share("pageable copies", _share(cost, step), PAGEABLE.limits.warning),
            Figure("copied a step", found.size // count, "B"),
            Figure("copying, nothing else running", found.exposed // count, "ns"),
            Figure("the host waits for them", found.waited // count, "ns"),
            *((Figure("freeing the memory of batches", free // count, "ns"),) if free else ()),
            Figure("profiled steps", steps.steps, "count"),
        ),
        place=_place(facts, found),
        parts=_parts(found, free),
    )


def _is_pinned(facts: Facts) -> bool:
    """Whether the run's loader is known to pin its batches."""
    loader = training_loader(facts)
    return bool(loader and loader.pin_memory)


def _exposed(facts: Facts) -> Lost | None:
    steps, step = device_steps(facts), window_step(facts)
    copies = copy_costs(facts)
    found = [copies[kind] for kind in (CopyKind.TO_HOST, CopyKind.PINNED) if kind in copies]
    count = max(steps.steps, 1)
    # Both ways at the same time is once.
    total = unite(*(each.alone for each in found)).total // count
    if not found or not total:
        return None
    most = max(found, key=lambda each: each.exposed)
    place = _place(facts, most)
    way = "to the host" if most.kind is CopyKind.TO_HOST else "to the GPU"
    return Lost(
        min(total, step.mean),
        step,
        f"The GPU copies for {part_of(step, total)} without computing, mostly "
        f"{fmt.size(most.size / count)} {way}{_at(place)}.",
        (
            Figure.share("exposed copies", _share(total, step), EXPOSED.limits.warning),
            *(
                Figure(f"copied, {each.kind.value}", each.size // count, "B", place=place)
                for each in found
            ),
            Figure("profiled steps", steps.steps, "count"),
        ),
        place=place,
        parts=(EXPOSED_COPIES,),
    )


def _made(facts: Facts) -> Lost | None:
    steps, step = device_steps(facts), window_step(facts)
    found, made = copy_costs(facts).get(CopyKind.MADE), made_on_cpu(facts)
    if found is None or not len(made.copies):
        return None
    trace, count = steps.analysis.trace, max(steps.steps, 1)
    host = int(made.lasting.sum()) - len(made.copies) * ENQUEUE
    lost = min(max(host, 0), host_waits(facts).idle + found.exposed)
    cost = min(per_step(facts, lost), step.mean)
    longest = made.maker[trace.duration[made.maker].argmax()]
    chains = union(trace.start[made.first], trace.ends_of(made.copies))
    place = place_of_rows(facts, made.maker, trace.name_of(int(longest)), chains)
    place = with_line(facts, place, None) or place
    each = len(made.copies) // count
    return Lost(
        cost,
        step,
        f"{fmt.several(each, 'tensor')}{' of each step' if step.count else ''} "
        f"{'is' if each == 1 else 'are'} created on the CPU and then copied to the GPU "
        f"({place.operator}{_at(place)}): this takes {part_of(step, cost)}.",
        (
            Figure.share("made on the CPU", _share(cost, step), CREATED.limits.warning),
            Figure("tensors a step", each, "count"),
            Figure("copied a step", found.size // count, "B"),
            Figure("profiled steps", steps.steps, "count"),
        ),
        place=place,
        parts=_parts(found, 0),
    )


def _many(facts: Facts) -> Lost | None:
    steps, step = device_steps(facts), window_step(facts)
    found = [each for each in copy_costs(facts).values() if each.kind is not CopyKind.MADE]
    count = max(steps.steps, 1)
    little = sum(each.little for each in found)
    if not steps.steps or little < MANY_COPIES * count:
        return None
    most = max(found, key=lambda each: each.little)
    each = little // count
    lost = sum(one.exposed + one.caused for one in found if one.little > len(one.rows) // 2)
    cost = min(per_step(facts, lost), step.mean)
    place = _place(facts, most)
    return Lost(
        cost,
        step,
        f"{each} copies of less than {fmt.size(LITTLE)} in each step{_at(place)} take "
        f"{part_of(step, cost)}.",
        (
            Figure.share("small copies", _share(cost, step), MANY.limits.warning),
            Figure("small copies a step", each, "count", MANY_COPIES),
            Figure("profiled steps", steps.steps, "count"),
        ),
        place=place,
        parts=_parts(most, 0),
    )


def _parts(found: CopyCost, free: int) -> tuple[str, ...]:
    """Where the time of copies lies: in the copying itself, and in the idle time around it."""
    parts = [EXPOSED_COPIES] if found.exposed else []
    if found.caused or found.kind is CopyKind.MADE:
        parts += [GapCause.SYNCHRONISATION.value, GapCause.LAUNCH.value]
    if found.kind is CopyKind.MADE:
        # Those that make the tensors.
        parts.append(GapCause.CPU_OPERATORS.value)
    # A host that waits so long has its Python done late, too.
    if free or found.caused > found.exposed:
        parts.append(GapCause.PYTHON.value)
    return tuple(parts)


def _place(facts: Facts, found: CopyCost) -> Place:
    return place_of_rows(facts, found.outer)


def _at(place: Place) -> str:
    return f" at {PurePath(place.source).name}" if place.source else ""


def _share(cost: int, step: StepBreakdown) -> float:
    return cost / step.mean if step.mean else 0.0


PAGEABLE = Rule(
    id="pageable-copies",
    when="batches are copied to the GPU from pageable (not pinned) memory",
    explanation=(
        "The driver copies pageable memory twice, through its own pinned buffer, and the host "
        "waits: it launches nothing meanwhile. Give the DataLoader pin_memory=True and copy with "
        ".to(device, non_blocking=True): only both together let the copy overlap with "
        "computation. If the data fits, keep it on the GPU."
    ),
    lost=_pageable,
    limits=Limits(
        0.05,
        0.20,
        "nsys reports every such copy, worth a hint from 1 %; TraceLens reports exposed time from "
        "5 %.",
        info=0.01,
    ),
    answer="pin_memory=True and non_blocking=True together",
)

EXPOSED = Rule(
    id="copies-exposed",
    when="the GPU copies from or to the host without computing",
    explanation=(
        "Data moves between the GPU and the host while nothing is computed. The host seldom needs "
        "whole outputs: reduce them on the GPU (argmax, sum, a metric) and copy the result, every "
        "N steps. For batches, pin their memory and copy the next one on a separate stream, or in "
        "a smaller data type."
    ),
    lost=_exposed,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed time from 5 %."),
    answer="reduce on the GPU and copy results; overlap copies of batches",
)

CREATED = Rule(
    id="created-on-cpu",
    when="tensors are created on the CPU and then copied to the GPU",
    explanation=(
        "torch.full, arange, zeros, randn or tensor without device= create the tensor on the CPU, "
        "and .to(device) copies it while the host waits. Create it where it is used, with "
        "device=x.device in the same call; or once before the loop, in a buffer of the module."
    ),
    lost=_made,
    limits=Limits(
        0.05,
        0.20,
        "The same limit as for other copies; torch's ExtraCUDACopyPattern reports every one.",
        info=0.01,
    ),
    answer="create them with device=x.device, or once before the loop",
)

MANY = Rule(
    id="many-small-copies",
    when="many small copies between the host and the GPU in each step",
    explanation=(
        "Each copy takes about 10 µs to start, however small. Put values that belong together "
        "into one tensor (stack them where the batch is made) and copy that."
    ),
    lost=_many,
    limits=Limits(0.05, 0.20, "nsys-ai reports 50 copies below 64 KiB.", info=0.01),
    answer="stack them and copy once",
)
