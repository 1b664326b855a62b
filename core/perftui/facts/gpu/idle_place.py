"""Where in the user's code the device is let idle for one cause."""

from __future__ import annotations

from collections import Counter

from perftui.analysis.model import GapCause
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_places import place_of
from perftui.facts.place import Place
from perftui.facts.source.lines import main_thread
from perftui.facts.source.operator_lines import part_lines
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import TraceSteps

LEAST_NAMED = 0.25
"""Share of the idle time that a line or an operator must have to be named."""

LOOKED_AT = 300
"""Longest gaps whose places are looked up."""


MOSTLY = 0.5
"""Share of the step from which on the samples of all steps stand for this idle time."""


def idle_place(facts: Facts, cause: GapCause, steps: TraceSteps) -> Place | None:
    """The line with most of the idle time, by samples of the main thread, else by the trace's
    stacks; else the operator. None where nothing shows it, or none has much of it."""
    judged = judged_step(facts)
    threads = [part_lines(facts, cause.value), main_thread(facts)]
    if judged.part(cause.value) >= MOSTLY * judged.of.mean:
        # A window is short: a single sample may stand for all of it.
        threads.reverse()
    for thread in threads:
        line = thread.lines[0] if thread and thread.lines else None
        if thread and line and line.file and thread.share(line) >= LEAST_NAMED:
            return facts.at(line)
    gaps = steps.gaps(cause)[:LOOKED_AT]
    places = [place_of(gap, steps) for gap in gaps]
    least = LEAST_NAMED * sum(gap.duration for gap in gaps)
    for names in ([place.source for place in places], [place.operator for place in places]):
        times: Counter[str] = Counter()
        for name, gap in zip(names, gaps, strict=True):
            if name:
                times[name] += gap.duration
        for name, time in times.most_common(1):
            if time >= least:
                return places[names.index(name)]
    return None
