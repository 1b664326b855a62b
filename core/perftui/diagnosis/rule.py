"""What a rule is, its limits, and how its result becomes a finding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES, OPERATORS
from perftui.diagnosis.model import Abstention, Confidence, Figure, Finding, Severity
from perftui.facts.cpu.machine import busy_host
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.place import Place
from perftui.facts.question import Question
from perftui.facts.source.lines import LinesByTime
from perftui.facts.step.judged_step import IDLE_PARTS, judged_step
from perftui.facts.step.steps import FEWEST_STEPS, MANY_STEPS, StepBreakdown
from perftui.facts.step.trace_steps import trace_steps

MOST_OF_HINT = 0.99
"""A share that rules without warnings never reach."""


@dataclass(frozen=True)
class Limits:
    """Shares, 0 to 1, from which a finding is a warning and critical; by default those of certainly
    avoidable losses, a twentieth and a fifth."""

    source: str = "The loss is certainly avoidable; TraceLens reports exposed time from 5 %."
    """The source of these limits: other tools, or measurements."""
    warning: float = 0.05
    critical: float = 0.20
    of: str = "of the step"
    """What they are shares of, as the end of a sentence."""
    info: float | None = None
    """Share from which it is reported without a warning; None if it never is."""

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
    """The time of a step that a finding is about.

    Of two findings that claim the same time, only one stays: that of the rule first in the list of
    rules, which is more specific. A finding's place on the timeline also follows from it.
    """

    idle: GapCause | None = None
    """Idle time of the device with that cause."""
    phase: str = ""
    """A phase of the training thread, by its name in ``PHASES``."""
    kernels: Callable[[str], object] | None = None
    """Kernels whose names it accepts."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a step that are claimed as a whole."""
        return tuple(name for name in (self.idle.value if self.idle else "", self.phase) if name)


@dataclass(frozen=True)
class Lost:
    """The result of a rule: the lost time, and the sentence about it.

    The judge turns it into a finding if the share reaches the rule's limits.
    """

    cost_ns: int
    """Mean ns lost per step."""
    of: StepBreakdown | None
    """The mean step that contains it; None if no time is lost directly."""
    sentence: str
    """For a person: with the numbers, without the fix."""
    figures: tuple[Figure, ...] = ()
    """Other evidence. The judge puts ``part`` before it, if there is a ``label``, and the step
    after it, unless a figure already says which steps are meant."""
    place: Place | None = None
    """Where to look first: the line of the user's code, or the operator or kernel."""
    parts: tuple[str, ...] = ()
    """Parts of the step (``judged_step``) that contain the cost; if empty, those that the rule
    claims."""
    share: float | None = None
    """What the limits are compared with, if that is no share of the step."""
    fixes: tuple[str, ...] | None = None
    """The rule's fixes for this case; None for all of them."""
    worst: Severity = Severity.CRITICAL
    """Highest severity, whatever the share."""
    doubt: str = ""
    """Why the rule cannot judge after all, if the share reaches its limits."""
    is_least: bool = False
    """Whether more than ``cost_ns`` may be lost: it only counts what was seen."""
    unproven: str = ""
    """Evidence needed for more than medium confidence; empty if none is."""
    label: str = ""
    """Label of the figure of ``part``."""
    shows_step: bool = True
    """Whether the judge may add the step to the figures."""
    advice: str = ""
    """What to do here, in one line without a full stop, in place of the rule's ``answer``."""
    question: Question | None = None
    """What was not recorded and would tell more of it."""

    def within(self, most: int) -> Lost:
        """The loss at a cost of at most ``most`` ns; the sentence and figures say that cost."""
        if self.cost_ns <= most or self.of is None:
            return self
        of, was = self.of, self.cost_ns
        old, new = (round(100 * ns / of.mean, 1) if of.mean else 0.0 for ns in (was, most))

        def told(figure: Figure) -> Figure:
            if (figure.unit, figure.value) == ("ns", was):
                return replace(figure, value=most)
            is_share = (figure.unit, figure.value) == ("%", old)
            return replace(figure, value=new) if is_share else figure

        return replace(
            self,
            cost_ns=most,
            sentence=self.sentence.replace(of.part_of(was), of.part_of(most)),
            figures=tuple(told(figure) for figure in self.figures),
            share=None if self.share is None else self.share * most / was,
        )

    @property
    def part(self) -> float:
        """What the limits are compared with, 0 to 1."""
        if self.share is not None:
            return self.share
        return self.cost_ns / self.of.mean if self.of and self.of.mean else 0.0


without_cost = partial(Lost, 0, None)
"""A loss without a known time per step: its ``share`` is compared with the limits."""


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder below the rules: a finding for unknown causes."""

    id: str
    when: str
    """What it finds, in one line of a table, without limits."""
    explanation: str
    """What it means and where to look, in a few sentences for a person."""
    answer: str
    """What to do, in one line of a table."""
    judge: Callable[[Facts, Sequence[Finding]], Finding | Abstention | None]
    """Judge this rung, given the findings of the rules and the rungs above."""
    limits: Limits | None = None


@dataclass(frozen=True)
class Rule:
    """One rule: its symptom, its limits, and its fixes."""

    id: str
    when: str
    """What it finds, in one line of a table, without limits."""
    explanation: str
    """What it means and where to look, in a few sentences for a person."""
    lost: Callable[[Facts], Lost | None]
    """Compute the loss; None without one. Unknown facts may raise through it."""
    limits: Limits
    claims: Claim = Claim()
    fixes: tuple[str, ...] = ()
    """Identifiers of its fixes, best first."""
    answer: str = ""
    """What to do, in one line of a table."""
    slows_launches: bool = False
    """Whether it makes every launch slower, so that launching is only reported without it."""
    is_caution: bool = False
    """Whether it is about the measurement or the launch, not the training, where it costs nothing:
    then it stands after all verdicts."""


def rule(
    *,
    when: str,
    limits: Limits,
    id: str = "",  # noqa: A002 - as the field is called
    claims: Claim = Claim(),
    fixes: tuple[str, ...] = (),
    answer: str = "",
    slows_launches: bool = False,
    is_caution: bool = False,
) -> Callable[[Callable[[Facts], Lost | None]], Rule]:
    """Makes a rule of the function that computes its loss.

    The function's docstring is the explanation, and its name the id, with hyphens: ``busy_host`` is
    ``busy-host``, and so is ``busy_host_rule``, where a fact has that name.
    """

    def made(lost: Callable[[Facts], Lost | None]) -> Rule:
        name = id or lost.__name__.removesuffix("_rule").replace("_", "-")
        explanation = " ".join((lost.__doc__ or "").split())
        row = Rule(name, when, explanation, lost, limits, claims, fixes, answer)
        return replace(row, slows_launches=slows_launches, is_caution=is_caution)

    return made


def judge(rule: Rule, facts: Facts, most: int | None = None) -> Finding | Abstention | None:
    """The finding of ``rule``, at a cost of at most ``most`` ns if that is given; None without one,
    an abstention if it could not be judged."""
    try:
        lost = rule.lost(facts)
    except NotApplicableError:
        return None
    except UnknownError as error:
        question = error.question
        if question is not None and severity(question.share, rule.limits) is None:
            # Whatever the answer is, it is below the limits.
            return None
        return Abstention(rule.id, str(error), question)
    if lost is not None and lost.of is not None:
        lost = lost.within(lost.of.mean if most is None else most)
    level = severity(lost.part, rule.limits) if lost else None
    if lost is None or level is None:
        return None
    if lost.doubt:
        return Abstention(rule.id, lost.doubt)
    return _finding(rule, lost, min(level, lost.worst), facts)


def cost_of(rule: Rule, facts: Facts) -> int:
    """ns per step that the finding of ``rule`` costs; 0 without one."""
    finding = judge(rule, facts)
    return finding.cost_ns if isinstance(finding, Finding) else 0


def severity(share: float, limits: Limits) -> Severity | None:
    """Severity of a cost of ``share`` of the step; None below the lowest limit."""
    if share >= limits.critical:
        return Severity.CRITICAL
    if share >= limits.warning:
        return Severity.WARNING
    return Severity.INFO if limits.info is not None and share >= limits.info else None


class Certainty(NamedTuple):
    """How sure a finding is, what would raise that, and how readings disagree; either may be ""."""

    confidence: Confidence
    missing: str
    disagree: str

    def beside(self, sentence: str) -> str:
        """``sentence`` with the disagreement."""
        return f"{sentence.removesuffix('.')}; {self.disagree}." if self.disagree else sentence


def certainty(
    facts: Facts, step: StepBreakdown, parts: Collection[str], unproven: str = ""
) -> Certainty:
    """How sure a finding about ``parts`` of ``step`` is: of high confidence from ``MANY_STEPS`` on,
    of low below ``FEWEST_STEPS`` or if readings disagree. A trace with fewer than many steps is
    judged as a whole, so its confidence is one degree lower. A single profiled step may be no
    typical one: what only it shows is of medium confidence at most, and so is what was measured
    while other programs took the cores."""
    judged = judged_step.or_none(facts)
    disagree = judged.disagree if judged and set(parts) & BY_WINDOW - {COMPUTE} else ""
    profiled = more_profiled(facts) if parts and set(parts) <= BY_WINDOW else ""
    missing = unproven or more_steps(step.count) or profiled or (MORE_PROFILED if disagree else "")
    missing = missing or ("an idle machine" if busy_host(facts) else "")
    if disagree or step.count < (FEWEST_STEPS if step.of_run else MANY_STEPS):
        return Certainty(Confidence.LOW, missing, disagree)
    return Certainty(Confidence.MEDIUM if missing else Confidence.HIGH, missing, "")


MORE_PROFILED = "more profiled steps"


def more_profiled(facts: Facts) -> str:
    """What would raise the confidence in what a run's window shows; empty if it has two steps."""
    window = trace_steps.or_none(facts) if facts.run else None
    return MORE_PROFILED if window is not None and window.steps <= 1 else ""


def more_steps(steps: int) -> str:
    """What would raise the confidence; empty if it is already high."""
    missing = MANY_STEPS - steps
    return fmt.several(missing, "more steady step") if missing > 0 else ""


BY_WINDOW = frozenset({COMPUTE, OPERATORS, EXPOSED_COPIES, EXPOSED_COMMUNICATION, *IDLE_PARTS}) - {
    GapCause.INPUT_WAIT.value
}
"""Parts of the step that only a profiled window shows."""

SHOWN_LINES = 3

OF_STEPS = frozenset({"mean step", "mean training step", "steady steps", "profiled steps"})
"""Labels of figures that say which steps a finding is about."""


def step_figures(step: StepBreakdown) -> tuple[Figure, Figure]:
    """The mean step and the number of steps behind it."""
    return Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")


def line_figures(
    facts: Facts, lines: LinesByTime | None, label: str, most: int = SHOWN_LINES
) -> tuple[Figure, ...]:
    """The user's longest ``lines``, as shares of their time."""
    return tuple(
        Figure.share(f"{label} {line.short}", lines.share(line), place=facts.at(line))
        for line in (lines.listed[:most] if lines else ())
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


def _finding(rule: Rule, lost: Lost, level: Severity, facts: Facts) -> Finding:
    """A finding at most of severity warning if too few steps are behind it: a run needs
    ``MANY_STEPS``; a trace with no marked steps, or two, is judged as a whole."""
    finding = Finding(
        rule.id,
        level,
        lost.sentence,
        _figures(rule, lost),
        lost.cost_ns,
        confidence=Confidence.HIGH,
        place=lost.place,
        parts=lost.parts or rule.claims.parts,
        fixes=rule.fixes if lost.fixes is None else lost.fixes,
        is_least=lost.is_least,
        advice=lost.advice,
        question=lost.question,
    )
    if lost.of is None:
        return finding
    steps, of_run = lost.of.count, lost.of.of_run
    enough = steps >= MANY_STEPS if of_run else steps == 0 or steps >= FEWEST_STEPS
    shown = certainty(facts, lost.of, finding.parts if lost.cost_ns else (), lost.unproven)
    return replace(
        finding,
        severity=level if enough else min(level, Severity.WARNING),
        sentence=shown.beside(lost.sentence),
        step_ns=lost.of.mean,
        confidence=shown.confidence,
        would_raise_confidence=shown.missing,
        steps=steps,
    )
