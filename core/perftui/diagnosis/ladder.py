"""What is reported if no rule knows the cause: a ladder of fallbacks, never nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perftui import format as fmt
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import GapCause, OpTable
from perftui.analysis.ops.call_detail import OUTSIDE
from perftui.analysis.steps import (
    BACKWARD,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    FORWARD,
    OPERATORS,
    OTHER,
)
from perftui.diagnosis.model import (
    COMPUTE_BOUND_ID,
    Abstention,
    Confidence,
    Figure,
    Finding,
    Severity,
)
from perftui.diagnosis.roof import (
    advice,
    check_reach,
    known_roofline,
    reach_figures,
    share_of,
    use_of_card,
)
from perftui.diagnosis.rule import (
    BY_WINDOW,
    Certainty,
    Limits,
    Rung,
    certainty,
    line_figures,
    severity,
    step_figures,
)
from perftui.facts.cpu.machine import has_gpu, without_core_wait
from perftui.facts.cpu.operators import fewer_calls
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.host_waits import host_copies
from perftui.facts.gpu.kernels import step_kernels, time_by_category
from perftui.facts.gpu.roofline import NO_SIZES, Roofline, roofline
from perftui.facts.place import Place
from perftui.facts.question import Evidence, Question
from perftui.facts.source.lines import LineShare, main_thread, text_of
from perftui.facts.source.operator_lines import forward_lines, idle_place, part_lines
from perftui.facts.step.judged_step import PYTHON_IN, READING, JudgedStep, Part, judged_step
from perftui.facts.step.steps import FEWEST_STEPS, other_steps
from perftui.facts.step.trace_steps import host_code, longest_activity, subject, trace_steps
from perftui.run.columns import phase_name
from perftui.trace.model import MEMCPY, NONE

COMPUTE_BOUND_SHARE = 0.80
"""Share of the step; gpu-idle calls a GPU that is busy so much of the time well used."""

LISTED = 3
"""Operators, lines, modules and kinds of kernels that are listed."""

TOLD_FROM = 0.05
"""Share of the operators' time from which the sentence names one."""

LINE_FROM = 0.10
"""Share of the forward pass from which the sentence names a line."""

PLACE_FROM = 0.5
"""Share of the forward pass from which a line is the finding's place."""

_TRAINS = re.compile(r"\.(backward|step)\(")
"""The text of lines that call most of any training."""


def computes(facts: Facts, *, unseen: bool = False) -> JudgedStep:
    """The judged step, if it computes for most of the time; with ``unseen`` also if its operators
    were not seen, as of a training on the CPU so slow that no window was affordable. Unknown if it
    does not, or where that is unknown."""
    judged = judged_step(facts)
    share = judged.computing / judged.of.mean
    if not judged.sees_operators and (not unseen or has_gpu(facts)):
        raise UnknownError("no profiled step shows the operators")
    if share < COMPUTE_BOUND_SHARE:
        who = "the GPU computes" if judged.on_device else "the model's operators run"
        raise UnknownError(f"{who} {fmt.percent(share)} of the time")
    return judged


def _compute_bound(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    """The verdict beside findings about kernels and operators, and if health is not proven."""
    if any(finding.severity is Severity.HEALTHY for finding in findings):
        # The healthy finding says the same.
        return None
    # Until a window shows operators this is said only in place of cautions.
    is_late = bool(findings) and not any(finding.cost_ns for finding in findings)
    try:
        judged = computes(facts, unseen=is_late)
    except UnknownError:
        return None
    step, share = judged.of, judged.computing / judged.of.mean
    operators = _operators(facts, judged)
    # On a GPU, samples of the forward pass only show launching.
    forward = judged.part(FORWARD) + judged.part(f"{PYTHON_IN}{FORWARD}")
    # Backward takes its time for what forward and the loss called.
    is_little = forward < LEAST_NAMED * (step.mean - judged.part(BACKWARD))
    seen = None if judged.on_device or is_little else forward_lines.or_none(facts)
    lines = {line: seen.share(line) for line in seen.listed[:LISTED] if line.file} if seen else {}
    parts = (Figure(phase_name(part.name), part.ns, "ns") for part in judged.parts)
    categories: Mapping[Category, int] = {}
    modules: Mapping[str, float] = {}
    whole: dict[LineShare, float] = {}
    used, why = None, ""
    if judged.on_device:
        categories, modules = time_by_category.or_none(facts) or {}, _modules(facts)
        sentence = f"The GPU is the limit: it computes {step.part_of(judged.computing)}."
        of_all = {kind.value: time / step_kernels(facts).time for kind, time in categories.items()}
        sentence += _told("Of its kernels' time", dict(list(of_all.items())[:LISTED]))
        used, why = known_roofline(facts)
        unknown = f" How well they use it is not known yet: {why}."
        sentence += use_of_card(used, judged.computing) if used else unknown
    else:
        who = "operators take" if judged.sees_operators else "forward, backward and optimizer take"
        sentence = f"The CPU is the limit: {who} {step.part_of(judged.computing)}."
        sentence += "" if judged.sees_operators else " No window shows their operators yet."
        sentence += _told("Of their time", operators, TOLD_FROM)
        at = (f"{fmt.percent(of)} at {line.short}" for line, of in lines.items() if of >= LINE_FROM)
        if named := ", ".join(at):
            sentence += f" Of the forward pass: {named}."
        thread = main_thread.or_none(facts)
        own = (line for line in (thread.lines if thread else ()) if line.file)
        rest = tuple(one for one in own if not _TRAINS.search(text_of(one.file, one.line)))
        least = LEAST_NAMED * thread.covered if thread else 0.0
        line, where = replace(thread, lines=rest).named(least) if thread else (None, "")
        if thread and line:
            whole[line] = thread.share(line)
            sentence += f" {fmt.percent(whole[line])} of the step is {where}."
    both, shown = {**whole, **lines}, certainty(facts, step, BY_WINDOW)
    if shown.disagree:
        sentence = f"{sentence} {shown.disagree[0].upper()}{shown.disagree[1:]}."
    sentence += _told("Of the forward pass", modules, LINE_FROM)
    question = None
    if why == NO_SIZES:
        question = Question(Evidence.SHAPES, "how well its kernels use the card", share)
    elif judged.on_device and not modules:
        question = Question(Evidence.MODULES, "which modules take the GPU's time", share)
    return Finding(
        COMPUTE_BOUND.id,
        Severity.INFO,
        sentence,
        (
            Figure.share("computing", share, COMPUTE_BOUND_SHARE),
            *parts,
            *(Figure(kind.value, time, "ns") for kind, time in categories.items()),
            *(reach_figures(used) if used else ()),
            *(
                Figure.share(f"of operators in {name}", share, place=Place(operator=name))
                for name, share in operators.items()
            ),
            *(
                Figure.share(f"of forward at {line.short}", share, place=facts.at(line))
                for line, share in lines.items()
            ),
            *(Figure.share(f"of forward in {name}", share) for name, share in modules.items()),
        ),
        step_ns=step.mean,
        confidence=shown.confidence,
        place=next(
            (facts.at(one) for one, of in both.items() if one in whole or of >= PLACE_FROM), None
        ),
        would_raise_confidence=shown.missing,
        steps=step.count,
        question=question,
        advice=advice(used) if judged.on_device else fewer_calls(facts) or _start_with(both),
    )


def _start_with(lines: Mapping[LineShare, float]) -> str:
    """What to do about operators that no rule knows; at a line that calls no layer and neither
    backward nor step, begin there."""
    named = (one for one, of in lines.items() if of >= LEAST_NAMED)
    own = (one for one in named if "torch/nn/modules/" not in one.inner)
    line = next((one for one in own if not _TRAINS.search(text_of(one.file, one.line))), None)
    if line is None:
        return "fuse the longest operators, or call fewer of them"
    return (
        f"start with {line.short}: compute what stays the same there once (before the loop, in "
        "__init__ or in the dataset), and the rest on whole tensors, with fewer operators"
    )


def _told(what: str, shares: Mapping[str, float], least: float = 0.0) -> str:
    """Names with their shares from ``least`` on, as a sentence."""
    named = ", ".join(f"{name} {fmt.percent(of)}" for name, of in shares.items() if of >= least)
    return f" {what}: {named}." if named else ""


def _operators(facts: Facts, judged: JudgedStep) -> dict[str, float]:
    """The operators with the most CPU time, as shares of the time of all."""
    if judged.on_device or facts.analysis is None:
        return {}
    table = facts.analysis.ops
    whole = max(int(table.cpu_self.sum()), 1)
    longest = zip(table.names[:LISTED], table.cpu_self[:LISTED].tolist(), strict=True)
    return {name: own / whole for name, own in longest}


def _modules(facts: Facts) -> dict[str, float]:
    """The modules that launch most in the forward pass, as shares of it; empty if not recorded."""
    table = facts.analysis.modules if facts.analysis else OpTable.empty()
    each = zip(table.device_self.tolist(), table.names, strict=True)
    times = sorted((pair for pair in each if pair[1] != OUTSIDE), reverse=True)
    whole = sum(time for time, _ in times)
    return {name: time / whole for time, name in times[:LISTED]} if whole else {}


COMPUTE_BOUND = Rung(
    id=COMPUTE_BOUND_ID,
    when="the GPU, or without one the operators on the CPU, computes for most of the step",
    explanation=(
        "With the sizes of tensors (--shapes), the finding says what the kernels reach of the "
        "card's arithmetic or bandwidth. Good trainings of language models reach 38 to 55 % of the "
        "arithmetic."
    ),
    answer=(
        "use lower precision, fuse kernels, or compute less: start with the longest kernels and "
        "operators"
    ),
    judge=_compute_bound,
    limits=Limits("gpu-idle calls such a GPU well used.", COMPUTE_BOUND_SHARE, 1.0),
)

MOST_UNEVEN = 1.5
"""Mean over median from which a few steps hold so much time that they matter most; TraceML and
nsys-ai call a step slow from 1.5 times the median."""

MOST_OF_ONE = 0.5
"""Largest share of a single step, or of a trace without steps, for one kernel."""

MOST_LOST = 0.1
"""Share of the step from which a part that does not compute is named."""

MOST_ELSE = 0.2
"""Largest share of other kinds of steps in the time of all steps."""


def _healthy(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    if any(finding.severity > Severity.INFO for finding in findings):
        return None
    try:
        judged = computes(facts)
        if not judged.on_device:
            raise UnknownError(
                "operators that run all the time can still be slow or unnecessary, and what this "
                "CPU could achieve is not known"
            )
        if judged.disagree:
            raise UnknownError(judged.disagree)
        _check_parts(judged)
        _check_kernels(facts)
        step = judged.of
        if step.count and step.mean > MOST_UNEVEN * step.p50:
            raise UnknownError(
                f"the mean step of {fmt.duration(step.mean)} is {step.mean / max(step.p50, 1):.1f} "
                "times the median: a few steps take most of the time"
            )
        check_reach(facts)
        other = other_steps(facts)
        if other is not None and other.share >= MOST_ELSE:
            raise UnknownError(
                f"{fmt.percent(other.share)} of the time of all steps is spent in steps that "
                "do not train"
            )
    except UnknownError as error:
        return Abstention(HEALTHY.id, str(error))
    return _finding(judged, roofline(facts), certainty(facts, judged.of, BY_WINDOW))


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
    """A kernel longer than two steps is no step's work, and one that is most of the recording shows
    no training: its duration is wrong, or it hangs."""
    steps = trace_steps.or_none(facts)
    if steps is None:
        return
    longest, most = longest_activity(facts), 2.0 if steps.steps > 1 else MOST_OF_ONE
    if longest > most * steps.step_ns:
        raise UnknownError(f"a single kernel or copy lasts {fmt.duration(longest)}")


def _finding(judged: JudgedStep, used: Roofline, shown: Certainty) -> Finding:
    step = judged.of
    parts = (Figure(phase_name(part.name), part.ns, "ns") for part in judged.parts)
    return Finding(
        HEALTHY.id,
        Severity.HEALTHY,
        f"No bottleneck found: the GPU computes {step.part_of(judged.computing)}, and its kernels "
        f"reach {share_of(used)}.",
        (*parts, *reach_figures(used), *step_figures(step)),
        step_ns=step.mean,
        confidence=shown.confidence,
        would_raise_confidence=shown.missing,
        steps=step.count,
    )


HEALTHY = Rung(
    id="healthy",
    when="no rule found anything, and the GPU computes for most of the step at a good rate",
    explanation=(
        "The GPU computes for four fifths of the step, no other part takes a tenth, steps are "
        "even, and evaluation takes less than a fifth of the run. The kernels reach half of the "
        "card's arithmetic or bandwidth, which needs the sizes of tensors (--shapes), and none "
        "with much time stays below a quarter."
    ),
    answer="",
    judge=_healthy,
)

LIMITS = Limits(
    "nsys-ai and TraceLens warn of unexplained idle time from 15 %.", 0.15, 0.25, info=0.10
)

MOSTLY = 0.5
"""Share of a part from which costs of findings explain all of it: costs may be estimates."""

LEAST_LEFT = 0.05
"""Share of the step from which a part is named, however long the training waits for a core."""

LEAST_NAMED = 0.25
"""Share of a part from which a line is named in the sentence."""

_IDLE = {
    GapCause.INPUT_WAIT.value: "while the training waits for data",
    GapCause.SYNCHRONISATION.value: "after the CPU has waited for it",
    GapCause.LAUNCH.value: "while the host launches kernels",
    GapCause.PYTHON.value: "while the host runs Python, with nothing queued",
    GapCause.ALLOCATION.value: "while the host allocates or frees memory in the driver",
    GapCause.CPU_OPERATORS.value: "while an operator works on the CPU",
    GapCause.COMPILATION.value: "while kernels are compiled",
    GapCause.INITIALISATION.value: "while the driver and libraries load code",
    GapCause.QUEUED.value: "with work queued: it waits for something that is not in the trace",
    GapCause.UNEXPLAINED.value: "and nothing in the recording shows why",
}

_HOST_CALLS = (
    GapCause.CPU_OPERATORS.value,
    GapCause.ALLOCATION.value,
    GapCause.COMPILATION.value,
    GapCause.INITIALISATION.value,
)
"""Causes of idle time that a single operator or call may explain."""

_HOST_BOUND = (*_HOST_CALLS, GapCause.LAUNCH.value, GapCause.PYTHON.value)
_WAITING = (GapCause.INPUT_WAIT.value, GapCause.SYNCHRONISATION.value, GapCause.QUEUED.value)
"""What the verdict calls a step whose cause is not known: a busy GPU is the limit itself."""


def _largest_part(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    try:
        judged = judged_step(facts)
    except UnknownError as error:
        return Abstention(LARGEST_PART.id, str(error))
    # The profiler's own time has a rule of its own.
    hidden = (GapCause.PROFILER.value, *((OTHER,) if judged.hides_forward else ()))
    lost = [part for part in judged.parts if not part.computes and part.name not in hidden]
    unnamed = [(_unnamed(facts, part, judged, findings), part) for part in lost]
    left, part = max(unnamed, key=lambda pair: pair[0], default=(0, None))
    if part is None or not judged.of.mean:
        return None
    # Waits for a core are in all parts alike.
    whole = judged.of.mean if judged.on_device else without_core_wait(facts, judged.of.mean)
    level = severity(left / judged.of.mean, LIMITS)
    if left >= LEAST_LEFT * judged.of.mean and severity(left / max(whole, 1), LIMITS) is not None:
        level = level or Severity.INFO
    return _finding_of_part(facts, judged, part, left, level) if level is not None else None


def _unnamed(facts: Facts, part: Part, judged: JudgedStep, findings: Sequence[Finding]) -> int:
    """ns of ``part`` that no finding is about; 0 if findings explain most of it. On the CPU without
    waits for a core, which are the time of other programs, as in the costs of findings."""
    whole = part.ns if judged.on_device else without_core_wait(facts, part.ns)
    about = {part.name, part.name.removeprefix(PYTHON_IN)}
    claimed = sum(finding.share for finding in findings if about & set(finding.parts))
    left = whole - round(claimed * judged.of.mean)
    return left if left > (1 - MOSTLY) * whole else 0


def _finding_of_part(
    facts: Facts, judged: JudgedStep, part: Part, left: int, level: Severity
) -> Finding:
    thread, step = part_lines(facts, part.name), judged.of
    line = thread.standing_out(LEAST_NAMED) if thread else None
    place, at = None, ""
    if thread and line:
        within = f" in {line.function}" if line.function else ""
        place = facts.at(line)
        at = f", {fmt.percent(thread.share(line))} of it at {line.short}{within}"
    elif judged.on_device and part.name in _HOST_CALLS:
        # The operator or call with most of such idle time, if the trace shows it.
        steps = trace_steps(facts)
        place = idle_place(facts, GapCause(part.name), steps) if steps is not None else None
        place = place if place and place.operator else None
        at = f", mainly in {place.operator}" if place else ""
    shown = certainty(facts, step, (part.name,))
    is_idle = judged.on_device and part.name in _IDLE
    label = f"device idle, {part.name}" if is_idle else phase_name(part.name)
    of_python = part.name.startswith(PYTHON_IN)
    return Finding(
        LARGEST_PART.id,
        level if step.count >= FEWEST_STEPS else min(level, Severity.WARNING),
        shown.beside(f"{_what(facts, part, judged, step.part_of(left))}{at}."),
        (
            Figure.share(label, left / step.mean, LIMITS.warning, place),
            *(_ways(facts) if part.name == EXPOSED_COPIES else ()),
            *line_figures(facts, thread, "at"),
            *step_figures(step),
        ),
        left,
        step.mean,
        Confidence.MEDIUM if shown.confidence is Confidence.HIGH else shown.confidence,
        place=place,
        parts=(part.name,),
        would_raise_confidence=shown.missing,
        steps=step.count,
        advice=(fewer_calls(facts, part.name[len(PYTHON_IN) :]) if of_python else "")
        or ("" if place and place.file else _how_to_see(facts, is_idle)),
        # Elsewhere samples of the whole run show more than those of a window would.
        question=Question(Evidence.STACKS, "which line it is", left / step.mean)
        if is_idle and not (place and place.file)
        else None,
    )


def _how_to_see(facts: Facts, is_idle: bool) -> str:
    """How to learn of a line that is not known."""
    hows = ("run it again with --stacks", "let it run for longer")
    if facts.run is None:
        hows = ("record it by torch.profiler with with_stack=True", "run it under perftui")
    elif not facts.run.manifest.status.is_over:
        return "wait: samples that show the line are still coming"
    how = hows[0] if is_idle else hows[1]
    return f"{how}, which shows the line"


def _at_an_end(facts: Facts, cause: str) -> str:
    """Whether most of a trace's idle time is before or after all that the device does: the start
    of the program, or its end."""
    steps = trace_steps(facts) if facts.run is None else None
    gaps = steps.gaps(GapCause(cause)) if steps is not None else []
    before = sum(gap.duration for gap in gaps if gap.previous_row == NONE)
    after = sum(gap.duration for gap in gaps if gap.next_row == NONE)
    if 2 * max(before, after) <= sum(gap.duration for gap in gaps):
        return ""
    return ", mostly before its first work" if before > after else ", mostly after its last work"


def _ways(facts: Facts) -> Iterator[Figure]:
    """Where all copies of the steps go, by their time."""
    copies, steps = host_copies.or_none(facts), trace_steps.or_none(facts)
    if copies is None or steps is None:
        return
    trace = steps.analysis.trace
    every = trace.in_category(MEMCPY) & steps.on_device & steps.inside
    whole, lasting = int(trace.duration[every].sum()), trace.duration[copies.rows]
    there, back = (int(lasting[way].sum()) for way in (copies.to_device, ~copies.to_device))
    for way, ns in (
        ("to the GPU", there),
        ("to the host", back),
        ("within GPUs", whole - there - back),
    ):
        if ns > 0:
            yield Figure.share(f"of all copies, {way}", ns / whole)


def _what(facts: Facts, part: Part, judged: JudgedStep, of: str) -> str:
    who = subject(facts)
    if judged.on_device and part.name in _IDLE:
        why = _IDLE[part.name].replace("the training", f"{who[0].lower()}{who[1:]}")
        if facts.analysis is not None:
            why = why.replace("Python", host_code(facts.analysis))
        bound = "Host-bound: the" if part.name in _HOST_BOUND else "The"
        bound = "Waiting: the" if part.name in _WAITING else bound
        return f"{bound} GPU idles {of} {why}{_at_an_end(facts, part.name)}"
    if part.name == EXPOSED_COMMUNICATION:
        who = "The GPU" if judged.on_device else who
        return (
            f"{who} spends {of} in collectives with other ranks, with no computation to hide them"
        )
    if part.name == READING:
        return f"{who} waits {of} to read single values, as item() does"
    if part.name == EXPOSED_COPIES:
        return f"The GPU copies {of} without computing"
    if part.name.startswith(PYTHON_IN):
        phase = part.name.removeprefix(PYTHON_IN)
        return f"{who} spends {of} in Python within {phase}, outside operators"
    if part.name == OTHER and judged.part(OPERATORS):
        return f"{who} spends {of} outside operators, in Python or calls not recorded"
    if part.name == OTHER:
        return f"The script's own code takes {of}, outside forward, backward and optimizer"
    return f"{who} spends {of} in {phase_name(part.name)}"


LARGEST_PART = Rung(
    id="largest-part",
    when="the largest part of the step that computes nothing, if no rule knows the cause",
    explanation=(
        "The finding names that part of the step and, where stack samples show it, the line of "
        "your code."
    ),
    answer="start with the line that the finding names, or with the longest operators of that part",
    judge=_largest_part,
    limits=LIMITS,
)

LADDER: tuple[Rung, ...] = (LARGEST_PART, HEALTHY, COMPUTE_BOUND)
"""In the order they are asked; each receives the findings so far."""
