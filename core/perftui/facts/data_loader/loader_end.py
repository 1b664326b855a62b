"""What ending the workers of a loader takes, which nothing but samples of the stack shows."""

from __future__ import annotations

import numpy as np

from perftui.facts.data_loader.batch_place import asks_loader
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_SAMPLES, lines_by_time
from perftui.facts.source.main_thread import stack_samples, steady_held
from perftui.facts.step.steps import step_breakdown

_ENDING = "__del__"
"""Method of an iterator that goes: it waits for its workers to end."""

MOSTLY = 0.5
"""Share of the script's own code that the end of a loader takes at least to be distinguished."""


@fact
def loader_end(facts: Facts) -> int:
    """ns of the mean step that ending loaders take, all of it in ``other``; 0 where that is less
    than ``MOSTLY`` of ``other``, or there are too few samples."""
    (outside, _), step = stack_samples(facts), step_breakdown(facts)
    if step is None or "via" not in outside or not len(outside):
        return 0
    held = steady_held(facts)
    whole = lines_by_time(outside, held)
    if whole.samples < FEWEST_SAMPLES:
        return 0
    ends = np.array([str(via).endswith(_ENDING) for via in outside["via"]], dtype=np.bool_)
    ends &= asks_loader(outside, held)
    found = round(int(held[ends].sum()) / whole.covered * step.mean)
    own = step.part("other")
    return min(found, own) if found >= MOSTLY * own else 0
