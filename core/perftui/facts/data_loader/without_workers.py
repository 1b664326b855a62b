"""What a step would take if the training made its batches itself, where it has workers for that."""

from __future__ import annotations

from perftui import format as fmt
from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import micro_batches, steady_step

LEAST_GAIN = 1.2
"""Times as fast as with workers, from which on none are worth a word: what batches take to make is
measured beside the training, and is an estimate of what they would take within it."""

_OF_WORKERS = ("input_wait", "loader_start")


@fact
def step_without_workers(facts: Facts) -> int | None:
    """Mean step, ns, with each batch made by the training thread as fast as workers make it; None
    without workers, and where what they take is not known.

    Raises:
        UnknownError: there are too few steps.
    """
    step, made, feeds = steady_step(facts), loader_work(facts), training_loader(facts)
    if made is None or feeds is None or not feeds.num_workers or not made.workers:
        return None
    batches = max(micro_batches(facts) or 1, 1)
    left = step.mean - sum(step.part(name) for name in _OF_WORKERS)
    return left + batches * (made.fetch + made.collate)


def better_without_workers(facts: Facts, otherwise: int | None = None) -> str:
    """``; without workers (num_workers=0) a step would take about 0.9 ms``, where that is shorter
    than the mean step, or than ``otherwise`` in ns; else empty.

    Where other programs take the cores, workers may be late for that alone.
    """
    step, then = steady_step.or_none(facts), step_without_workers.or_none(facts)
    if step is None or then is None or busy_host(facts):
        return ""
    if (step.mean if otherwise is None else otherwise) < LEAST_GAIN * then:
        return ""
    return f"; without workers (num_workers=0) a step would take about {fmt.duration(then)}"
