"""What happens before the first step: imports, reading of data, making of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.source.lines import LinesByTime, lines_by_time
from perftui.facts.source.main_thread import stack_samples


@dataclass(frozen=True)
class Start:
    """From the start of the command to the first step, and to the last that was recorded, ns."""

    duration: int
    run: int
    lines: LinesByTime | None
    """Where the main thread was before the first step, as far as it was sampled."""


@fact
def start(facts: Facts) -> Start:
    """How long the rank's training took to its first step, and to its last.

    Raises:
        NotApplicableError: there is no run.
        UnknownError: no step has been recorded, or the first one has not.
    """
    steps, manifest = facts.steps, facts.manifest
    if manifest is None:
        raise NotApplicableError
    if not len(steps) or int(steps["index"][0]):
        raise UnknownError("the first step was not recorded")
    first = int(steps["start"][0])
    last = int((steps["start"] + steps["duration"]).max())
    stacks, _ = stack_samples(facts)
    lines = None
    if len(stacks):
        before = np.where(stacks["time"] < first, stacks["held"], 0)
        lines = lines_by_time(stacks, before)
    return Start(max(first - manifest.started_ns, 0), max(last - manifest.started_ns, 1), lines)
