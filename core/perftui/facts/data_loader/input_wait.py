"""Data loader wait of a step, how such waits recur, and the time of a step without workers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.facts.cpu.machine import busy_host, has_gpu
from perftui.facts.data_loader.loader import loader_work, training_loader
from perftui.facts.fact import Facts, UnknownError, fact, trace_fact
from perftui.facts.step.steps import (
    FEWEST_STEPS,
    StepBreakdown,
    median,
    micro_batches,
    steady_rows,
    steady_step,
)
from perftui.facts.step.trace_steps import subject, trace_steps

_MAIN_THREAD = "_SingleProcessDataLoaderIter"
_WORKERS = "_MultiProcessingDataLoaderIter"
"""PyTorch's iterators without and with workers; they name the range around each fetch."""


@dataclass(frozen=True)
class InputWait:
    """Mean data loader wait within a mean step, ns."""

    wait: int
    of: StepBreakdown
    """The mean step, of a run or of a trace."""
    exposed: bool
    """Whether the device surely idles; on a GPU a host's wait may hide behind queued work."""
    subject: str
    """Who waits, as the beginning of a sentence."""
    host: int = 0
    """Mean wait of the training thread, ns, if part of it hides behind queued work; else 0."""

    @property
    def sentence(self) -> str:
        """``The training waits 21 ms of each 35 ms step (60 %) for data``."""
        return f"{self.subject} spends {self.of.part_of(self.wait)} waiting for data"


@fact
def input_wait(facts: Facts) -> InputWait:
    """The wait of the run's steady steps, else of the trace's.

    With a run and a trace that shows the device, only wait in which the device idles counts: a host
    that waits while queued kernels run loses nothing. Unknown if there are too few steps, or
    nothing was recorded."""
    who = subject(facts)
    trace = trace_steps.or_none(facts)
    if facts.run is None:
        if trace is None:
            raise UnknownError("nothing has been recorded")
        name = GapCause.INPUT_WAIT.value if trace.has_gpu else "input_wait"
        return InputWait(trace.part(name), trace.breakdown, trace.has_gpu, who)
    step = steady_step(facts)
    wait = InputWait(step.part("input_wait"), step, has_gpu(facts) is False, who)
    if trace is None or not trace.has_gpu or trace.steps < FEWEST_STEPS:
        return wait
    idle = trace.part(GapCause.INPUT_WAIT.value) * step.mean // trace.step_ns
    if idle >= wait.wait:
        return replace(wait, exposed=True)
    return InputWait(idle, step, exposed=True, subject="The GPU", host=wait.wait)


@fact
def fetches_in_main_thread(facts: Facts) -> bool | None:
    """Whether the training thread fetches itself, by the loader's configuration, else by the
    iterators in the trace's steady steps; None if unknown or of several loaders."""
    feeds = training_loader(facts)
    if feeds and feeds.num_workers is not None:
        return feeds.num_workers == 0
    classes = _iterators.or_none(facts)
    return classes == {_MAIN_THREAD} if classes and len(classes) == 1 else None


@trace_fact
def _iterators(analysis: TraceAnalysis) -> set[str]:
    """Iterator classes whose fetches begin in the steady steps on the host."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if steps is None:
        return set()
    begun = {
        which: trace.start[kinds.named(trace, re.compile(which).search)]
        for which in (_MAIN_THREAD, _WORKERS)
    }
    return {which for which, starts in begun.items() if steps.on_host.holds(starts).any()}


FEWEST = 20
"""Fewest steps in which a pattern is looked for."""

LONG = 0.5
"""Share of the mean wait from which a wait is a long one."""

REGULAR = 0.4
"""Largest relative standard deviation of the distances between long waits that is regular."""


@dataclass(frozen=True)
class WaitPattern:
    """How waits for the data loader recur in the steady steps still kept."""

    mean: float
    p50: float
    p95: float
    """Waits, ns."""
    every: float
    """Mean number of steps between long waits."""
    is_regular: bool
    """Whether that number is about the same each time."""
    at_epochs: float
    """Share of all waiting beyond the median that is in steps that begin an epoch, 0 to 1."""

    @property
    def is_bursty(self) -> bool:
        """Whether few steps wait long and most hardly at all, but more than one of twenty."""
        return self.p95 >= max(4 * self.p50, LONG * self.mean) and self.p50 < LONG * self.mean


@fact
def wait_pattern(facts: Facts) -> WaitPattern | None:
    """The pattern of waits; None with too few steps."""
    rows = steady_rows(facts)
    if "input_wait" not in rows or len(rows) < FEWEST:
        return None
    waits = rows["input_wait"].astype(np.float64)
    mean, p50 = float(waits.mean()), median(waits)
    between = np.diff(np.flatnonzero(waits > LONG * mean))
    every = float(between.mean()) if len(between) else float(len(rows))
    begins = rows["loader_start"] > 0 if "loader_start" in rows else np.zeros(len(rows), bool)
    beyond = np.maximum(waits - p50, 0)
    return WaitPattern(
        mean,
        p50,
        float(np.sort(waits)[int(0.95 * (len(waits) - 1))]),
        every,
        len(between) > 2 and float(between.std()) <= REGULAR * every,
        float(beyond[begins].sum() / beyond.sum()) if beyond.any() else 0.0,
    )


LEAST_GAIN = 1.2
"""Speedup from which running without workers is worth a word: batch times are measured beside the
training, and only estimate what they would take within it."""

_OF_WORKERS = ("input_wait", "loader_start")


@fact
def step_without_workers(facts: Facts) -> int | None:
    """Mean step, ns, if the training thread made batches as fast as workers do; None without
    workers, and if their times are unknown. Unknown if there are too few steps."""
    step, work, feeds = steady_step(facts), loader_work(facts), training_loader(facts)
    if work is None or feeds is None or not feeds.num_workers or not work.workers:
        return None
    batches = max(micro_batches(facts) or 1, 1)
    left = step.mean - sum(step.part(name) for name in _OF_WORKERS)
    return left + batches * (work.fetch + work.collate)


def better_without_workers(facts: Facts, otherwise: int | None = None) -> str:
    """``; without workers (num_workers=0) a step would take about 0.9 ms``, if that is less than
    the mean step, or than ``otherwise`` in ns; else empty.

    If other programs take the cores, workers may be late for that alone."""
    step, then = steady_step.or_none(facts), step_without_workers.or_none(facts)
    if step is None or then is None or busy_host(facts):
        return ""
    if (step.mean if otherwise is None else otherwise) < LEAST_GAIN * then:
        return ""
    return f"; without workers (num_workers=0) a step would take about {fmt.duration(then)}"
