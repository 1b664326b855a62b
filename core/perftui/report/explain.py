"""What each rule finds, from which limit on, and what answers it: as text, table and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perftui.diagnosis.catalogue import BY_NAME
from perftui.diagnosis.rule import Limits, Rule, Verdict
from perftui.diagnosis.rules import RULES
from perftui.fixes.catalogue import CATALOGUE
from perftui.report.as_json import SCHEMA, encode_object
from perftui.report.blocks import wrapped


def explain(name: str) -> str:
    """The rule or the fix of that name, as paragraphs.

    Raises:
        KeyError: there is none of that name.
    """
    if name in CATALOGUE:
        fix = CATALOGUE[name]
        answers = ", ".join(rule.id for rule in RULES if name in rule.fixes)
        lines = (name, *wrapped(f"{fix.what}."), "", *wrapped(fix.explanation))
        return "\n".join((*lines, "", *wrapped(f"Answers: {answers or 'no rule'}.")))
    return "\n".join(_described(BY_NAME[name]))


def names() -> tuple[str, ...]:
    """Everything that can be explained."""
    return (*BY_NAME, *CATALOGUE)


def table() -> str:
    """All rules as a Markdown table."""
    rows = (
        f"| `{one.id}` | {one.when} | {_from(one.limits)} | {one.answer} |"
        for one in BY_NAME.values()
    )
    head = ("| Finding | When | From | What to do |", "|---|---|---|---|")
    return "\n".join((*head, *rows))


def _from(limits: Limits | None) -> str:
    if limits and limits.is_hint:
        return "never more than a hint"
    return f"{100 * limits.warning:.0f} % {limits.of}" if limits else ""


def overview() -> str:
    """All rules, one a line."""
    rows = ((one.id, one.when) for one in BY_NAME.values())
    return "\n".join(f"{name:<25} {when}" for name, when in rows)


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
        for rule in BY_NAME.values()
        if isinstance(rule, Rule)
    ]


def _described(found: Rule | Verdict) -> Iterator[str]:
    limits = found.limits
    yield found.id
    yield from wrapped(f"{found.when}.")
    yield ""
    yield from wrapped(found.explanation)
    if limits:
        yield ""
        yield from wrapped(
            limits.source
            if limits.is_hint
            else f"Warns from {100 * limits.warning:.0f} % {limits.of}, critical from "
            f"{100 * limits.critical:.0f} %. {limits.source}"
        )
    if found.answer:
        yield from wrapped(f"What to do: {found.answer}.")
    for fix in found.fixes if isinstance(found, Rule) else ():
        yield from wrapped(f"{fix}: {CATALOGUE[fix].what}.", indent="  ")
