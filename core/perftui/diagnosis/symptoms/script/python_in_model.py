"""The Python of forward, backward and optimizer takes longer than it should beside operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perftui import format as fmt
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS, OPTIMIZER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.machine import without_core_wait
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows
from perftui.facts.cpu.operators import PHASES, Operators, cpu_operators
from perftui.facts.fact import Facts
from perftui.facts.script.python_lock import python_lock
from perftui.facts.source.operator_lines import at, line_of, place_of
from perftui.facts.step.judged_step import PYTHON_IN
from perftui.trace.model import NONE

HELD_UP = 1.25
"""Times that profiled steps may be as long as the others, beside what the profiler takes; longer
ones were held up by something else: a step of 41 ms on busy cores took 56 in its only window, and
what it waited for stood between its operators."""

USUAL_CALL_NS = 3_000
"""What the profiler takes for an operator: 0.4 to 2.5 us where nothing else ran."""

PROFILED_CALL_NS = 10_000
"""What the profiler takes for an operator at most: usual are 2 to 5 us, twice as much on
slow cores."""


def python_in_model(facts: Facts) -> Lost | None:
    """Python within the phases of a training on the CPU, and which of them has most of it.

    Between the nodes of the backward pass runs the autograd engine, for each operator that Python
    called before: that counts as much as the Python did. Phases that are a loop over pieces of
    tensors, or an optimizer's over tensors, are left to the rules about those.
    """
    found, judged = cpu_operators(facts)
    looped = _looped(found, loops_over_rows(facts), loops(facts))
    python = {
        phase: judged.part(f"{PYTHON_IN}{phase}")
        for phase in (FORWARD, OPERATORS, OPTIMIZER)
        if phase not in looped
    }
    if BACKWARD not in looped:
        called = sum(python.get(phase, 0) for phase in (FORWARD, OPERATORS))
        python[BACKWARD] = min(judged.part(f"{PYTHON_IN}{BACKWARD}"), called)
    python = {phase: ns for phase, ns in python.items() if ns}
    # Between operators the training thread also waits for a lock that another thread holds.
    lock = python_lock.or_none(facts)
    mean, calls = judged.of.mean, len(found.rows) // max(found.steps.steps, 1)
    cost = without_profiler(sum(python.values()), found.steps.step_ns, mean, calls)
    cost -= round(lock.waited * mean) if lock else 0
    if not python or cost <= 0:
        return None
    phase = max(python, key=lambda one: python[one])
    line = line_of(facts, phase)
    return Lost(
        cost,
        judged.of,
        f"Python in the model and its optimizer takes {fmt.part_of_step(cost, mean)}, most of it "
        f"in {phase}{at(line)}: a step calls {calls} operators.",
        (
            Figure.share("Python between operators", cost / mean, PYTHON_IN_MODEL.limits.warning),
            *(Figure(f"{PYTHON_IN}{name}", ns, "ns") for name, ns in python.items()),
            Figure("operators of a step", calls, "count"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line),
        parts=tuple(f"{PYTHON_IN}{name}" for name in python),
        share=without_core_wait(facts, cost, mean),
        doubt=_held_up(found.steps.step_ns, mean, calls) if judged.of.of_run else "",
    )


def without_profiler(cost: int, profiled: int, mean: int, calls: int) -> int:
    """``cost`` of the mean step without what the profiler takes between operators: half of that by
    which profiled steps are longer, as the other half lies within them."""
    longer = min(max(profiled - mean, 0), calls * USUAL_CALL_NS)
    return min(round(cost * profiled / mean) - longer // 2, cost) if longer else cost


def _held_up(profiled: int, mean: int, calls: int) -> str:
    """Why the window shows no usual step; empty where it does."""
    if profiled <= HELD_UP * mean + calls * PROFILED_CALL_NS:
        return ""
    return (
        f"profiled steps took {fmt.duration(profiled)}, where the mean step takes "
        f"{fmt.duration(mean)}: something else held them up"
    )


def _looped(found: Operators, over_rows: Sequence[Loop], known: Sequence[Loop]) -> frozenset[str]:
    """Phases of whose outermost operators most are in such loops."""
    top = found.caller == NONE
    calls = {
        name: int(np.count_nonzero(top & (found.phase == number)))
        for number, name in enumerate(PHASES)
    }
    over = Counter[str]()
    for loop in (*over_rows, *(one for one in known if one.phase == OPTIMIZER)):
        over[loop.phase] += len(loop.positions)
    return frozenset(name for name in PHASES if over[name] > calls[name] / 2)


PYTHON_IN_MODEL = Rule(
    id="python-bound",
    when="Python between the operators of the model takes the time",
    explanation=(
        "No operator runs during that time: it goes to Python code in the model, or to the call "
        "overhead of many small operators. Do more per call: larger tensors, operators on whole "
        "batches, foreach or fused optimizers, torch.compile. Move work that needs no tensor out "
        "of the model."
    ),
    lost=python_in_model,
    limits=Limits(
        0.15,
        0.20,
        "perfessor reports host time from 15 %; 10 % is worth a hint.",
        info=0.10,
    ),
    answer="fewer and larger operators, torch.compile, less Python in the model",
)
