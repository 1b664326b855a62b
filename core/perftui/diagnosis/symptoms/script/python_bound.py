"""python-bound: the script's own Python takes the time, or that between the model's operators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import BACKWARD, EXPOSED_COPIES, FORWARD, OPERATORS, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, line_figures, more_profiled, rule
from perftui.facts.cpu.machine import core_wait, has_gpu, without_core_wait
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows
from perftui.facts.cpu.operators import PHASES, Operators, fewer_calls, judged_operators
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.script.compilations_and_pauses import gc_pauses, python_lock
from perftui.facts.source.lines import LOOP, VAGUE, WAITING, LinesByTime, LineShare
from perftui.facts.source.operator_lines import at, line_of, line_place
from perftui.facts.source.source_calls import uses_of
from perftui.facts.source.stack_profile import (
    FEWEST_MOMENTS,
    INSIDE,
    Moments,
    calls_no_framework,
    in_collectives,
    moments,
    own_samples,
    time_by_words,
)
from perftui.facts.step.judged_step import (
    PYTHON_IN,
    JudgedStep,
    judged_step,
    phase_shares,
    unmarked_operators,
)
from perftui.facts.step.steps import FEWEST_STEPS, steady_step
from perftui.facts.step.trace_steps import TraceSteps
from perftui.facts.step.uneven_steps import growing_steps, slow_steps
from perftui.run.columns import COMPILE, PROFILE, SAVE
from perftui.script.turns import Turns
from perftui.trace.model import Mask

NOT_OWN = (COMPILE, SAVE, PROFILE)
"""Stages outside the phases, each with its own rule."""


@dataclass(frozen=True)
class ScriptFunction:
    """Where most of the script's own Python runs: a function, or one line of the script."""

    line: LineShare
    """Its longest line."""
    name: str
    """The function; empty for a single line outside functions."""
    share: float
    """Share of the function in all of the script's own Python, 0 to 1."""
    words: str
    """The function's main activity; empty if unknown."""
    lines: LinesByTime
    """All lines of the script's own Python."""
    in_forward: float = 0
    """Share of the function's time in the forward pass, 0 to 1."""


@dataclass(frozen=True)
class ScriptPython:
    """Python time in a mean step, ns."""

    ns: int
    parts: tuple[str, ...]
    """Names of the parts of ``judged_step`` that contain it."""
    sees_operators: bool
    """Whether operators in the script's own code are excluded."""
    at: ScriptFunction | None
    """The function; None with too few samples."""
    asleep: float = 0
    """Share of the time, 0 to 1, in which it only waits, as in a sleep or for a subprocess."""


_IDLE = (GapCause.PYTHON.value, GapCause.CPU_OPERATORS.value, OTHER)
"""Parts of a device's time in which the script's own code holds it up."""


@fact
def script_python(facts: Facts) -> ScriptPython:
    """The script's own Python; with a GPU trace, only the time in which the GPU idles meanwhile.
    Unknown if no run was recorded, or it has too few steps."""
    if facts.run is None:
        raise UnknownError("a trace alone does not show the script's own Python")
    judged, stacks = judged_step(facts), moments(facts)
    outside = _outside_of_phases(facts, stacks)
    within = {phase: _inside(facts, stacks, phase) for phase in INSIDE}
    inside = sum(within.values())
    at = longest_function(stacks, own_samples(stacks)) if stacks else None
    if stacks is None and phase_shares.or_none(facts) is None:
        raise UnknownError("neither stack samples nor a profiled window show the script")
    sees = phase_shares.or_none(facts) is not None
    counted = time_by_words(stacks, own_samples(stacks)) if stacks else Counter[str]()
    asleep = sum(counted[words] for words in WAITING) / max(counted.total(), 1)
    if judged.on_device:
        collected = gc_pauses.or_none(facts)
        idle = sum(judged.part(name) for name in _IDLE) - (collected.per_step if collected else 0)
        seen = round(stacks.share(own_samples(stacks)) * judged.of.mean) if stacks and at else 0
        python = min(max(idle, 0), outside + inside, seen)
        return ScriptPython(python, _IDLE, sees, at, asleep)
    if stacks and sees and not at:
        # The framework may work on the script's behalf, as when gradients are printed.
        at = longest_function(stacks, (stacks.stage == "") & ~in_collectives(stacks))
    prefix = PYTHON_IN if sees else ""
    parts = tuple(f"{prefix}{phase}" for phase in INSIDE if within[phase])
    return ScriptPython(outside + inside, (OTHER, *parts), sees, at, asleep)


def _outside_of_phases(facts: Facts, stacks: Moments | None) -> int:
    """ns of the mean step in the script's own code, without operators, collections and work
    reported by other rules."""
    step = steady_step(facts)
    running = _running(facts)
    left = step.part(OTHER)
    if stacks is not None:
        other = np.isin(stacks.stage, NOT_OWN) | in_collectives(stacks)
        left -= round(stacks.share(other) * step.mean)
    collected = gc_pauses.or_none(facts)
    if collected is not None:
        left -= collected.outside
    # What later steps take more than the first ones, and a few more than the others, has its rules.
    growing, slow = growing_steps.or_none(facts), slow_steps.or_none(facts)
    left -= growing.cost if growing and growing.phase == OTHER else 0
    if slow and slow.phase == OTHER and not slow.cause and slow.stands_out:
        left -= slow.excess
    certain = _certain(stacks) if stacks else 0.0
    return max(round(left * max(1 - running, certain)), 0)


def _running(facts: Facts) -> float:
    """Share of the script's own code in which operators run, 0 to 1: all of it if it contains the
    forward pass and there is no window."""
    shares = phase_shares.or_none(facts)
    if shares is None:
        return 1.0 if judged_step(facts).hides_forward else 0.0
    unmarked = unmarked_operators(shares)
    return unmarked + (1 - unmarked) * (shares[OTHER].computing if OTHER in shares else 0.0)


def _certain(stacks: Moments) -> float:
    """Share of the script's own code that samples show not to be the model's work, though operators
    run in it, such as a copy of the model, or statistics in a separate function."""
    outside = stacks.stage == ""
    whole = int(stacks.held[outside].sum())
    own, apart = outside & calls_no_framework(stacks), _apart(stacks)
    inside, counted = time_by_words(stacks, own & apart), time_by_words(stacks, own & ~apart)
    certain = sum(ns for words, ns in counted.items() if words not in VAGUE)
    certain += sum(ns for words, ns in inside.items() if words not in ("", LOOP))
    return certain / max(whole, 1)


def _apart(stacks: Moments) -> Mask:
    """Samples in functions that neither train nor are called by the model."""
    functions = [outermost(name) for name in stacks.places["function"].tolist()]
    stages = stacks.stages.tolist()
    trains = {name for name, stage in zip(functions, stages, strict=True) if stage}
    of_place = np.array([bool(name) and name not in trains for name in functions], dtype=np.bool_)
    return of_place[stacks.at]


def _inside(facts: Facts, stacks: Moments | None, phase: str) -> int:
    """ns of the mean step in the script's own Python within ``phase``: in the forward pass, or in a
    closure or update rule called by the optimizer."""
    judged, step = judged_step(facts), steady_step(facts)
    if stacks is None:
        return 0
    own = (stacks.stage == phase) & calls_no_framework(stacks)
    if stacks.count(own) < FEWEST_MOMENTS:
        return 0
    if judged.on_device:
        return min(round(stacks.share(own) * step.mean), step.part(phase))
    if judged.sees_operators:
        return min(round(stacks.share(own) * step.mean), judged.part(f"{PYTHON_IN}{phase}"))
    counted = time_by_words(stacks, own)
    named = sum(ns for words, ns in counted.items() if words) / max(stacks.covered, 1)
    return min(round(named * step.mean), step.part(phase))


def longest_function(stacks: Moments, chosen: Mask) -> ScriptFunction | None:
    """Where most of the ``chosen`` samples are; None with too few."""
    if stacks.count(chosen) < FEWEST_MOMENTS:
        return None
    groups: dict[tuple[str, str, int], list[int]] = {}
    times = stacks.by_place(np.where(chosen, stacks.held, 0))
    rows = np.flatnonzero(times)
    columns = [stacks.places[name][rows].tolist() for name in ("file", "line", "function")]
    for row, file, line, function in zip(rows.tolist(), *columns, strict=True):
        name = outermost(function)
        # Lines outside of functions have nothing in common but the file.
        groups.setdefault((file, name, line if not name else -1), []).append(row)
    key = max(groups, key=lambda group: (int(times[groups[group]].sum()), group))
    of_group = chosen & np.isin(stacks.at, groups[key])
    lines = stacks.lines(of_group)
    in_forward = stacks.share(of_group & (stacks.stage == FORWARD))
    return ScriptFunction(
        lines.lines[0],
        key[1],
        lines.covered / max(int(times.sum()), 1),
        _words(stacks, of_group),
        stacks.lines(chosen),
        in_forward / (stacks.share(of_group) or 1),
    )


def outermost(function: str) -> str:
    """The outermost function that contains a line; empty for module-level lines."""
    name = function.partition(".<locals>")[0]
    return "" if name.startswith("<") else name


def _words(stacks: Moments, chosen: Mask) -> str:
    """The main activity of the ``chosen`` samples, if known for a third of their time."""
    count = time_by_words(stacks, chosen)
    whole = sum(count.values())
    del count[""]
    words, time = count.most_common(1)[0] if count else ("", 0)
    return words if time * 3 >= whole else ""


LEAST_NAMED = 0.25
"""Share of the script's own Python from which a function or line is named."""

COPIES_BESIDE = 0.5
"""Exposed copies, as a share of the script's own Python, from which both may have one cause."""

_SHOWN = 4
"""Lines listed."""


def _loop_at(facts: Facts, line: LineShare) -> Turns | None:
    """The loop around ``line`` whose turns could all be computed at once."""
    around = (use.turns for use in uses_of(facts, line.file, line.line))
    return next((one for one in around if one and re.search(r"free|taught", one.kind)), None)


def _named(at: ScriptFunction | None) -> str:
    if at is None:
        return ""
    what = f"{at.words}, " if at.words else ""
    where = f"in {at.name} ({at.line.short})" if at.name else f"at {at.line.short}"
    return f": {fmt.percent(at.share)} of it is {what}{where}"


def _doubt(judged: JudgedStep, own: ScriptPython, at: ScriptFunction | None) -> str:
    """Why the cause is unclear: without a line, blocking copies and freeing look like Python."""
    copies = judged.part(EXPOSED_COPIES)
    if not judged.on_device or copies < COPIES_BESIDE * own.ns or (at and at.words):
        return ""
    where = f"what {at.line.short} does" if at else "which line of the script it is"
    return (
        f"the GPU idles {judged.of.part_of(own.ns)} while the script runs Python, "
        f"but {where} is not known, and copies take as long"
    )


_LEAST = 0.05
_IN_MODEL = "compute once what stays the same, and the rest with fewer calls on whole tensors"


@rule(
    when="the script's own Python takes long: logging, statistics, copies, waiting",
    limits=Limits("As in the TensorBoard plugin.", 0.10, 0.20, info=_LEAST),
    claims=Claim(idle=GapCause.PYTHON),
    fixes=("sleep-off", "less-often"),
    answer="log every N steps, compute once (or in the dataset) what stays the same, and the rest "
    "on whole tensors",
)
def python_bound(facts: Facts) -> Lost | None:
    """Between forward, backward and optimizer the script does its own work in Python, and the model
    waits."""
    if facts.run is None:
        # A trace alone does not mark the script's own Python.
        raise NotApplicableError
    judged, own = judged_step(facts), script_python(facts)
    if not judged.on_device and has_gpu(facts):
        raise UnknownError("no profiled window shows whether the GPU idles meanwhile")
    step = judged.of
    # A thread that sleeps waits for no core.
    asleep = round(own.ns * own.asleep)
    own = replace(own, ns=asleep + without_core_wait(facts, own.ns - asleep))
    at = own.at if own.at and own.at.share >= LEAST_NAMED else None
    unproven = "" if at else "stack samples that show the line"
    if not own.sees_operators:
        unproven = "a profiled window that shows the operators"
    who = "The GPU idles" if judged.on_device else "The script's own Python takes"
    limits, named = python_bound.limits, own.at.share * own.ns if own.at else own.ns
    turns, back = _loop_at(facts, at.line) if at else None, f"{PYTHON_IN}{BACKWARD}"
    more = 0
    if at and turns and judged.part(back) and own.ns >= _LEAST * step.mean:
        ops, _ = judged_operators(facts)
        is_known = BACKWARD in _looped(ops, loops_over_rows(facts), loops(facts))
        # Between nodes of the backward pass the engine takes as long as Python that made the nodes.
        more = 0 if is_known else min(judged.part(back), round(named * at.in_forward))
    named, whole = named + more, own.ns + more
    # Nothing to change at a single place.
    is_spread = named < limits.warning * step.mean and whole < limits.critical * step.mean
    while_ = " while the script runs its own Python" if judged.on_device else ""
    begins = (
        LineShare(at.line.file, turns.begins) if at and turns and "taught" in turns.kind else None
    )
    return Lost(
        whole,
        step,
        f"{who} {step.part_of(own.ns)}{while_}{_named(at)}"
        f"{f', in a loop whose backward pass takes {fmt.duration(more)} more' if more else ''}.",
        (
            Figure.share(
                "the script's own Python", own.ns / step.mean, python_bound.limits.warning
            ),
            *line_figures(facts, own.at.lines if own.at else None, "at", _SHOWN),
        ),
        place=facts.at(begins or at.line) if at else None,
        parts=(*own.parts, back) if more else own.parts,
        doubt=_doubt(judged, own, at),
        worst=Severity.INFO if is_spread else Severity.CRITICAL,
        unproven=unproven,
        # What else waits for a core meanwhile goes with it.
        is_least=bool(core_wait.or_none(facts)),
        # What the model computes is needed in each step.
        advice=(fewer_calls(facts, FORWARD) or _IN_MODEL) if at and at.in_forward > 1 / 2 else "",
    )


HELD_UP = 1.25
"""Ratio of profiled steps to others, besides the profiler's own time, from which something else
held them up: a step of 41 ms on busy cores took 56 in its only window, and its waits were between
operators."""

USUAL_CALL_NS = 3_000
"""Typical profiler overhead per operator: 0.4 to 2.5 us if nothing else ran."""

PROFILED_CALL_NS = 10_000
"""Most profiler overhead per operator: 2 to 5 us is usual, twice as much on slow cores."""


def python_in_model(facts: Facts) -> Lost | None:
    """Python within the phases of a CPU training, and the phase with most of it.

    Between nodes of the backward pass the autograd engine runs, for each operator that Python
    called before: it counts at most as much as that Python. Phases that are a loop over slices of
    tensors, or an optimizer's over tensors, are left to their own rules.
    """
    judged = judged_step.or_none(facts)
    if judged is None or judged.on_device:
        # Between operators of the model the host launches.
        raise NotApplicableError
    ops, judged = judged_operators(facts)
    looped = _looped(ops, loops_over_rows(facts), loops(facts))
    python = {
        phase: judged.part(f"{PYTHON_IN}{phase}")
        for phase in (FORWARD, OPERATORS, OPTIMIZER)
        if phase not in looped
    }
    if BACKWARD not in looped:
        called = sum(python.get(phase, 0) for phase in (FORWARD, OPERATORS))
        python[BACKWARD] = min(judged.part(f"{PYTHON_IN}{BACKWARD}"), called)
    python = {phase: ns for phase, ns in python.items() if ns}
    # Between operators the training thread also waits for a lock held by another thread.
    lock = python_lock.or_none(facts)
    mean, calls = judged.of.mean, len(ops.rows) // max(ops.steps.steps, 1)
    cost = without_profiler(sum(python.values()), ops.steps.step_ns, mean, calls)
    cost -= round(lock.waited * mean) if lock else 0
    cost = without_core_wait(facts, cost)
    if not python or cost <= 0:
        return None
    phase = max(python, key=lambda other: python[other])
    line = line_of(facts, phase)
    return Lost(
        cost,
        judged.of,
        f"Python in the model and its optimizer takes {judged.of.part_of(cost)}, most of it "
        f"in {phase}{at(line)}: a step calls {calls} operators.",
        (
            Figure.share("Python between operators", cost / mean, PYTHON_IN_MODEL.limits.warning),
            *(Figure(f"{PYTHON_IN}{name}", ns, "ns") for name, ns in python.items()),
            Figure("operators of a step", calls, "count"),
        ),
        place=line_place(facts, line),
        parts=tuple(f"{PYTHON_IN}{name}" for name in python),
        doubt=_disturbed(facts, ops.steps, mean, calls) if judged.of.of_run else "",
        unproven=more_profiled(facts),
        is_least=bool(core_wait.or_none(facts)),
        advice=fewer_calls(facts, phase),
    )


def without_profiler(cost: int, profiled: int, mean: int, calls: int) -> int:
    """``cost`` per mean step without the profiler's overhead between operators: half of the excess
    of profiled steps, as the other half is within operators."""
    longer = min(max(profiled - mean, 0), calls * USUAL_CALL_NS)
    return min(round(cost * profiled / mean) - longer // 2, cost) if longer else cost


WAITED = 0.1
"""Share of the time in which other programs keep the training from a core, from which a single
profiled step does not tell Python from such waits: they are as long as a turn of the scheduler."""


def _disturbed(facts: Facts, steps: TraceSteps, mean: int, calls: int) -> str:
    """Why the window has no typical steps; empty if it has."""
    profiled, wait = steps.step_ns, core_wait.or_none(facts) or 0.0
    if steps.steps < FEWEST_STEPS and wait >= WAITED:
        return (
            f"other programs keep the training from a core {fmt.percent(wait)} of the time, and a "
            "single profiled step does not tell that from Python"
        )
    if profiled <= HELD_UP * mean + calls * PROFILED_CALL_NS:
        return ""
    return (
        f"profiled steps took {fmt.duration(profiled)}, where the mean step takes "
        f"{fmt.duration(mean)}: something else held them up"
    )


def _looped(ops: Operators, over_rows: Sequence[Loop], loops_: Sequence[Loop]) -> frozenset[str]:
    """Phases with most of their outermost operators in such loops."""
    top = np.bincount(ops.phase[ops.top], minlength=len(PHASES)).tolist()
    calls = dict(zip(PHASES, top, strict=True))
    over = Counter[str]()
    for loop in (*over_rows, *(other for other in loops_ if other.phase == OPTIMIZER)):
        over[loop.phase] += len(loop.positions)
    return frozenset(name for name in PHASES if over[name] > calls[name] / 2)


PYTHON_IN_MODEL = replace(
    python_bound,
    lost=python_in_model,
    limits=Limits("perfessor reports host time from 15 %; 10 % is worth a hint.", 0.15, info=0.10),
    claims=Claim(),
    fixes=(),
)
