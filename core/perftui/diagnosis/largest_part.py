"""``largest-part``: where the time goes that does not compute, where no rule names the cause."""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import EXPOSED_COMMUNICATION, EXPOSED_COPIES, OPERATORS, OTHER
from perftui.diagnosis.judge import confidence, more_steps, severity
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Abstention, Confidence, Figure, Finding, Severity
from perftui.diagnosis.rule import Verdict
from perftui.facts.cpu.machine import without_core_wait
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.idle import idle_place
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime
from perftui.facts.source.operator_lines import part_lines
from perftui.facts.step.judged_step import PYTHON_IN, READING, JudgedStep, Part, judged_step
from perftui.facts.step.steps import FEWEST_STEPS
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import phase_name

LIMITS = Limits(
    0.15,
    0.25,
    "nsys-ai and TraceLens warn of unexplained idle time from 15 %; the TensorBoard plugin "
    "reports parts of a step from 10 %.",
    info=0.10,
)

MOSTLY = 0.5
"""Share of a part from which on the costs of findings explain all of it: costs could be won."""

LEAST_NAMED = 0.25
"""Share of a part that a line must have to be named in the sentence."""

_IDLE = {
    GapCause.INPUT_WAIT.value: "while the training waits for data",
    GapCause.SYNCHRONISATION.value: "because the host waited for it first",
    GapCause.LAUNCH.value: "while the host launches kernels",
    GapCause.PYTHON.value: "while the host runs Python, with nothing queued",
    GapCause.ALLOCATION.value: "while the host allocates or frees memory in the driver",
    GapCause.CPU_OPERATORS.value: "while an operator works on the CPU",
    GapCause.COMPILATION.value: "while kernels are compiled",
    GapCause.INITIALISATION.value: "while the driver and libraries load code",
    GapCause.QUEUED.value: "with work queued: it waits for something that is not in the trace",
    GapCause.PROFILER.value: "while the profiler works",
    GapCause.UNEXPLAINED.value: "and nothing in the recording shows why",
}

_HOST_CALLS = (
    GapCause.CPU_OPERATORS.value,
    GapCause.ALLOCATION.value,
    GapCause.COMPILATION.value,
    GapCause.INITIALISATION.value,
)
"""Idle time that a single operator or call may explain."""


def _judge(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    try:
        judged = judged_step(facts)
    except UnknownError as error:
        return Abstention(LARGEST_PART.id, str(error))
    known = [part for part in judged.parts if part.name != OTHER or not judged.hides_forward]
    unnamed = [(part, _unnamed(part, judged, findings)) for part in known]
    part, left = max(
        ((part, left) for part, left in unnamed if not part.computes),
        key=lambda one: one[1],
        default=(None, 0),
    )
    found = severity(_share_lost(facts, judged, left), LIMITS) if judged.of.mean else None
    if part is None or found is None:
        return None
    return _finding(facts, judged, part, left, found)


def _share_lost(facts: Facts, judged: JudgedStep, ns: int) -> float:
    """``ns`` as a share of the step: on the CPU without the time in which the training waited for
    a core, which is that of other programs."""
    mean = judged.of.mean
    return ns / mean if judged.on_device else without_core_wait(facts, ns, mean)


def _unnamed(part: Part, judged: JudgedStep, findings: Sequence[Finding]) -> int:
    """Time of ``part`` that no finding is about, ns: none where findings explain most of it."""
    about = {part.name, part.name.removeprefix(PYTHON_IN)}
    named = sum(finding.share for finding in findings if about & set(finding.parts))
    left = part.ns - round(named * judged.of.mean)
    return left if left > (1 - MOSTLY) * part.ns else 0


def _finding(facts: Facts, judged: JudgedStep, part: Part, left: int, found: Severity) -> Finding:
    thread, step = part_lines(facts, part.name), judged.of
    line = thread.lines[0] if thread and thread.lines else None
    place, at = None, ""
    if thread and line and line.file and thread.share(line) >= LEAST_NAMED:
        place = facts.at(line)
        at = _at(thread)
    elif judged.on_device and part.name in _HOST_CALLS:
        place = _call(facts, GapCause(part.name))
        at = f", mainly in {place.operator}" if place else ""
    sure = confidence(step.count, of_run=step.of_run)
    figures = [Figure.share(_label(part, judged), left / step.mean, LIMITS.warning, place)]
    figures += _lines(thread, facts)
    figures += [Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")]
    return Finding(
        LARGEST_PART.id,
        found if step.count >= FEWEST_STEPS else min(found, Severity.WARNING),
        f"{_sentence(part, left, judged)}{at}.",
        tuple(figures),
        left,
        step.mean,
        Confidence.MEDIUM if sure is Confidence.HIGH else sure,
        place=place,
        parts=(part.name,),
        would_raise_confidence=more_steps(step.count),
        steps=step.count,
    )


def _label(part: Part, judged: JudgedStep) -> str:
    is_idle = judged.on_device and part.name in _IDLE
    return f"device idle, {part.name}" if is_idle else phase_name(part.name)


def _lines(thread: LinesByTime | None, facts: Facts) -> list[Figure]:
    """Lines of the user's code in which that time is spent, as shares of it."""
    if thread is None:
        return []
    return [
        Figure.share(
            f"at {line.short}",
            thread.share(line),
            place=facts.at(line),
        )
        for line in thread.listed[:3]
        if line.file
    ]


def _call(facts: Facts, cause: GapCause) -> Place | None:
    """The operator or call that takes most of such idle time, where the trace shows it."""
    steps = trace_steps(facts)
    place = idle_place(facts, cause, steps) if steps is not None else None
    return place if place and place.operator else None


def _sentence(part: Part, left: int, judged: JudgedStep) -> str:
    step = judged.of
    describe = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    return _what(part, judged, describe(left, step.mean))


def _at(thread: LinesByTime) -> str:
    line = thread.lines[0]
    within = f" in {line.function}" if line.function else ""
    return f", {fmt.percent(thread.share(line))} of it at {line.short}{within}"


def _what(part: Part, judged: JudgedStep, of: str) -> str:
    if judged.on_device and part.name in _IDLE:
        return f"The GPU idles {of} {_IDLE[part.name]}"
    if part.name == EXPOSED_COMMUNICATION:
        who = "The GPU" if judged.on_device else "The training"
        return (
            f"{who} spends {of} in collectives with other ranks, with no computation to hide them"
        )
    if part.name == READING:
        return f"The training waits {of} to read single values, as item() does"
    if part.name == EXPOSED_COPIES:
        return f"The GPU copies {of} without computing"
    if part.name.startswith(PYTHON_IN):
        phase = part.name.removeprefix(PYTHON_IN)
        return f"The training spends {of} in Python within {phase}, outside operators"
    if part.name == OTHER and judged.part(OPERATORS):
        return f"The training spends {of} outside operators, in Python or calls not recorded"
    if part.name == OTHER:
        return f"The script's own code takes {of}, outside forward, backward and optimizer"
    return f"The training spends {of} in {phase_name(part.name)}"


LARGEST_PART = Verdict(
    id="largest-part",
    when="the largest part of the step that computes nothing, if no rule knows the cause",
    explanation=(
        "At least a tenth of the step goes to something other than the model's own computation, "
        "and no other rule names the cause. The finding names that part of the step and, where "
        "stack samples show it, the line of your code. Look there first."
    ),
    answer="look at the line; if none is named, record more steps or --stacks",
    judge=_judge,
    limits=LIMITS,
)
