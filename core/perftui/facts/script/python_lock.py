"""Other threads of Python that hold the interpreter's lock while the training thread needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_TO_NAME, LinesByTime, lines_by_time
from perftui.facts.step.steps import steady_span


@dataclass(frozen=True)
class PythonLock:
    """Shares of the time that was sampled, 0 to 1."""

    held: float
    """Some other thread held the lock."""
    idle: float | None
    """The main thread neither ran nor waited for a core; None where the kernel has no count."""
    lines: LinesByTime
    """Where the other threads were meanwhile."""

    @property
    def waited(self) -> float:
        """Share of the time in which the main thread waited for the lock at most, 0 to 1."""
        return self.held if self.idle is None else min(self.held, self.idle)


@fact
def python_lock(facts: Facts) -> PythonLock | None:
    """Waits for Python's lock; None where no other thread was seen to hold it, or too few samples
    tell."""
    stacks = facts.rank.lock_stacks if facts.rank else None
    if stacks is None or "observed" not in stacks or not len(stacks):
        return None
    span = steady_span(facts)
    if span is not None:
        steady = (stacks["time"] >= span[0]) & (stacks["time"] < span[1])
        stacks = stacks.where(steady) if steady.any() else stacks
    held = stacks["held"]
    if int((held // np.maximum(stacks["every"], 1)).sum()) < FEWEST_TO_NAME:
        return None
    turns = np.unique(np.stack((stacks["observed"], stacks["idle"])), axis=1)
    observed, idle = int(turns[0].sum()), turns[1]
    return PythonLock(
        min(int(held.sum()) / max(observed, 1), 1.0),
        int(idle.sum()) / max(observed, 1) if (idle >= 0).all() else None,
        lines_by_time(stacks, held),
    )
