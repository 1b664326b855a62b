"""All that a finding can be: the rules, and the rungs below them."""

from __future__ import annotations

from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.rule import Rule, Verdict
from perftui.diagnosis.rules import RULES

BY_NAME: dict[str, Rule | Verdict] = {
    # Of two forms of one symptom the first.
    **{rule.id: rule for rule in (*RULES, *reversed(RULES))},
    **{rung.id: rung for rung in LADDER},
}
"""In the order they are asked."""


def answer_to(rule: str) -> str:
    """What to do about a finding of that rule, in one line; empty where nothing is to be done."""
    found = BY_NAME.get(rule)
    return found.answer if found else ""
