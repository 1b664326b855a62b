"""What became of an expected value: met, explained, or about something that we do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """How an expected value is accounted for."""

    MET = "met"
    EXPLAINED = "explained"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Verdict:
    """An outcome and, unless the value is met, why."""

    outcome: Outcome
    reason: str = ""


MET = Verdict(Outcome.MET)

PROPERTY = "expected value"
"""What a test's report calls a verdict."""

Account = Callable[[Verdict], None]
"""Takes the verdict on one expected value: the fixture of that name."""


def explained(reason: str) -> Verdict:
    """The value follows from our columns by the tool's own definition, which differs from ours."""
    return Verdict(Outcome.EXPLAINED, reason)


def not_shown(what: str) -> Verdict:
    """The value is about something that no table of ours holds."""
    return Verdict(Outcome.NOT_SHOWN, what)
