"""Ask every rule and then the ladder, remove repeated findings, and rank the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from perftui import format as fmt
from perftui.analysis.intervals import EMPTY, Intervals, intersect, union
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.diagnosis.asking import asking
from perftui.diagnosis.ladder import LADDER, LARGEST_PART
from perftui.diagnosis.model import (
    COMPUTE_BOUND_ID,
    READ_MORE,
    Abstention,
    Diagnosis,
    Figure,
    Finding,
    Severity,
)
from perftui.diagnosis.rule import Claim, Rule, judge
from perftui.diagnosis.rules import BY_ID, BY_NAME, RULES, is_caution
from perftui.diagnosis.symptoms.gpu_idle.host_bound import launch_bound
from perftui.diagnosis.symptoms.machine.cores import TOO_LONG, cpu_threads
from perftui.diagnosis.symptoms.operators.costly_operators import slow_operator
from perftui.diagnosis.symptoms.operators.elementwise import memory_bound_elementwise, page_faults
from perftui.diagnosis.symptoms.operators.loops import loop_of_indexing
from perftui.diagnosis.symptoms.operators.views import expanded_operand
from perftui.diagnosis.symptoms.ranks.straggler import communication_exposed, straggler
from perftui.diagnosis.symptoms.script.python_bound import python_bound
from perftui.diagnosis.symptoms.script.repeated_work import repeated_work_rule, unread_result_rule
from perftui.diagnosis.symptoms.step.recording import initialisation
from perftui.facts.cpu.operators import all_operators
from perftui.facts.data_loader.batch_place import LEAST_NAMED
from perftui.facts.fact import Facts, UnknownError, cached, fact, trace_fact
from perftui.facts.gpu.idle import gap_times
from perftui.facts.gpu.kernels import step_kernels
from perftui.facts.place import Place
from perftui.facts.step.judged_step import IDLE_PARTS, PYTHON_IN, JudgedStep, judged_step
from perftui.facts.step.steps import MANY_STEPS, step_breakdown, step_count
from perftui.facts.step.trace_steps import complete, trace_steps
from perftui.trace.model import KERNEL, NONE, TraceError
from perftui.trace.text import printable

Judged = tuple[Rule, Finding]
"""A finding with the rule that it is of: two rows may have one id."""

TimelinePlace = tuple[int, int, "int | None"]
"""Start and end in ns since the trace's start, and a trace row to select."""

PHASE_MARKS = {"input_wait": ("perftui::input_wait", "enumerate(DataLoader)")}
"""Prefixes of the ranges that mark a phase, if not only our own mark."""

MOSTLY = 0.8
"""Share of a finding's time from which another finding that covers it is the same."""


def without_repeats(findings: Sequence[Judged], analysis: TraceAnalysis | None) -> list[Judged]:
    """Remove findings whose time is claimed by a more specific one, earlier in ``findings``.

    The specific one gets the worse of the two severities. What others claim only in part of a
    finding's time is theirs, up to their own cost.
    """
    kept: list[Judged] = []
    for rule, finding in findings:
        same = [
            at for at, (one, _) in enumerate(kept) if _covers(one.claims, rule.claims, analysis)
        ]
        if not same:
            kept.append((rule, replace(finding, cost_ns=_rest_of(rule, finding, kept, analysis))))
            continue
        specific, found = kept[same[0]]
        kept[same[0]] = specific, replace(found, severity=max(found.severity, finding.severity))
    return kept


def _rest_of(
    rule: Rule, finding: Finding, specific: Sequence[Judged], analysis: TraceAnalysis | None
) -> int:
    """The cost of ``finding`` without time that more specific findings claim."""
    whole = claimed(rule.claims, analysis) if analysis else EMPTY
    left = finding.cost_ns
    if analysis is None or not whole.total:
        return left
    for other, found in specific:
        both = intersect(claimed(other.claims, analysis), whole).total
        left -= min(finding.cost_ns * both // whole.total, found.cost_ns)
    return max(left, 0)


def _covers(specific: Claim, general: Claim, analysis: TraceAnalysis | None) -> bool:
    """Whether ``specific`` claims most of the time that ``general`` claims."""
    if specific == general:
        return general != Claim()
    if analysis is None:
        return False
    own, whole = claimed(specific, analysis), claimed(general, analysis)
    return bool(whole.total) and intersect(own, whole).total >= MOSTLY * whole.total


def claimed(claim: Claim, analysis: TraceAnalysis) -> Intervals:
    """All claimed time of a trace: idle time of the named cause if there is any, else the phase's
    ranges or the kernels. Cached with the trace."""
    return cached(claim, analysis.worked_out, lambda: _intervals(claim, analysis))


def _intervals(claim: Claim, analysis: TraceAnalysis) -> Intervals:
    gaps = gap_times(analysis).get(claim.idle) if claim.idle else None
    if gaps is not None:
        return union(gaps[1], gaps[2])
    rows = rows_of(claim, analysis)
    return union(analysis.trace.start[rows], analysis.trace.ends_of(rows)) if len(rows) else EMPTY


def rows_of(claim: Claim, analysis: TraceAnalysis) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows of the claimed phase's ranges, or of the claimed kernels."""
    trace = analysis.trace
    marks = PHASE_MARKS.get(claim.phase, (f"perftui::{claim.phase}",) if claim.phase else ())
    accepts = claim.kernels
    names = [
        at
        for at, name in enumerate(trace.names)
        if (marks and name.startswith(marks)) or (accepts and accepts(name))
    ]
    chosen = np.isin(trace.name, np.array(names, dtype=np.int64))
    if accepts:
        chosen &= trace.in_category(KERNEL)
    return np.flatnonzero(chosen).astype(np.int64)


def timeline_place(finding: Finding, analysis: TraceAnalysis | None) -> TimelinePlace | None:
    """The place of a figure of ``finding``, else the longest interval that its rule claims, or
    None. For idle time only the listed gaps are searched, the longest ones."""
    for figure in finding.facts:
        place = figure.place
        if place is not None and place.start is not None and place.end is not None:
            return place.start, place.end, place.trace_row
    rule = BY_ID.get(finding.rule)
    if analysis is None or rule is None:
        return None
    gap = next((gap for gap in analysis.gaps if gap.cause is rule.claims.idle), None)
    if gap is not None:
        return gap.start, gap.end, None
    rows = rows_of(rule.claims, analysis)
    if not len(rows):
        return None
    row = int(rows[np.argmax(analysis.trace.duration[rows])])
    start = int(analysis.trace.start[row])
    return start, start + int(analysis.trace.duration[row]), row


_GENERAL = frozenset({"input-in-main-thread", "input-bound", "input-worker-bound", python_bound.id})
"""Rules about all that is done in a part of the step."""
_AVOIDABLE = frozenset({repeated_work_rule.id, unread_result_rule.id})
"""Rules about work that need not be done."""

_LARGE = frozenset({expanded_operand.id, slow_operator.id})
"""Rules about operators that make tensors which need not be as large."""

COMPARABLE = 1 / 3
"""Share of the cost of launching in general from which a specific cause of late launches ranks
before it: without that cause, the rest of launching is at most twice as much. The same for exposed
communication and the rank that causes it."""


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Healthy first (it excludes anything above info), then what reaches its own limit: first uses
    that are most of what was recorded beside the judged steps, then by cost, then by severity;
    cautions last.

    Costs are compared as shares, since profiled steps are longer than others. A specific cause of
    late launches ranks before launching in general if it is comparable, or slows each launch:
    remedies for launching (CUDA graphs, compiling) only work once the host neither waits nor does
    work of its own. Likewise, a rank that the others wait for ranks before exposed communication,
    which is their waiting. Work that is repeated ranks before what is left of the part that it is
    in. A cause that slows all operators, or all Python, ranks before what it makes longer, as the
    mapping of memory does with element-wise work; it ranks behind what makes such large tensors.
    """
    launching = max((one.share for one in findings if _is_launching(one)), default=0.0)
    alone = max((_without_python(one) for one in findings if _is_launching(one)), default=0.0)
    waiting = max(
        (one.share for one in findings if one.rule == communication_exposed.id), default=0.0
    )
    has_steps = any(finding.steps for finding in findings)
    slowing = [finding for finding in findings if _slows_launches(finding)]
    faults = next((one for one in findings if one.rule == page_faults.id), None)
    longer = [one.share for one in findings if one.rule == memory_bound_elementwise.id]

    def rank(finding: Finding) -> tuple[bool, bool, bool, bool, float, bool, float, int, str]:
        share = finding.share * _without(slowing, finding)
        # What more threads could gain at most is no certain cost.
        share /= 2 if finding.rule == cpu_threads.id else 1
        delays = (
            not _is_launching(finding)
            and finding.severity >= Severity.WARNING
            and GapCause.LAUNCH.value in finding.parts
            and (share >= COMPARABLE * alone or _slows_launches(finding))
        )
        is_late = (
            finding.rule == straggler.id
            and finding.severity >= Severity.WARNING
            and share >= COMPARABLE * waiting
        )
        general = launching if delays else waiting if is_late else 0.0
        # What is left of such a part has no cause of its own.
        beside = findings if finding.rule in _AVOIDABLE else ()
        others = (one for one in beside if _is_general(one) and {*finding.parts} & {*one.parts})
        left = max((one.share for one in others), default=0.0)
        explains = bool(left) and share >= COMPARABLE * left
        general = left if explains else general
        above = longer if finding is faults else _faults_of(finding, faults)
        if above and share >= COMPARABLE * max(above):
            general, explains = max(general, *above), True
        slows = finding in slowing and finding.severity >= Severity.WARNING
        if slows and share >= COMPARABLE * (inflated := _inflated(findings, slowing, finding)):
            general = max(general, inflated)
        return (
            finding.severity is not Severity.HEALTHY,
            is_caution(finding) or _is_hint(finding),
            not _reaches_limit(finding),
            not (has_steps and finding.rule == initialisation.id and not finding.steps),
            -max(share, general),
            not (delays or is_late or slows or explains),
            -share,
            -finding.severity,
            finding.rule,
        )

    return tuple(sorted(findings, key=rank))


def _is_hint(finding: Finding) -> bool:
    """Whether it costs nothing that is known: a caution may say more of the step."""
    is_info = finding.severity is Severity.INFO and finding.rule != COMPUTE_BOUND_ID
    return is_info and not finding.share


def _is_general(finding: Finding) -> bool:
    """Whether it is about all that is done in a part of the step, or a loop that is not known."""
    is_placed = finding.place is not None and bool(finding.place.file)
    return finding.rule in _GENERAL or (finding.rule == loop_of_indexing.id and not is_placed)


def _faults_of(finding: Finding, faults: Finding | None) -> list[float]:
    """The share of ``faults``, if their memory may be that of operators which ``finding`` is about:
    at the same line, or at one that is not known."""
    if faults is None or finding.rule not in _LARGE or finding.severity < Severity.WARNING:
        return []
    places = [(one.file, one.line) for one in (finding.place, faults.place) if one]
    return [faults.share] if len(set(places)) == 1 else []


def _inflated(findings: Sequence[Finding], slowing: list[Finding], slow: Finding) -> float:
    """The largest share that remains of another finding about phases that ``slow`` makes longer."""
    phases = set(slow.parts) - set(IDLE_PARTS)
    others = (other for other in findings if other is not slow and phases & set(other.parts))
    return max((other.share * _without(slowing, other) for other in others), default=0.0)


def _reaches_limit(finding: Finding) -> bool:
    """Whether it is no mere hint below the limit of a rule that warns, or without a cost."""
    limits = BY_NAME[finding.rule].limits
    if finding.severity >= Severity.WARNING or finding.rule == COMPUTE_BOUND_ID or limits is None:
        return True
    return bool(finding.cost_ns) and (limits.is_hint or finding.share >= limits.warning)


def _without(slowing: Sequence[Finding], finding: Finding) -> float:
    """The share of the cost of ``finding`` that remains once nothing slows its operators."""
    phases = set(finding.parts) - set(IDLE_PARTS)
    slowed = (slow.share for slow in slowing if slow is not finding and phases & set(slow.parts))
    return 1 - max(slowed, default=0.0)


def _slows_launches(finding: Finding) -> bool:
    """Whether ``finding`` makes each launch slower."""
    rule = BY_ID.get(finding.rule)
    return rule is not None and rule.slows_launches


def _is_launching(finding: Finding) -> bool:
    """Whether ``finding`` is about launching in general."""
    if finding.rule == LARGEST_PART.id:
        return GapCause.LAUNCH.value in finding.parts
    return finding.rule == launch_bound.id


def _without_python(launching: Finding) -> float:
    """The share of ``launching`` without the half that is Python."""
    label = f"device idle, {GapCause.PYTHON.value}"
    python = sum(int(figure.value) for figure in launching.facts if figure.label == label)
    return max(launching.cost_ns - python, 0) / max(launching.step_ns, 1)


Taken = dict[str, int]
"""ns that a finding takes of each part that it may take."""


def within_step(findings: Sequence[Finding], judged: JudgedStep | None) -> list[int]:
    """The cost of each finding, ns, that is left to it by those before it.

    A finding takes time of the parts that it names, or of any if it names none of the step. Those
    before it make room as far as they name other parts that are left: all that is there can be
    claimed, and no more. Findings about anything but the judged step keep their cost.
    """
    if judged is None:
        return [finding.cost_ns for finding in findings]
    free = {part.name: part.ns for part in judged.parts}
    taken: list[Taken] = []
    costs = []
    for finding in findings:
        left = finding.cost_ns
        if finding.step_ns == judged.of.mean:
            named = {name for part in finding.parts for name in (part, f"{PYTHON_IN}{part}")}
            mine = dict.fromkeys([part for part in free if part in named] or free, 0)
            taken.append(mine)
            while left and (got := _take(mine, left, free, taken)):
                left -= got
            costs.append(finding.cost_ns - left)
        else:
            costs.append(left)
    return costs


def _take(mine: Taken, most: int, free: dict[str, int], taken: Sequence[Taken]) -> int:
    """Take up to ``most`` ns of one part; 0 if nothing is left."""
    # What is free first: others give way by a few ns at a time.
    for others, part in product(((), taken), mine):
        if got := _room(part, most, free, others, {part}):
            mine[part] += got
            free[part] -= got
            return got
    return 0


def _room(
    part: str, most: int, free: dict[str, int], taken: Sequence[Taken], seen: set[str]
) -> int:
    """How much of ``part`` is free, up to ``most`` ns, after others took other parts instead."""
    for holder in taken:
        for other in (name for name in holder if name not in seen):
            lacking = min(most - free[part], holder.get(part, 0))
            if lacking > 0:
                seen.add(other)
                got = _room(other, lacking, free, taken, seen)
                holder[part] -= got
                holder[other] += got
                free[other] -= got
                free[part] += got
    return min(free[part], most)


def bounded(kept: Sequence[Judged], first: Sequence[Judged], facts: Facts) -> list[Finding]:
    """The findings that are ``kept``, with costs within the step. Where less is left of one than it
    had at ``first``, it is judged anew: its sentence has another cost, and its limits may say that
    it is too little."""
    whole = {id(rule): found.cost_ns for rule, found in first}
    costs = within_step([found for _, found in kept], judged_step.or_none(facts))
    outcomes = (
        found if cost == whole[id(rule)] else judge(rule, facts, cost)
        for (rule, found), cost in zip(kept, costs, strict=True)
    )
    return [outcome for outcome in outcomes if isinstance(outcome, Finding)]


@fact
def diagnosis(facts: Facts) -> Diagnosis:
    """The findings of every rule, then those of the ladder."""
    # Imported here: the app's first frame is drawn before anything is judged.
    from perftui.diagnosis.slow_calls.lookup import advised

    outcomes = [(rule, _attempt(rule.id, partial(judge, rule, facts))) for rule in RULES]
    abstentions = [outcome for _, outcome in outcomes if isinstance(outcome, Abstention)]
    first = [(rule, found) for rule, found in outcomes if isinstance(found, Finding)]
    findings = bounded(without_repeats(first, facts.analysis), first, facts)
    for rung in LADDER:
        verdict = rung.judge(facts, findings)
        if isinstance(verdict, Finding):
            findings.append(verdict)
        elif verdict:
            abstentions.append(verdict)
    of_run, of_trace = step_breakdown(facts), trace_steps.or_none(facts)
    steps = of_run.count if of_run else of_trace.steps if of_trace and not facts.run else 0
    order = ranked(findings)
    advice = [_attempt(finding.rule, partial(advised, facts, finding)) for finding in order]
    abstentions += [outcome for outcome in advice if isinstance(outcome, Abstention)]
    pairs = zip(advice, order, strict=True)
    first_to_last = tuple(one if isinstance(one, Finding) else plain for one, plain in pairs)
    told = _with_largest(_with_caution(known_first(first_to_last)), facts)
    judged = Diagnosis(told, tuple(abstentions), steps, progress(facts))
    return replace(judged, asking=asking(judged, facts))


Outcome = Finding | Abstention | None


def _attempt(rule: str, work: Callable[[], Outcome]) -> Outcome:
    """What ``work`` makes; an abstention where it fails, so that one rule, which may meet a script
    unlike any that it was tried on, takes no other with it."""
    try:
        return work()
    except (TraceError, UnknownError):
        raise
    except Exception as error:  # noqa: BLE001 - told among what was not judged
        why = f"perftui has a bug here, please report it: {type(error).__name__}: {error}"
        return Abstention(rule, why)


_BY_PRODUCTS = frozenset({page_faults.id, memory_bound_elementwise.id, "layout-copies"})
"""Rules about what a line that computes too much does as well."""


def known_first(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Busy operators before hints about less, and before what their line does as well, if it is
    known what to write at their line."""
    bound = next((one for one in findings if one.rule == COMPUTE_BOUND_ID), None)
    if bound is None or not _is_known(bound):
        return findings
    lines = (fact for fact in bound.facts if fact.place == bound.place and fact.unit == "%")
    of_line = max((float(fact.value) / 100 for fact in lines), default=0.0)

    def is_less(one: Finding) -> bool:
        is_by_product = one.rule in _BY_PRODUCTS and not _is_known(one)
        is_hint = one.severity is Severity.INFO and one.share < LEAST_NAMED
        return is_hint or (is_by_product and one.share < of_line)

    if not all(is_less(one) for one in findings if one is not bound and not is_caution(one)):
        return findings
    return (bound, *(one for one in findings if one is not bound))


def _is_known(finding: Finding) -> bool:
    """Whether a row of the table says what to write at its line."""
    return any(fact.label == READ_MORE for fact in finding.facts)


def _with_caution(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The first of them with the figure of a busy host, if that is said of one after it."""
    longer = [fact for one in findings[1:] for fact in one.facts if fact.label == TOO_LONG]
    if not longer:
        return findings
    top, *others = findings
    return replace(top, facts=(*top.facts, longer[0])), *others


LEAST = 0.10
"""Share of the step from which an operator is named; other tools report parts from there."""


@trace_fact
def largest_operator(analysis: TraceAnalysis) -> tuple[str, float, str]:
    """The operator with the most time on the device, without one on the CPU: its name, its share of
    the step, 0 to 1, and both in words with its calls. Unknown if the trace shows no operators, or
    not all that they launched."""
    steps, trace = trace_steps(complete(analysis)), analysis.trace
    if steps is None or not steps.step_ns or not len(all_operators(analysis).rows):
        raise UnknownError("no step of the trace shows operators")
    if steps.has_gpu:
        kernels = step_kernels(analysis)
        launched = kernels.where(kernels.operator != NONE)
        if not len(launched):
            raise UnknownError("no operator of the trace launched a kernel")
        names = trace.name[launched.operator]
        number = int(np.argmax(np.bincount(names, weights=launched.duration)))
        mine = launched.where(names == number)
        calls, share = len(np.unique(mine.operator)) / mine.steps, mine.time / steps.step_ns
    else:
        ops = all_operators(analysis)
        own, count = np.bincount(ops.name, weights=ops.own), max(ops.steps.steps, 1)
        number = int(np.argmax(own))
        calls = int(np.count_nonzero(ops.name == number)) / count
        share = float(own[number]) / count / ops.steps.step_ns
    name, share = trace.names[number], min(share, 1.0)
    where = "a recorded step" if steps.steps else "the recording"
    times = f"{calls:,.0f} calls" if calls >= 1.5 else "one call"
    return name, share, f"{printable(name)}, {fmt.percent(share)} of {where}, {times} in it"


def _with_largest(findings: tuple[Finding, ...], facts: Facts) -> tuple[Finding, ...]:
    """``findings``, the first one with the largest operator as its second figure if it explains
    less than that takes."""
    top, largest = next(iter(findings), None), largest_operator.or_none(facts)
    if top is None or top.severity is Severity.HEALTHY or largest is None:
        return findings
    name, share, text = largest
    if share < max(LEAST, top.share) or name in top.sentence:
        return findings
    figure = Figure("largest operator", text, place=Place(operator=name))
    return (replace(top, facts=(*top.facts[:1], figure, *top.facts[1:])), *findings[1:])


def progress(facts: Facts) -> str:
    """What is being waited for; empty once there are enough steps or the run is over."""
    if facts.run is None or facts.run.manifest.status.is_over:
        return ""
    recorded, steady = step_count(facts), step_breakdown(facts)
    if recorded == 0:
        return "waiting for the first training step"
    if steady is None or not steady.count:
        return f"warming up, {fmt.several(recorded, 'step')} so far"
    if steady.count < MANY_STEPS:
        return f"collecting, {steady.count} of {MANY_STEPS} steady steps"
    return ""
