"""Python itself holds up the training: its garbage collector, or the lock that threads share."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.facts.cpu.machine import wait_for_thread
from perftui.facts.data_loader.input_wait import fetches_in_main_thread, input_wait
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.script.compilations_and_pauses import GcPauses, gc_pauses, python_lock
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare, text_of
from perftui.facts.source.source_calls import matching_line
from perftui.facts.source.stack_profile import waiting
from perftui.facts.step.judged_step import HOST_AT_WORK, PYTHON_AT_WORK, JudgedStep, judged_step
from perftui.facts.step.steps import steady_step

LEAST_NAMED = 0.5
"""Share of the pauses from which a line is named: a collection begins wherever an object happens to
be created."""

USUAL = (700, 10, 10)
"""Python's own thresholds. Since 3.13 the first is 2,000, and the last may be 0."""

IN_MOST_STEPS = 0.8
"""Share of steps with a full collection from which the script requests them."""

MOST = 0.9
"""Share of all collection time: if full collections take less, the others are named too."""


@rule(
    when="Python's garbage collector holds up the training",
    limits=Limits("msprof reports pauses of 1 ms; here 1 % is a hint.", info=0.01),
    fixes=("collect-off", "gc-freeze"),
    answer="remove gc.collect() from the loop, and call gc.freeze() or gc.disable() after start-up",
)
def gc_pauses_rule(facts: Facts) -> Lost | None:
    """A full collection visits every live object while everything else waits. A training seldom has
    reference cycles; without them gc.collect() frees nothing."""
    step, pauses = steady_step(facts), gc_pauses(facts)
    judged = judged_step.or_none(facts)
    parts, cost = PYTHON_AT_WORK, pauses.per_step
    if judged is not None and judged.on_device:
        parts = HOST_AT_WORK
        # While the device still has queued work, a pause of the host costs nothing.
        cost = min(cost, sum(judged.part(name) for name in parts))
    if not cost:
        return None
    line, how = pauses.lines.standing_out(LEAST_NAMED) if pauses.lines else None, "mostly begun"
    lowered = _lowered(facts)
    advice = "call gc.freeze() after start-up, or gc.disable() and gc.collect() now and then"
    if line is not None and "collect" in text_of(line.file, line.line):
        how, lowered, advice = "asked for", None, ""
    elif lowered is not None:
        line, how = lowered, "more often than by default, by the threshold"
    where = f", {how} at {line.short}" if line else ""
    return Lost(
        cost,
        step,
        f"Python's garbage collector takes {step.part_of(cost)}: "
        f"{_what(pauses, step.count)}{where}.",
        (*_figures(pauses, facts), Figure("mean step", step.mean, "ns")),
        label="garbage collection",
        place=facts.at(line) if line else None,
        parts=parts,
        advice="remove gc.set_threshold, or raise its numbers" if lowered else advice,
    )


def _lowered(facts: Facts) -> LineShare | None:
    """The line of the script that lets collections begin more often than by themselves."""
    thresholds = settings(facts).gc.thresholds
    if any(0 < given < usual for given, usual in zip(thresholds, USUAL, strict=False)):
        return matching_line(facts, r"\bset_threshold\s*\(")
    return None


def _what(pauses: GcPauses, steps: int) -> str:
    if not pauses.full:
        return fmt.several(pauses.count, "collection")
    full = f"{fmt.several(pauses.full, 'full collection')} of "
    full += fmt.duration(pauses.longest_full_mean)
    if pauses.full * pauses.longest_full_mean < MOST * pauses.per_step * steps:
        full += f" and {fmt.several(pauses.count - pauses.full, 'short one')}"
    within = "nearly every step" if pauses.steps >= IN_MOST_STEPS * steps else f"{steps} steps"
    return f"{full} in {within}"


def _figures(pauses: GcPauses, facts: Facts) -> list[Figure]:
    figures = [
        Figure("longest collection", pauses.longest, "ns"),
        Figure("full collections", pauses.full, "count"),
        Figure("collections", pauses.count, "count"),
    ]
    gc = settings(facts).gc
    if gc.thresholds:
        figures.append(Figure("thresholds", ", ".join(map(str, gc.thresholds))))
    if gc.frozen is not None:
        figures.append(Figure("frozen objects", gc.frozen, "count"))
    return figures


UNKNOWN = (
    "other threads held the GIL, but none at a line of the script, and how long the main thread "
    "ran meanwhile is not known"
)


@rule(
    when="another thread runs Python while the training thread waits for the GIL",
    limits=Limits("As for other waits.", 0.10, 0.25, info=0.05),
    answer="move the thread's work to a separate process, or let the thread sleep",
)
def gil_contention(facts: Facts) -> Lost | None:
    """Only one thread of a process runs Python at a time, and one that computes holds the GIL for 5
    ms. The cost is the time that others held it while the training thread neither ran nor waited
    for a core; or, on few cores, that in which it waited for the core that the other takes."""
    # Upper bound: time in which another thread held the lock and the main thread did not run.
    lock = python_lock(facts)
    if lock is None:
        raise NotApplicableError
    judged = judged_step(facts)
    step = judged.of
    parts = _parts(judged)
    within = sum(judged.part(name) for name in parts)
    waited, elsewhere = lock.waited, waiting(facts)
    batches = input_wait.or_none(facts)
    if lock.idle is None:
        # Other threads may also hold the lock while it waits for something else.
        waited *= 1 - elsewhere
    else:
        if batches is not None and not fetches_in_main_thread(facts):
            # While it waits for the loader's workers it has nothing to do, lock or no lock.
            elsewhere += batches.wait / batches.of.mean
        waited = min(waited, max(lock.idle - elsewhere, 0.0))
    cost, core = min(round(waited * step.mean), within), wait_for_thread(facts, lock.held)
    does, what = "holds the GIL", "it"
    if core * step.mean > cost:
        # Operators run without the lock, and not without a core.
        cost, parts, does, what = round(core * step.mean), (), "runs Python", "a core"
    line = lock.lines.first_own
    place = facts.at(line) if line else None
    at = f" at {line.short} in {line.function}" if line else ""
    figures = [Figure.share("GIL held by other threads", lock.held, place=place)]
    if lock.idle is not None:
        figures.append(Figure.share("main thread neither running nor ready to run", lock.idle))
    figures += [Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")]
    return Lost(
        cost,
        step,
        f"Another thread{at} {does} {fmt.percent(lock.held)} of the time: the training "
        f"thread waits for {what} for up to {step.part_of(cost)}.",
        tuple(figures),
        place=place,
        parts=parts,
        doubt=UNKNOWN if lock.idle is None and line is None else "",
        unproven="" if lock.idle is not None else "how long the main thread ran",
    )


def _parts(judged: JudgedStep) -> tuple[str, ...]:
    """Parts of the step in which the main thread may have waited for the lock: not the data loader
    wait, in which it waits for workers, nor operators, which run without the lock."""
    if judged.on_device:
        return HOST_AT_WORK
    return tuple(
        part.name
        for part in judged.parts
        if not (part.computes and judged.sees_operators) and part.name != "input_wait"
    )
