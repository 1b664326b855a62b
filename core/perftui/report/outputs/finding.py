"""Findings and fixes, as reports have them."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.diagnosis.model import Confidence, Figure
from perftui.facts.place import Place
from perftui.report.outputs.common import Command, Share
from perftui.run.manifest import Override

SeverityName = Literal["critical", "warning", "info", "healthy"]
Key = Annotated[
    str,
    Meta(
        description=(
            "Rule and place (rule@file:function): the same in every run that names the same "
            "place, even if its lines have moved."
        )
    ),
]
Numerics = Annotated[
    bool,
    Meta(
        description="Whether the same samples in the same order may give other numbers with it; "
        "other order and other augmentation are among the risks."
    ),
]


Cost = Annotated[
    int,
    Meta(description="Nanoseconds lost per mean step, or in the whole trace if it marks no steps."),
]


class FindingOutput(TypedDict):
    """One cause of lost time; the costliest comes first."""

    rule: Annotated[str, Meta(description="perftui explain RULE describes it.")]
    key: Key
    severity: SeverityName
    sentence: Annotated[
        str, Meta(description="The finding for a human reader, with numbers, without the fix.")
    ]
    facts: list[Figure]
    cost_ns: Cost
    step_ns: Annotated[
        int,
        Meta(
            description=(
                "The mean steady step that the cost is part of, or the whole trace if it marks "
                "no steps; 0 if neither is known."
            )
        ),
    ]
    share: Annotated[float, Meta(description="Cost as a share of the step, 0 to 1.")]
    cost_is_least: Annotated[
        bool, Meta(description="Whether more may be lost: the cost counts what was seen.")
    ]
    best_speedup: Annotated[
        float | None,
        Meta(
            description=(
                "Speed-up if the whole cost went away: an upper bound, not a promise; a lower one "
                "if `cost_is_least`."
            )
        ),
    ]
    confidence: Confidence
    would_raise_confidence: Annotated[str, Meta(description="In words; empty if nothing would.")]
    would_raise_confidence_command: Annotated[
        list[str] | None,
        Meta(description="The command that does so, if there is one."),
    ]
    place: Place | None
    parts: list[str]
    fixes: Annotated[list[str], Meta(description="Names of the fixes that address it, best first.")]
    steps: Annotated[int, Meta(description="Steady steps that cost and confidence are based on.")]
    answer: Annotated[str | None, Meta(description="What to do, in one line.")]
    next: Command


class FixOutput(TypedDict):
    """One fix as it can be made for this run."""

    fix: Annotated[str, Meta(description="perftui explain FIX describes what it changes.")]
    answers: Annotated[list[str], Meta(description="The rules of the findings that it addresses.")]
    title: str
    risks: Annotated[list[str], Meta(description="What it may change besides speed, in words.")]
    changes_numerics: Numerics
    reversible: Annotated[
        bool,
        Meta(
            description="Whether it can be undone: a trial leaves the source alone, undo restores."
        ),
    ]
    triable: Annotated[bool, Meta(description="Whether perftui try can measure it.")]
    why_not_tried: str | None
    written: Annotated[
        bool, Meta(description="Whether the source already has it since this run: run it again.")
    ]
    override: Annotated[
        Override | None, Meta(description="What a run would be started with; null if nothing.")
    ]
    diff: Annotated[str | None, Meta(description="What perftui apply would write.")]
    command: Annotated[
        list[str] | None,
        Meta(description="The training's command with the script's own option for it."),
    ]
    why_not: Annotated[str | None, Meta(description="Why it cannot be written or made.")]
    advice: Annotated[str | None, Meta(description="The line to write by hand.")]
    file: str | None
    line: int | None


class BriefFinding(TypedDict):
    """A finding in a few words."""

    key: Key
    severity: SeverityName
    confidence: Confidence
    cost_ns: Cost
    share: Share
    place: Annotated[
        str | None, Meta(description="file:line, or the operator or kernel; null where unknown.")
    ]
    sentence: str
    fix: Annotated[str | None, Meta(description="The name of its best fix.")]
    answer: Annotated[str | None, Meta(description="What to do, in one line.")]
    changes_numerics: Numerics
    next: Command
