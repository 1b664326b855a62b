"""What each rule finds, from which limit on, and what answers it: as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypedDict

from perftui.diagnosis.rule import Rule, Rung
from perftui.diagnosis.rules import BY_NAME, answered_by
from perftui.fixes.catalogue import CATALOGUE
from perftui.report.output_text import SCHEMA, Schema, filled, said, wrapped


class RuleOutput(TypedDict):
    """What a finding means."""

    rule: str
    when: str
    explanation: str
    warning: Annotated[float | None, said("Share from which it is a warning; null without limits.")]
    critical: float | None
    limits_of: str | None
    limits_source: str | None
    fixes: list[str]
    answer: str


class FixExplanation(TypedDict):
    """What a fix changes and what it does not."""

    fix: str
    what: str
    explanation: str
    risks: Annotated[
        list[str], said("What it may change besides speed; what is offered for a run names its.")
    ]
    answers: Annotated[list[str], said("The rules whose findings it addresses.")]


class ExplainOutput(TypedDict):
    """`perftui explain`: what findings and fixes mean."""

    schema: Schema
    rules: list[RuleOutput]
    verdicts: Annotated[list[RuleOutput], said("The finding reported if no rule knows the cause.")]
    fixes: list[FixExplanation]


def explain(name: str) -> str:
    """The rule or the fix of that name, as paragraphs. Raises KeyError if there is none of that
    name."""
    if name in CATALOGUE:
        fix = CATALOGUE[name]
        lines = (name, *wrapped(f"{fix.what}."), "", *wrapped(fix.explanation))
        risks = wrapped(f"Risks: {'; '.join(fix.risks)}.") if fix.risks else ()
        answers = wrapped(f"Addresses: {', '.join(answered_by(name)) or 'no rule'}.")
        return "\n".join((*lines, "", *risks, *answers))
    return "\n".join(_described(BY_NAME[name]))


def names() -> tuple[str, ...]:
    """Everything that can be explained."""
    return (*BY_NAME, *CATALOGUE)


def overview() -> str:
    """All rules, one a line."""
    return "\n".join(f"{rule.id:<25} {rule.when}" for rule in BY_NAME.values())


def as_object(*chosen: str) -> ExplainOutput:
    """The rules and fixes of these names, or all without names; limits are shares, 0 to 1."""
    rules = [rule for rule in BY_NAME.values() if not chosen or rule.id in chosen]
    fixes = [fix for fix in CATALOGUE.values() if not chosen or fix.id in chosen]
    return {
        "schema": SCHEMA,
        "rules": [_rule(rule) for rule in rules if isinstance(rule, Rule)],
        "verdicts": [_rule(rule) for rule in rules if isinstance(rule, Rung)],
        "fixes": [
            filled(FixExplanation, fix, fix=fix.id, answers=answered_by(fix.id)) for fix in fixes
        ],
    }


def _rule(rule: Rule | Rung) -> RuleOutput:
    limits = rule.limits
    return filled(
        RuleOutput,
        rule,
        limits,
        rule=rule.id,
        limits_of=limits.of if limits else None,
        limits_source=limits.source if limits else None,
        fixes=list(rule.fixes) if isinstance(rule, Rule) else [],
    )


def _described(rule: Rule | Rung) -> Iterator[str]:
    limits = rule.limits
    yield rule.id
    yield from wrapped(f"{rule.when}.")
    yield ""
    yield from wrapped(rule.explanation)
    if limits:
        yield ""
        yield from wrapped(
            limits.source
            if limits.is_hint
            else f"Warns from {100 * limits.warning:.0f} % {limits.of}, critical from "
            f"{100 * limits.critical:.0f} %. {limits.source}"
        )
    if rule.answer:
        yield from wrapped(f"What to do: {rule.answer}.")
    for fix in rule.fixes if isinstance(rule, Rule) else ():
        yield from wrapped(f"{fix}: {CATALOGUE[fix].what}.", indent="  ")
