"""What a rule is, from which share of the step on it warns, and how what it has found is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui.diagnosis.model import Abstention, Confidence, Figure, Finding, Severity
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime
from perftui.facts.step.steps import FEWEST_STEPS, MANY_STEPS, StepBreakdown

if TYPE_CHECKING:
    from perftui.analysis.model import GapCause

MOST_OF_HINT = 0.99
"""Share that a rule which never warns does not come to."""


@dataclass(frozen=True)
class Limits:
    """Shares, 0 to 1, from which on a finding is a warning and critical; those of what is certainly
    avoidable, a twentieth and a fifth, where no others are given."""

    source: str
    """Why these: what other tools use, or what was measured."""
    warning: float = 0.05
    critical: float = 0.20
    of: str = "of the step"
    """What they are shares of, as it ends a sentence."""
    info: float | None = None
    """From which on it is worth a word though no warning; None where it is not."""

    @classmethod
    def of_hint(cls, info: float, source: str, of: str = "of the step") -> Limits:
        """Limits of a rule that never warns: its shares stay below ``MOST_OF_HINT``."""
        return cls(source, MOST_OF_HINT, 1.0, of, info)

    @property
    def is_hint(self) -> bool:
        """Whether the rule never warns."""
        return self.warning >= MOST_OF_HINT


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
    figures: tuple[Figure, ...] = ()
    """What else it rests on. The judge puts ``part`` before them, where it has a ``label``, and the
    step behind them, where none of them says which steps they are about."""
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
    label: str = ""
    """What the figure of ``part`` is called."""
    shows_step: bool = True
    """Whether the judge may add the step to the figures."""

    @classmethod
    def without_cost(
        cls,
        sentence: str,
        figures: tuple[Figure, ...],
        place: Place | None = None,
        *,
        share: float | None = None,
        worst: Severity = Severity.CRITICAL,
        fixes: tuple[str, ...] | None = None,
        doubt: str = "",
    ) -> Lost:
        """What takes no time of a step, or nobody knows how much: ``share`` says how bad it is."""
        none = (0, None, sentence, figures, place)
        return cls(*none, share=share, worst=worst, fixes=fixes, doubt=doubt)

    @property
    def part(self) -> float:
        """What the limits are compared with, 0 to 1."""
        if self.share is not None:
            return self.share
        return self.cost_ns / self.of.mean if self.of and self.of.mean else 0.0


@dataclass(frozen=True)
class Rung:
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


SHOWN_LINES = 3

OF_STEPS = frozenset({"mean step", "mean training step", "steady steps", "profiled steps"})
"""Figures that say which steps a finding is about."""


def step_figures(step: StepBreakdown) -> tuple[Figure, Figure]:
    """The mean step, and how many steps it is the mean of."""
    return Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")


def line_figures(facts: Facts, lines: LinesByTime | None, label: str) -> tuple[Figure, ...]:
    """The longest of ``lines`` that are the user's own, as shares of their time."""
    return tuple(
        Figure.share(f"{label} {line.short}", lines.share(line), place=facts.at(line))
        for line in (lines.listed[:SHOWN_LINES] if lines else ())
        if lines and line.file
    )


def _figures(rule: Rule, lost: Lost) -> tuple[Figure, ...]:
    figures = lost.figures
    if lost.of is None:
        return figures
    if lost.label:
        figures = (Figure.share(lost.label, lost.part, rule.limits.warning), *figures)
    if not lost.shows_step or any(figure.label in OF_STEPS for figure in figures):
        return figures
    return (*figures, *step_figures(lost.of))


def _finding(rule: Rule, lost: Lost, found: Severity) -> Finding:
    """A critical finding is a warning where too few steps stand behind it: a run has to come to
    ``MANY_STEPS``; a trace that marks no steps, or two, is judged whole."""
    finding = Finding(
        rule.id,
        found,
        lost.sentence,
        _figures(rule, lost),
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
