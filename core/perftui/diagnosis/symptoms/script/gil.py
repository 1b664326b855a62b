"""Other threads of the process keep the training thread from running Python."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.data_loader.input_wait import fetches_in_main_thread, input_wait
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.script.python_lock import python_lock
from perftui.facts.source.moments import waiting
from perftui.facts.step.judged_step import HOST_AT_WORK, JudgedStep, judged_step

UNKNOWN = (
    "other threads held the GIL, but none at a line of the script, and how long the main thread "
    "ran meanwhile is not known"
)


def _contention(facts: Facts) -> Lost | None:
    """At most the time in which another thread held the lock and the main thread did not run."""
    lock = python_lock(facts)
    if lock is None:
        raise NotApplicableError
    judged = judged_step(facts)
    step = judged.of
    parts = _parts(judged)
    within = sum(judged.part(name) for name in parts)
    waited, elsewhere = lock.waited, waiting(facts)
    if lock.idle is None:
        # Others hold the lock while it waits for something else, too.
        waited *= 1 - elsewhere
    else:
        # While the workers of its loader make a batch it has nothing to do, lock or no lock.
        waited = min(waited, max(lock.idle - _waits_for_workers(facts) - elsewhere, 0.0))
    cost = min(round(waited * step.mean), within)
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
        f"Another thread{at} holds the GIL {fmt.percent(lock.held)} of the time: the training "
        f"thread waits for it for up to {fmt.part_of_step(cost, step.mean)}.",
        tuple(figures),
        place=place,
        parts=parts,
        doubt=UNKNOWN if lock.idle is None and line is None else "",
        unproven="" if lock.idle is not None else "how long the main thread ran",
    )


def _waits_for_workers(facts: Facts) -> float:
    """Share of the step in which the training thread waits for batches of its workers."""
    found = input_wait.or_none(facts)
    return 0.0 if found is None or fetches_in_main_thread(facts) else found.wait / found.of.mean


def _parts(judged: JudgedStep) -> tuple[str, ...]:
    """Parts of the step in which the main thread may have waited for the lock: not the data loader
    wait, in which it waits for workers, and no operators, which run without the lock."""
    if judged.on_device:
        return HOST_AT_WORK
    return tuple(
        part.name
        for part in judged.parts
        if not (part.computes and judged.sees_operators) and part.name != "input_wait"
    )


CONTENTION = Rule(
    id="gil-contention",
    when="another thread runs Python while the training thread waits for the GIL",
    explanation=(
        "Only one thread of a process runs Python at a time: the one that holds the GIL. After "
        "each operator the training thread requests the GIL again, and a thread that computes in "
        "Python releases it only every 5 ms, so a step of many short operators takes many times "
        "as long. Threads that read files, compress or wait release it at once. The cost is the "
        "time that other threads held the GIL while the training thread neither ran nor waited "
        "for a core."
    ),
    lost=_contention,
    limits=Limits(0.10, 0.25, "The same limit as for other waits.", info=0.05),
    answer="move that work to a separate process, or let the thread sleep",
)
