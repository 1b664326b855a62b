"""``recompiles``: torch.compile is at work after the warm-up."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.judged_step import HOST_AT_WORK, PYTHON_IN, judged_step
from perftui.facts.moments import FEWEST_MOMENTS, moments
from perftui.facts.place import Place
from perftui.facts.source_search import line_that_says
from perftui.facts.steps import steady_rows, steady_step
from perftui.run.stack_samples import COMPILE

_PHASES = ("forward", "backward", "other")


_ON_HOST = (*_PHASES, *(f"{PYTHON_IN}{each}" for each in _PHASES))


def _lost(facts: Facts) -> Lost | None:
    if facts.run is None:
        raise NotApplicableError
    step, found = steady_step(facts), moments(facts)
    if found is None:
        raise UnknownError("too few samples of the stack")
    compiling = found.stage == COMPILE
    if found.count(compiling) < FEWEST_MOMENTS:
        return None
    cost = round(found.share(compiling) * step.mean)
    lines = found.lines(compiling)
    first = next((line for line in lines.lines if line.file), None)
    at = f" for {first.short}" if first else ""
    made = line_that_says(facts, r"\btorch\.compile\b", only=True)
    file, line = made or ((first.file, first.line) if first else (None, None))
    judged = judged_step.or_none(facts)
    on_device = judged is not None and judged.on_device
    within = _steps_within(facts)
    return Lost(
        cost,
        step,
        f"torch.compile takes {fmt.part_of_step(cost, step.mean)} after the warm-up: it compiles"
        f"{at} again in {within} of {fmt.several(step.count, 'step')}, as far as samples tell.",
        (
            Figure.share("compiling", cost / step.mean, RECOMPILES.limits.warning),
            Figure("steps seen compiling", within, "count"),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=Place(rank=facts.rank_number, file=file, line=line) if file else None,
        parts=HOST_AT_WORK
        if on_device
        else (*_PHASES, *(f"{PYTHON_IN}{each}" for each in _PHASES)),
    )


def _steps_within(facts: Facts) -> int:
    """Steps in which a sample found the compiler at work."""
    found, rows = moments(facts), steady_rows(facts)
    if found is None or not len(rows):
        return 0
    times = found.time[found.stage == COMPILE]
    at = np.searchsorted(rows["start"], times, side="right") - 1
    return len(np.unique(at[at >= 0]))


RECOMPILES = Rule(
    id="recompiles",
    when="torch.compile compiles again in steps after the warm-up",
    explanation=(
        "What is compiled holds for the shapes, types and values it was compiled for; others make "
        "it compile again, which takes seconds. dynamic=True or mark_dynamic compile once for all "
        "sizes; padding to a few lengths keeps the number of shapes small. TORCH_LOGS=recompiles "
        "says which guard failed."
    ),
    lost=_lost,
    limits=Limits(0.05, 0.20, "As certain to be avoidable as a wait for data."),
    claims=Claim(idle=GapCause.LAUNCH),
    answer="dynamic=True, fixed or padded shapes",
)
