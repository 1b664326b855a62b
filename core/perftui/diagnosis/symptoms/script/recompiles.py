"""``recompiles``: torch.compile is at work after the warm-up."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.place import Place
from perftui.facts.script.pauses import Compilations, compilations
from perftui.facts.source.moments import FEWEST_MOMENTS, MOSTLY_OTHERS, moments
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import HOST_AT_WORK, PYTHON_IN, judged_step
from perftui.facts.step.steps import steady_rows, steady_step
from perftui.run.columns import COMPILE

FEWEST_AGAIN = 3
"""Compiled again fewer times it is warm-up: a second shape makes sizes dynamic, and evaluation is
compiled when it first comes."""

_PHASES = ("forward", "backward", "other")

_ON_HOST = (*_PHASES, *(f"{PYTHON_IN}{each}" for each in _PHASES))


def _lost(facts: Facts) -> Lost | None:
    """Compiling as torch reports it; by samples where it does not, or where they find much more."""
    if facts.run is None:
        raise NotApplicableError
    step, noted, found = steady_step(facts), compilations(facts), moments(facts)
    if found is None and noted is None:
        raise UnknownError("too few stack samples")
    cost, first = (noted.per_step if noted else 0), None
    is_exact = True
    if found is not None:
        compiling = found.stage == COMPILE
        if found.count(compiling) >= FEWEST_MOMENTS:
            sampled = round(found.share(compiling) * step.mean)
            is_exact = noted is not None and sampled <= MOSTLY_OTHERS * cost
            cost = cost if is_exact else sampled
            first = found.lines(compiling).first_own
    cost = min(cost, step.mean)
    if not cost:
        return None
    place = facts.at(first) if first else None
    if place is None and noted is not None and noted.file:
        place = facts.at(noted)
    at = f" for {place.short}" if place else ""
    made = matching_line(facts, r"\btorch\.compile\b", only=True)
    if made is not None:
        place = Place(rank=facts.rank_number, file=made[0], line=made[1])
    exact = noted if is_exact else None
    within = exact.steps if exact else _steps_within(facts)
    judged = judged_step.or_none(facts)
    return Lost(
        cost,
        step,
        f"torch.compile takes {fmt.part_of_step(cost, step.mean)} after the warm-up: it "
        f"recompiles{at} in {within} of {fmt.several(step.count, 'step')}{_why(exact)}.",
        (
            Figure.share("compiling", cost / step.mean, RECOMPILES.limits.warning),
            Figure("steps seen compiling", within, "count"),
            *_figures(exact),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place,
        parts=HOST_AT_WORK if judged is not None and judged.on_device else _ON_HOST,
        worst=Severity.INFO if exact and exact.again < FEWEST_AGAIN else Severity.CRITICAL,
    )


def _why(exact: Compilations | None) -> str:
    if exact is None:
        return ", according to stack samples"
    return f', last because of "{exact.reason}"' if exact.reason else ""


def _figures(exact: Compilations | None) -> list[Figure]:
    if exact is None:
        return []
    figures = [Figure("compiled", exact.count, "count"), Figure("again", exact.again, "count")]
    if exact.function:
        figures.append(Figure("function", exact.function))
    return figures


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
    when="torch.compile recompiles after the warm-up",
    explanation=(
        "Compiled code is valid for the shapes, types and values it was compiled for. Others "
        "cause a recompilation, which takes seconds. dynamic=True or mark_dynamic compile once "
        "for all sizes; padding to a few lengths keeps the number of shapes small. "
        "TORCH_LOGS=recompiles prints the guard that failed."
    ),
    lost=_lost,
    limits=Limits(0.05, 0.20, "As certainly avoidable as a wait for data."),
    claims=Claim(idle=GapCause.LAUNCH),
    fixes=("compile-dynamic",),
    answer="dynamic=True, fixed or padded shapes",
)
