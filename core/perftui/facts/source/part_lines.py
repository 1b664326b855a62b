"""Where the main thread was during one part of the judged step, by line of the user's code."""

from __future__ import annotations

import numpy as np

from perftui.analysis.model import GapCause
from perftui.analysis.steps.parts import EXPOSED_COMMUNICATION
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_lines import gap_lines
from perftui.facts.place import Place
from perftui.facts.source.frame_lines import python_gap_lines
from perftui.facts.source.lines import LinesByTime, lines_by_time
from perftui.facts.source.main_thread import stack_samples, steady_held
from perftui.facts.source.own_samples import is_of_collectives
from perftui.facts.step.judged_step import PYTHON_IN, STAGES, judged_step
from perftui.facts.step.steady import Mask
from perftui.run.stack_samples import BACKWARD
from perftui.run.table import Table


def part_lines(facts: Facts, part: str) -> LinesByTime | None:
    """The lines of that part of ``judged_step``, longest first; None where neither a sample nor
    the trace's own stacks tell."""
    judged = judged_step.or_none(facts)
    if judged is None:
        return None
    if judged.on_device and part in set(GapCause):
        of_cause = (one.thread for one in gap_lines(facts) if one.cause.value == part)
        found = next(of_cause, None)
        if found is None and facts.analysis is not None and part == GapCause.PYTHON.value:
            return python_gap_lines(facts.analysis)
        return found
    outside, inside = stack_samples(facts)
    stacks, held = (outside, steady_held(facts)) if len(outside) else (inside, None)
    if "stage" not in stacks:
        return None
    held = stacks["held"] if held is None else held
    if part == EXPOSED_COMMUNICATION:
        called = lines_by_time(stacks, np.where(_in_collectives(stacks), held, 0))
        if called.suffices:
            return called
    known = [stage for each in STAGES.values() for stage in each]
    # Gradients are reduced within backward.
    reducing = (BACKWARD,) if part == EXPOSED_COMMUNICATION else None
    stages = reducing or STAGES.get(part.removeprefix(PYTHON_IN))
    chosen = np.isin(stacks["stage"], stages) if stages else ~np.isin(stacks["stage"], known)
    found = lines_by_time(stacks, np.where(chosen, held, 0))
    return found if found.suffices else None


def _in_collectives(stacks: Table) -> Mask:
    """Samples outside of phases in calls of ``torch.distributed``."""
    frames = zip(stacks["inner"].tolist(), stacks["via"].tolist(), strict=True)
    called = [any(map(is_of_collectives, each)) for each in frames]
    return np.array(called, dtype=bool) & np.isin(stacks["stage"], ("",))


def place_in_part(facts: Facts, part: str) -> Place:
    """The line of the user's code at which most of that part is spent; without file and line where
    it is not known."""
    thread = part_lines(facts, part)
    line = thread.first_own if thread else None
    if line is None:
        return Place(rank=facts.rank_number)
    return facts.at(line)
