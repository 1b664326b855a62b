"""Whether backward becomes longer from step to step and begins anew, while forward does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.source.kept_graph import line_that_keeps_graph
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.steps import steady_rows

FEWEST_STEPS = 30
"""Of so many steps by chance 1 in 100 rises as often as ``RISING``."""

RISING = 0.65
"""Share of the steps that take longer than the one before: half of them do where nothing is kept,
two in three where each third begins anew."""

GROWS = 1.5
"""Times that the tenth longest backward passes take of the tenth shortest."""

_RETAINS = r"retain_graph\s*=\s*(?!False)"


@dataclass(frozen=True)
class Sawtooth:
    """Times of the backward pass, ns."""

    shortest: int
    """Of the step at the tenth part, by length."""
    longest: int
    cost: int
    """Mean above the shortest."""
    line: LineShare
    """What keeps the graph, by the text."""


@fact
def sawtooth(facts: Facts) -> Sawtooth | None:
    """Backward passes through the graphs of earlier steps, until those are let go; None where they
    do not grow so, or the text names no line that keeps a graph and no call that retains one.

    Raises:
        UnknownError: there are too few steps.
    """
    line = line_that_keeps_graph(facts)
    if line is None or matching_line(facts, _RETAINS) is None:
        return None
    rows = steady_rows(facts)
    if len(rows) < FEWEST_STEPS:
        raise UnknownError(f"{len(rows)} of {FEWEST_STEPS} steady steps so far")
    times = rows[BACKWARD]
    shortest, longest = _ends(times)
    least, most = _ends(rows[FORWARD])
    growth = longest / max(shortest, 1)
    rises = np.count_nonzero(np.diff(times) > 0) / (len(times) - 1)
    if rises < RISING or growth < GROWS or growth < GROWS * most / max(least, 1):
        return None
    return Sawtooth(shortest, longest, max(round(float(times.mean())) - shortest, 0), line)


def _ends(times: npt.NDArray[np.int64]) -> tuple[int, int]:
    """A tenth of ``times`` is shorter than the first, a tenth longer than the last."""
    order, tenth = np.sort(times), len(times) // 10
    return int(order[tenth]), int(order[-1 - tenth])
