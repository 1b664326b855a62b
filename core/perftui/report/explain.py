"""What each rule looks for, from which limit on, and what answers it: as text, table and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perftui import format as fmt
from perftui.diagnosis import healthy
from perftui.diagnosis.rule import Rule
from perftui.diagnosis.rules import BY_ID, RULES
from perftui.fixes.catalogue import CATALOGUE
from perftui.report.blocks import wrapped


def explain(name: str) -> str:
    """The rule or the fix of that name, as paragraphs.

    Raises:
        KeyError: there is none of that name.
    """
    if name == healthy.HEALTHY:
        return "\n".join((name, *wrapped(f"{healthy.WHEN}."), "", *wrapped(healthy.EXPLANATION)))
    if name in CATALOGUE:
        fix = CATALOGUE[name]
        answers = ", ".join(rule.id for rule in RULES if name in rule.fixes)
        lines = (name, *wrapped(f"{fix.what}."), "", *wrapped(fix.explanation))
        return "\n".join((*lines, "", *wrapped(f"Answers: {answers or 'no rule'}.")))
    return "\n".join(_rule(BY_ID[name]))


def names() -> tuple[str, ...]:
    """Everything that can be explained."""
    return (*BY_ID, healthy.HEALTHY, *CATALOGUE)


def when(rule: Rule) -> str:
    """When a rule warns, in one line: ``..., 5 % of the step or more``."""
    return f"{rule.when}: {fmt.percent(rule.limits.warning)} {rule.limits.of} or more"


def table() -> str:
    """All rules as a Markdown table."""
    rows = [f"| `{rule.id}` | {when(rule)} | {rule.answer} |" for rule in RULES]
    last = f"| `{healthy.HEALTHY}` | {healthy.WHEN} | |"
    return "\n".join(("| Finding | When | What to do |", "|---|---|---|", *rows, last))


def as_objects() -> list[dict[str, Any]]:
    """All rules as plain values; limits are shares, 0 to 1."""
    return [
        {
            "rule": rule.id,
            "when": rule.when,
            "explanation": rule.explanation,
            "warning": rule.limits.warning,
            "critical": rule.limits.critical,
            "limits_of": rule.limits.of,
            "limits_source": rule.limits.source,
            "fixes": list(rule.fixes),
            "answer": rule.answer,
        }
        for rule in RULES
    ]


def _rule(rule: Rule) -> Iterator[str]:
    limits = rule.limits
    yield rule.id
    yield from wrapped(f"{rule.when}.")
    yield ""
    yield from wrapped(rule.explanation)
    yield ""
    yield from wrapped(
        f"Warns from {fmt.percent(limits.warning)} {limits.of}, critical from "
        f"{fmt.percent(limits.critical)}. {limits.source}"
    )
    yield from wrapped(f"What to do: {rule.answer}.")
    for fix in rule.fixes:
        yield f"  {fix:<20} {CATALOGUE[fix].what}"
