"""Asks every rule, and the ladder below them."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.claims import without_repeats
from perftui.diagnosis.judge import judge
from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.model import Abstention, Diagnosis, Finding
from perftui.diagnosis.ranking import ranked
from perftui.diagnosis.rules import RULES
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import MANY_STEPS, step_breakdown, step_count
from perftui.facts.step.trace_steps import trace_steps


@fact
def diagnosis(facts: Facts) -> Diagnosis:
    """The findings of every rule, and below that of the rungs of the ladder."""
    outcomes = [judge(rule, facts) for rule in RULES]
    found = [each for each in outcomes if isinstance(each, Finding)]
    findings = without_repeats(found, facts.analysis)
    abstentions = [each for each in outcomes if isinstance(each, Abstention)]
    for rung in LADDER:
        verdict = rung.judge(facts, findings)
        if isinstance(verdict, Finding):
            findings.append(verdict)
        elif verdict:
            abstentions.append(verdict)
    return Diagnosis(
        ranked(findings),
        tuple(abstentions),
        _steady_steps(facts),
        progress(facts),
    )


def _steady_steps(facts: Facts) -> int:
    """Steps the judgement rests on: the run's, or the trace's where there is no run."""
    of_run = step_breakdown(facts)
    if of_run:
        return of_run.count
    of_trace = trace_steps.or_none(facts)
    return of_trace.steps if of_trace and not facts.run else 0


def progress(facts: Facts) -> str:
    """What is being waited for, empty once there are enough steps or the run is over."""
    if facts.run is None or facts.run.manifest.status.is_over:
        return ""
    recorded, found = step_count(facts), step_breakdown(facts)
    if recorded == 0:
        return "waiting for the first training step"
    if found is None or not found.count:
        return f"warming up, {fmt.several(recorded, 'step')} so far"
    if found.count < MANY_STEPS:
        return f"collecting, {found.count} of {MANY_STEPS} steady steps"
    return ""
