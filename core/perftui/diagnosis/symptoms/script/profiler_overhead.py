"""A profiler takes the training's time."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import OTHER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.script.own_profiler import profiler_lines, runs_own_profiler
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import PYTHON_IN
from perftui.facts.step.steps import steady_step
from perftui.facts.step.trace_steps import trace_steps

SPOILED = 0.15
"""Share of a window's steps from which on the profiler's own time spoils it; nsys-ai."""

_MADE = r"\b(profile|profiler\.profile|emit_nvtx|emit_itt)\s*\("


def _profiling(facts: Facts) -> Lost | None:
    if not runs_own_profiler(facts):
        return _own_window(facts)
    step, found = steady_step(facts), profiler_lines(facts)
    share = sum(line.held for line in found.lines) / found.covered if found else 0.0
    cost = round(share * step.mean)
    made, where = matching_line(facts, _MADE), found.lines[0] if found else None
    file, line = made or ((where.file or None, where.line) if where else (None, None))
    place = Place(rank=facts.rank_number, file=file, line=line)
    at = f" at {place.short}" if place.source else ""
    takes = f", which takes {fmt.part_of_step(cost, step.mean)}" if cost else ""
    return Lost(
        cost,
        step,
        f"The script runs its own profiler{at}{takes}: perftui cannot profile a window meanwhile.",
        (
            Figure.share("in the profiler", share, OVERHEAD.limits.warning, place),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place,
        parts=(OTHER, f"{PYTHON_IN}{OTHER}", GapCause.PROFILER.value, GapCause.PYTHON.value),
    )


def _own_window(facts: Facts) -> Lost | None:
    """perftui's profiler, where it takes so much of its window that the rest is not to be trusted.
    That costs the training nothing but the window."""
    steps = trace_steps.or_none(facts)
    share = steps.part(GapCause.PROFILER.value) / steps.step_ns if steps else 0.0
    if steps is None or share < SPOILED:
        return None
    return Lost(
        0,
        None,
        f"The profiler itself takes {fmt.percent(share)} of the steps that it recorded: the host "
        "times of the trace are less reliable.",
        (Figure.share("profiler", share, SPOILED),),
        fixes=(),
    )


OVERHEAD = Rule(
    id="profiler-overhead",
    when="the script's own profiler takes time, or profiling distorts the trace",
    explanation=(
        "A torch.profiler around the whole training slows every operator, even more with stacks "
        "and shapes, and processes its events at the end of each cycle. Remove it, or give it a "
        "schedule with few active steps and repeat=1. Only one profiler can run at a time, so "
        "perftui records no windows meanwhile."
    ),
    lost=_profiling,
    limits=Limits(
        0.05,
        0.20,
        "nsys-ai calls 5 % of profiler time notable and a window unreliable from 15 %.",
        info=0.0,
    ),
    fixes=("profiler-schedule",),
    answer="remove it, or profile few steps",
)
