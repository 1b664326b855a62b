"""A profiler that the script runs itself."""

from __future__ import annotations

import re

import numpy as np

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    LinesByTime,
    lines_by_time,
    stack_samples,
    steady_held,
)
from perftui.facts.source.moments import FEWEST_MOMENTS
from perftui.run.columns import PROFILE

_PROFILES = re.compile(
    r"torch/profiler/\w+\.py:|torch/autograd/profiler\.py:\d+ (profile|Kineto)\b"
)
_SAYS = "the script runs its own profiler"
"""How the agent's message begins."""


@fact
def runs_own_profiler(facts: Facts) -> bool:
    """Whether the agent has seen it start."""
    warnings = notes_of(facts.events, "warning")
    return any(str(note.get("message", "")).startswith(_SAYS) for note in warnings)


@fact
def profiler_lines(facts: Facts) -> LinesByTime | None:
    """Where the main thread was in a profiler's own code in the steady steps, as a share of all of
    them; None with too few samples, or where none found it there."""
    outside, _ = stack_samples(facts)
    if not len(outside):
        return None
    held = steady_held(facts)
    profiles = np.array([bool(_PROFILES.match(inner)) for inner in outside["inner"].tolist()])
    if "stage" in outside:
        profiles |= outside["stage"] == PROFILE
    whole = lines_by_time(outside, held)
    found = lines_by_time(outside, np.where(profiles, held, 0))
    is_enough = whole.samples >= FEWEST_SAMPLES // 2 and found.samples >= FEWEST_MOMENTS
    if not is_enough or not found.lines:
        return None
    return LinesByTime(found.lines, whole.covered, whole.samples)
