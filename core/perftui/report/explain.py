"""What each rule looks for, from which limit on, and what answers it: as text, table and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perftui.diagnosis import healthy
from perftui.diagnosis.rule import Rule
from perftui.diagnosis.rules import BY_ID, RULES
from perftui.fixes.catalogue import CATALOGUE
from perftui.report.as_json import SCHEMA, encode_object
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


def table() -> str:
    """All rules as a Markdown table."""
    rows = [
        f"| `{rule.id}` | {rule.when} | {100 * rule.limits.warning:.0f} % {rule.limits.of} "
        f"| {rule.answer} |"
        for rule in RULES
    ]
    last = f"| `{healthy.HEALTHY}` | {healthy.WHEN} | | |"
    head = ("| Finding | When | From | What to do |", "|---|---|---|---|")
    return "\n".join((*head, *rows, last))


def overview() -> str:
    """All rules, one a line."""
    last = (healthy.HEALTHY, healthy.WHEN)
    rows = (*((rule.id, rule.when) for rule in RULES), last)
    return "\n".join(f"{name:<22} {when}" for name, when in rows)


def as_json() -> str:
    """All rules as one JSON object; limits are shares, 0 to 1."""
    return encode_object({"schema": SCHEMA, "rules": _objects()})


def _objects() -> list[dict[str, Any]]:
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
        f"Warns from {100 * limits.warning:.0f} % {limits.of}, critical from "
        f"{100 * limits.critical:.0f} %. {limits.source}"
    )
    yield from wrapped(f"What to do: {rule.answer}.")
    for fix in rule.fixes:
        yield from wrapped(f"{fix}: {CATALOGUE[fix].what}.", indent="  ")
