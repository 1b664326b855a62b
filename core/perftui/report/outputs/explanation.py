"""What `explain` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.report.outputs.common import Schema


class RuleOutput(TypedDict):
    """What a finding means."""

    rule: str
    when: str
    explanation: str
    warning: Annotated[
        float | None, Meta(description="Share from which it is a warning; null without limits.")
    ]
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
        list[str],
        Meta(description="What it may change besides speed; what is offered for a run names its."),
    ]
    answers: Annotated[list[str], Meta(description="The rules whose findings it addresses.")]


class ExplainOutput(TypedDict):
    """`perftui explain`: what findings and fixes mean."""

    schema: Schema
    rules: list[RuleOutput]
    verdicts: Annotated[
        list[RuleOutput], Meta(description="The finding reported if no rule knows the cause.")
    ]
    fixes: list[FixExplanation]
