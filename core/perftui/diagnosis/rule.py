"""What a rule is: a row of what it needs, when it fires, and which time it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Abstention, Figure, Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.step.step_breakdown import StepBreakdown

if TYPE_CHECKING:
    from perftui.analysis.model import GapCause


@dataclass(frozen=True)
class Claim:
    """Which time of a step a finding is about.

    Two findings that claim the same time are one: the rule that stands first in the list of rules
    is the more specific one and keeps it. The place of a finding on the timeline follows from it.
    """

    idle: GapCause | None = None
    """Idle time of the device, of that cause."""
    phase: str = ""
    """A phase of the training thread, by its name in ``PHASES``."""
    kernels: Callable[[str], bool] | None = None
    """Kernels whose names it accepts."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a step that are claimed whole."""
        return tuple(name for name in (self.idle.value if self.idle else "", self.phase) if name)


@dataclass(frozen=True)
class Lost:
    """What a rule has found: the time, and the sentence about it.

    The judge makes a finding of it where the share reaches the rule's limits.
    """

    cost_ns: int
    """Lost from each step, in the mean."""
    of: StepBreakdown | None
    """The mean step that it is part of; None where no time is lost by itself."""
    sentence: str
    """For a person, with the numbers, without the fix."""
    figures: tuple[Figure, ...]
    place: Place | None = None
    """Where to look first: the line of the user's code, or the operator or kernel."""
    parts: tuple[str, ...] = ()
    """Parts of the step (``judged_step``) that the cost lies in; those that the rule claims where
    empty."""
    share: float | None = None
    """What the limits are compared with, where that is no share of the step."""
    fixes: tuple[str, ...] | None = None
    """The rule's fixes that answer this case; None for all of them."""
    worst: Severity = Severity.CRITICAL
    """How bad it is at most, whatever its share."""
    doubt: str = ""
    """Why the rule cannot judge after all, should the share reach its limits."""
    is_least: bool = False
    """Whether more than ``cost_ns`` may be lost: it counts what was seen, which is not all."""
    unproven: str = ""
    """What would have to be known for more than medium confidence; empty where nothing is."""

    @property
    def part(self) -> float:
        """What the limits are compared with, 0 to 1."""
        if self.share is not None:
            return self.share
        return self.cost_ns / self.of.mean if self.of and self.of.mean else 0.0


@dataclass(frozen=True)
class Verdict:
    """One rung of the ladder below the rules: the finding where no rule knows the cause."""

    id: str
    when: str
    """What it finds, in one line of a table, limits left out."""
    explanation: str
    """What it means and where to look, in a few sentences for a person."""
    answer: str
    """What to do, in one line of a table."""
    judge: Callable[[Facts, Sequence[Finding]], Finding | Abstention | None]
    """Judges this rung, given what the rules and the rungs above have found."""
    limits: Limits | None = None


@dataclass(frozen=True)
class Rule:
    """One rule: its symptom, its limits, and the fixes for it."""

    id: str
    when: str
    """What it finds, in one line of a table, limits left out."""
    explanation: str
    """What it means and where to look, in a few sentences for a person."""
    lost: Callable[[Facts], Lost | None]
    """What is lost, None where nothing is. A fact that is unknown may raise through it."""
    limits: Limits
    claims: Claim = Claim()
    fixes: tuple[str, ...] = ()
    """What answers it, best first, by the identifiers of fixes."""
    answer: str = ""
    """What to do, in one line of a table."""
    slows_launches: bool = False
    """Whether every launch takes longer for it, so that launching is reported only without it."""
