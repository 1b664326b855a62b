"""Judges what a rule has found: how bad it is, how sure that is, or why it is not known."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Abstention, Confidence, Finding, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.step.steps import FEWEST_STEPS, MANY_STEPS


def judge(rule: Rule, facts: Facts) -> Finding | Abstention | None:
    """The finding of ``rule``: None where it found nothing, an abstention where it could not be
    judged."""
    try:
        lost = rule.lost(facts)
    except NotApplicableError:
        return None
    except UnknownError as error:
        return Abstention(rule.id, str(error))
    found = severity(lost.part, rule.limits) if lost else None
    if lost is None or found is None:
        return None
    if lost.doubt:
        return Abstention(rule.id, lost.doubt)
    return _finding(rule, lost, min(found, lost.worst))


def cost_of(rule: Rule, facts: Facts) -> int:
    """ns of a step that the finding of ``rule`` costs; 0 where it finds nothing."""
    found = judge(rule, facts)
    return found.cost_ns if isinstance(found, Finding) else 0


def severity(share: float, limits: Limits) -> Severity | None:
    """Severity of a cost of ``share`` of the step; None below the lowest limit."""
    if share >= limits.critical:
        return Severity.CRITICAL
    if share >= limits.warning:
        return Severity.WARNING
    return Severity.INFO if limits.info is not None and share >= limits.info else None


def confidence(steps: int, *, of_run: bool = True) -> Confidence:
    """High from ``MANY_STEPS`` on, low below ``FEWEST_STEPS``.

    A trace of fewer than many is judged whole, so it is one degree less sure.
    """
    if steps >= MANY_STEPS:
        return Confidence.HIGH
    return Confidence.MEDIUM if of_run and steps >= FEWEST_STEPS else Confidence.LOW


def more_steps(steps: int) -> str:
    """What would raise the confidence, empty where it is high already."""
    missing = MANY_STEPS - steps
    return fmt.several(missing, "more steady step") if missing > 0 else ""


def _finding(rule: Rule, lost: Lost, found: Severity) -> Finding:
    """A critical finding is a warning where too few steps stand behind it: a run has to come to
    ``MANY_STEPS``; a trace that marks no steps, or two, is judged whole."""
    finding = Finding(
        rule.id,
        found,
        lost.sentence,
        lost.figures,
        lost.cost_ns,
        confidence=Confidence.HIGH,
        place=lost.place,
        parts=lost.parts or rule.claims.parts,
        fixes=rule.fixes if lost.fixes is None else lost.fixes,
        is_least=lost.is_least,
    )
    if lost.of is None:
        return finding
    steps, of_run = lost.of.count, lost.of.of_run
    enough = steps >= MANY_STEPS if of_run else steps == 0 or steps >= FEWEST_STEPS
    sure = confidence(steps, of_run=of_run)
    return replace(
        finding,
        severity=found if enough else min(found, Severity.WARNING),
        step_ns=lost.of.mean,
        confidence=Confidence.MEDIUM if lost.unproven and sure is Confidence.HIGH else sure,
        would_raise_confidence=lost.unproven or more_steps(steps),
        steps=steps,
    )
