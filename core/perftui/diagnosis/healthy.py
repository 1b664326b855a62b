"""``healthy``: the GPU is busy with the model's own work, and no evidence is against it."""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.diagnosis.compute_bound import computes
from perftui.diagnosis.judge import confidence, more_steps
from perftui.diagnosis.model import Abstention, Figure, Finding, Severity
from perftui.diagnosis.rule import Verdict
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.step.judged_step import JudgedStep
from perftui.facts.step.other_steps import other_steps
from perftui.facts.step.trace_steps import longest_activity, trace_steps
from perftui.run.columns import phase_name

MOST_UNEVEN = 1.5
"""Mean over median, from which on a few steps hold so much time that they are the question; TraceML
and nsys-ai call a step slow from 1.5 times the median."""

MOST_OF_ONE = 0.5
"""Share of a single step, or of a trace without steps, that one kernel may take."""

MOST_LOST = 0.1
"""Share of the step that a part which does not compute may take: from there on it is named."""

MOST_ELSE = 0.2
"""Share of the time of all steps that other kinds of steps may take."""


def _judge(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    if any(finding.severity > Severity.INFO for finding in findings):
        return None
    try:
        judged = computes(facts)
        _check_device(judged)
        _check_parts(judged)
        _check_kernels(facts)
        _check_even(judged)
        _check_kinds(facts)
    except UnknownError as error:
        return Abstention(HEALTHY.id, str(error))
    return _finding(judged)


def _check_device(judged: JudgedStep) -> None:
    if not judged.on_device:
        raise UnknownError(
            "operators that run all the time can still be slow or unnecessary, and what this CPU "
            "could achieve is not known"
        )


def _check_even(judged: JudgedStep) -> None:
    step = judged.of
    if step.count and step.mean > MOST_UNEVEN * step.p50:
        raise UnknownError(
            f"the mean step of {fmt.duration(step.mean)} is {step.mean / max(step.p50, 1):.1f} "
            "times the median: a few steps take most of the time"
        )


def _check_parts(judged: JudgedStep) -> None:
    lost = judged.of.mean - judged.computing
    if not judged.of.count and lost >= MOST_LOST * judged.of.mean:
        idle = fmt.percent(lost / judged.of.mean)
        raise UnknownError(f"nothing computes for {idle} of a trace that marks no steps")
    for part in judged.parts:
        share = part.ns / judged.of.mean
        if not part.computes and share >= MOST_LOST:
            raise UnknownError(f"{phase_name(part.name)} takes {fmt.percent(share)} of the step")


def _check_kernels(facts: Facts) -> None:
    """A kernel that outlasts two steps is no step's work, and one that is most of all that was
    recorded shows no training: be it that its duration is wrong, or that it hangs."""
    steps = trace_steps.or_none(facts)
    if steps is None:
        return
    longest, most = longest_activity(facts), 2.0 if steps.steps > 1 else MOST_OF_ONE
    if longest > most * steps.step_ns:
        raise UnknownError(f"a single kernel or copy lasts {fmt.duration(longest)}")


def _check_kinds(facts: Facts) -> None:
    other = other_steps(facts)
    if other is not None and other.share >= MOST_ELSE:
        raise UnknownError(
            f"{fmt.percent(other.share)} of the time of all steps is spent in steps that "
            "do not train"
        )


def _finding(judged: JudgedStep) -> Finding:
    step = judged.of
    of = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    parts = (Figure(phase_name(part.name), part.ns, "ns") for part in judged.parts)
    return Finding(
        HEALTHY.id,
        Severity.HEALTHY,
        f"No bottleneck found: the GPU computes {of(judged.computing, step.mean)}.",
        (*parts, Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")),
        step_ns=step.mean,
        confidence=confidence(step.count, of_run=step.of_run),
        would_raise_confidence=more_steps(step.count),
        steps=step.count,
    )


HEALTHY = Verdict(
    id="healthy",
    when="none of these was found, and the numbers leave no room for one",
    explanation=(
        "The GPU computes for at least four fifths of the step, no other part takes a tenth of it "
        "(nor all other parts together, where the trace marks no steps), no rule reports "
        "anything, step times are even, and evaluation takes less than a fifth of the run. It is "
        "never reported without a GPU: nothing shows what the CPU could have computed in that "
        "time."
    ),
    answer="",
    judge=_judge,
)
