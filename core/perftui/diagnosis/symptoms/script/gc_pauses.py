"""``gc-pauses``: Python's garbage collector holds up the training."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps import OTHER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.place import Place
from perftui.facts.script.pauses import GcPauses, gc_pauses
from perftui.facts.settings import settings
from perftui.facts.source.line_words import text_of
from perftui.facts.step.judged_step import HOST_AT_WORK, PYTHON_IN, judged_step
from perftui.facts.step.steps import steady_step

_ON_HOST = (OTHER, *(f"{PYTHON_IN}{phase}" for phase in ("forward", "backward", "optimizer")))

LEAST_NAMED = 0.5
"""Share of the pauses that a line must have to be named: a collection begins wherever an object
happens to be made."""

IN_MOST_STEPS = 0.8
"""Share of the steps with a full collection from which on the script asks for them."""

MOST = 0.9
"""Share of the time of all collections: where the full ones take less, the others are named too."""


def _lost(facts: Facts) -> Lost | None:
    if facts.run is None:
        raise NotApplicableError
    pauses, step = gc_pauses(facts), steady_step(facts)
    judged = judged_step.or_none(facts)
    parts, cost = _ON_HOST, pauses.per_step
    if judged is not None and judged.on_device:
        parts = HOST_AT_WORK
        # While the device still has work queued, a pause of the host costs nothing.
        cost = min(cost, sum(judged.part(name) for name in parts))
    if not cost:
        return None
    place = _place(pauses, facts)
    return Lost(
        cost,
        step,
        f"Python's garbage collector takes {fmt.part_of_step(cost, step.mean)}: "
        f"{_what(pauses, step.count)}{_where(pauses, place)}.",
        (*_figures(pauses, facts, cost / step.mean), Figure("mean step", step.mean, "ns")),
        place=place,
        parts=parts,
    )


def _what(pauses: GcPauses, steps: int) -> str:
    if not pauses.full:
        return fmt.several(pauses.count, "collection")
    full = f"{fmt.several(pauses.full, 'full collection')} of "
    full += fmt.duration(pauses.longest_full_mean)
    if pauses.full * pauses.longest_full_mean < MOST * pauses.per_step * steps:
        full += f" and {fmt.several(pauses.count - pauses.full, 'short one')}"
    within = "nearly every step" if pauses.steps >= IN_MOST_STEPS * steps else f"{steps} steps"
    return f"{full} in {within}"


def _where(pauses: GcPauses, place: Place | None) -> str:
    line = pauses.lines.lines[0] if place and pauses.lines else None
    if line is None:
        return ""
    asked = "collect" in text_of(line.file, line.line)
    return f", {'asked for' if asked else 'mostly begun'} at {line.short}"


def _place(pauses: GcPauses, facts: Facts) -> Place | None:
    lines = pauses.lines
    first = lines.lines[0] if lines and lines.lines else None
    if lines is None or first is None or not first.file or lines.share(first) < LEAST_NAMED:
        return None
    return facts.at(first)


def _figures(pauses: GcPauses, facts: Facts, share: float) -> list[Figure]:
    figures = [
        Figure.share("garbage collection", share, PAUSES.limits.warning),
        Figure("longest collection", pauses.longest, "ns"),
        Figure("full collections", pauses.full, "count"),
        Figure("collections", pauses.count, "count"),
    ]
    set_up = settings(facts)
    if set_up is not None and set_up.gc is not None:
        figures.append(Figure("thresholds", ", ".join(map(str, set_up.gc.thresholds))))
        if set_up.gc.frozen is not None:
            figures.append(Figure("frozen objects", set_up.gc.frozen, "count"))
    return figures


PAUSES = Rule(
    id="gc-pauses",
    when="Python's garbage collector holds up the training",
    explanation=(
        "A full collection visits every live object while everything else waits: with a million "
        "objects that takes a large part of a second. Exclude objects that stay with gc.freeze() "
        "once everything is loaded; or gc.disable(), and gc.collect() between epochs. Keep large "
        "tables of small objects in arrays. Without reference cycles, which a training seldom "
        "creates, gc.collect() in the loop frees nothing."
    ),
    lost=_lost,
    limits=Limits(
        0.05,
        0.20,
        "Certainly avoidable, hence a low limit. msprof reports every pause of 1 ms, but every "
        "training has such collections, so 1 % is only a hint.",
        info=0.01,
    ),
    fixes=("collect-off", "gc-freeze"),
    answer="gc.freeze() after start-up, gc.disable(), no gc.collect() in the loop",
)
