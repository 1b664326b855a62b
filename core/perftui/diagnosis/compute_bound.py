"""``compute-bound``: the time is in the model's own work, and only less of that would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perftui import format as fmt
from perftui.diagnosis.judge import confidence, more_steps
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import (
    COMPUTE_BOUND_ID,
    Abstention,
    Figure,
    Finding,
    Severity,
)
from perftui.diagnosis.rule import Verdict
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.card import trace_card
from perftui.facts.kernel.roofline import RoofedCall, longest_call
from perftui.facts.kernel.step_kernels import step_kernels, time_by_category
from perftui.facts.place import Place
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import forward_lines
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.run.columns import phase_name

_SHOWN = 3
"""Kinds of kernels in the sentence."""

COMPUTE_BOUND_SHARE = 0.80
"""Share of the step; gpu-idle calls a GPU that is busy so much of the time well used."""


LISTED = 3
"""Operators that are listed."""

TOLD_FROM = 0.05
"""Share of an operator from which on the sentence names it."""

LINE_FROM = 0.10
"""Share of the forward pass from which on the sentence names a line."""

PLACE_FROM = 0.5
"""Share of the forward pass from which on a line is where the finding is."""


def computes(facts: Facts) -> JudgedStep:
    """The judged step, where it computes for most of the time.

    Raises:
        UnknownError: it does not, or that is not known.
    """
    judged = judged_step(facts)
    share = judged.computing / judged.of.mean
    if not judged.sees_operators:
        raise UnknownError("no profiled step shows the operators")
    if share < COMPUTE_BOUND_SHARE:
        raise UnknownError(f"{_who(judged)} {fmt.percent(share)} of the time")
    return judged


def _who(judged: JudgedStep) -> str:
    return "the GPU computes" if judged.on_device else "the model's operators run"


def _judge(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    """The verdict beside findings about kernels and operators, and where health is not proven."""
    if any(finding.severity is Severity.HEALTHY for finding in findings):
        # That finding is the same.
        return None
    try:
        judged = computes(facts)
    except UnknownError:
        return None
    step, share = judged.of, judged.computing / judged.of.mean
    subject = "The GPU computes" if judged.on_device else "The model's operators take"
    of = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    operators, lines = _operators(facts, judged), _lines(facts, judged)
    parts = (Figure(phase_name(part.name), part.ns, "ns") for part in judged.parts)
    return Finding(
        COMPUTE_BOUND.id,
        Severity.INFO,
        f"{subject} {of(judged.computing, step.mean)}: only computing less, or faster, "
        f"helps.{_kernels(facts)}{_longest(operators)}{_longest_lines(lines)}",
        (
            Figure.share("computing", share, COMPUTE_BOUND_SHARE),
            *parts,
            *_categories(facts),
            *(
                Figure.share(f"of operators in {name}", share, place=Place(operator=name))
                for name, share in operators.items()
            ),
            *(
                Figure.share(f"of forward at {line.short}", share, place=facts.at(line))
                for line, share in lines.items()
            ),
        ),
        step_ns=step.mean,
        confidence=confidence(step.count, of_run=step.of_run),
        place=next((facts.at(one) for one, of in lines.items() if of >= PLACE_FROM), None),
        would_raise_confidence=more_steps(step.count),
        steps=step.count,
    )


def _kernels(facts: Facts) -> str:
    """Which kernels those are, and how near the longest call comes to what the card can do."""
    times = list((time_by_category.or_none(facts) or {}).items())[:_SHOWN]
    if not times:
        return ""
    whole = step_kernels(facts).time
    shares = ", ".join(f"{kind.value} {fmt.percent(time / whole)}" for kind, time in times)
    call = longest_call.or_none(facts)
    roof = ""
    if call is not None:
        reached = _reached(call, is_measured=trace_card(facts).is_measured)
        roof = f" {call.operator} of {call.sizes} reaches {reached}."
    return f" Of its kernels' time: {shares}.{roof}"


def _reached(call: RoofedCall, *, is_measured: bool) -> str:
    """``62 % of the card's arithmetic rate``, and of the measured one where there is one."""
    limit = "memory" if call.is_memory_bound else "arithmetic"
    share = fmt.percent(call.reached)
    if is_measured:
        return f"{share} of the {limit} rate that perftui probe measured"
    of_measured = call.reached_of_measured
    beside = "" if of_measured is None else f", {fmt.percent(of_measured)} of the measured one"
    return f"{share} of the card's {limit} rate{beside}"


def _categories(facts: Facts) -> tuple[Figure, ...]:
    times = time_by_category.or_none(facts) or {}
    return tuple(Figure(kind.value, time, "ns") for kind, time in times.items())


def _operators(facts: Facts, judged: JudgedStep) -> dict[str, float]:
    """The operators that take longest on the CPU, as shares of the time of all."""
    if judged.on_device or facts.analysis is None:
        return {}
    table = facts.analysis.ops
    whole = max(int(table.cpu_self.sum()), 1)
    longest = zip(table.names[:LISTED], table.cpu_self[:LISTED].tolist(), strict=True)
    return {name: own / whole for name, own in longest}


def _lines(facts: Facts, judged: JudgedStep) -> dict[LineShare, float]:
    """Where the forward pass computes on the CPU, as shares of it; on a GPU samples show only where
    it is launched."""
    found = None if judged.on_device else forward_lines.or_none(facts)
    listed = [line for line in found.listed[:LISTED] if line.file] if found else []
    return {line: found.share(line) for line in listed} if found else {}


def _longest_lines(lines: Mapping[LineShare, float]) -> str:
    told = [
        f"{fmt.percent(share)} at {line.short}"
        for line, share in lines.items()
        if share >= LINE_FROM
    ]
    return f" Of the forward pass: {', '.join(told)}." if told else ""


def _longest(operators: Mapping[str, float]) -> str:
    told = [f"{name} {fmt.percent(of)}" for name, of in operators.items() if of >= TOLD_FROM]
    return f" Of their time: {', '.join(told)}." if told else ""


COMPUTE_BOUND = Verdict(
    id=COMPUTE_BOUND_ID,
    when="the GPU, or the operators if there is none, is busy for most of the step",
    explanation=(
        "Little time is lost to waiting. To go faster, compute less or compute faster: lower "
        "precision, fused operators, torch.compile, fewer operations. Start with the longest "
        "kernels and operators."
    ),
    answer="the longest kernels and operators: precision, fusion, fewer of them",
    judge=_judge,
    limits=Limits(
        COMPUTE_BOUND_SHARE,
        1.0,
        "gpu-idle calls a GPU that is busy this much of the time well used.",
    ),
)
