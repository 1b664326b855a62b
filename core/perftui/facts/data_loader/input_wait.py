"""The data loader wait of a step, from the best evidence there is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, UnknownError, fact, trace_fact
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.steps import FEWEST_STEPS, TRAIN, activity, steady_step, step_kind
from perftui.facts.step.trace_steps import trace_steps

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
    """Known to leave the device idle; on a GPU a host's wait alone may hide behind queued work."""
    subject: str
    """Who waits, as the beginning of a sentence."""
    host: int = 0
    """Mean wait of the training thread, ns, where part of it hides behind queued work; else 0."""

    @property
    def sentence(self) -> str:
        """``The training waits 21 ms of each 35 ms step (60 %) for data``."""
        return f"{self.subject} spends {self.of.part_of(self.wait)} waiting for data"


@fact
def input_wait(facts: Facts) -> InputWait:
    """The wait of the run's steady steps, else of the trace's.

    With a run and a trace that shows the device, the wait counts only as far as the device idles
    for it: a host that waits while queued kernels still run loses nothing.

    Raises:
        UnknownError: there are too few steps, or nothing was recorded.
    """
    subject = "The training" if step_kind(facts) == TRAIN else activity(facts).capitalize()
    trace = trace_steps.or_none(facts)
    if facts.run is None:
        if trace is None:
            raise UnknownError("nothing has been recorded")
        name = GapCause.INPUT_WAIT.value if trace.has_gpu else "input_wait"
        return InputWait(trace.part(name), trace.breakdown, trace.has_gpu, subject)
    step = steady_step(facts)
    found = InputWait(step.part("input_wait"), step, has_gpu(facts) is False, subject)
    if trace is None or not trace.has_gpu or trace.steps < FEWEST_STEPS:
        return found
    idle = trace.part(GapCause.INPUT_WAIT.value) * step.mean // trace.step_ns
    if idle >= found.wait:
        return replace(found, exposed=True)
    return InputWait(idle, step, exposed=True, subject="The GPU", host=found.wait)


@fact
def fetches_in_main_thread(facts: Facts) -> bool | None:
    """By the loader's configuration, else by the iterators that fetch in the steady steps of the
    trace; None if neither shows it, or several loaders do."""
    feeds = training_loader(facts)
    if feeds and feeds.num_workers is not None:
        return feeds.num_workers == 0
    found = _iterators.or_none(facts)
    return found == {_MAIN_THREAD} if found and len(found) == 1 else None


@trace_fact
def _iterators(analysis: TraceAnalysis) -> set[str]:
    """Kinds of iterators whose fetches begin inside the steady steps, as the host marks them."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if steps is None:
        return set()
    found = set()
    for which in (_MAIN_THREAD, _WORKERS):
        rows = np.flatnonzero(kinds.named(trace, re.compile(which).search))
        if steps.on_host.holds(trace.start[rows]).any():
            found.add(which)
    return found
