"""The Python of forward, backward and optimizer takes longer than it should beside operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perftui import format as fmt
from perftui.analysis.steps.phases import OPTIMIZER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.judged_step import PYTHON_IN
from perftui.facts.operator_lines import at, line_of, place_of
from perftui.facts.operator_loops import Loop, loops, loops_over_rows
from perftui.facts.operators import PHASES, Operators, cpu_operators
from perftui.trace.model import NONE


def python_in_model(facts: Facts) -> Lost | None:
    """Python within the phases of a training on the CPU, and which of them has most of it.

    Phases that are a loop over pieces of tensors, or an optimizer's over tensors, are left to the
    rules about those.
    """
    found, judged = cpu_operators(facts)
    looped = _looped(found, loops(facts))
    python = [
        part
        for part in judged.parts
        if part.name.startswith(PYTHON_IN) and part.name.removeprefix(PYTHON_IN) not in looped
    ]
    if not python:
        return None
    most = max(python, key=lambda part: part.ns)
    phase = most.name.removeprefix(PYTHON_IN)
    cost = sum(part.ns for part in python)
    line = line_of(facts, phase)
    calls = len(found.rows) // max(found.steps.steps, 1)
    mean = judged.of.mean
    return Lost(
        cost,
        judged.of,
        f"Python within forward, backward and optimizer takes {fmt.part_of_step(cost, mean)} "
        f"beside {calls} operators, most of it in {phase}{at(line)}.",
        (
            Figure.share("Python beside operators", cost / mean, PYTHON_IN_MODEL.limits.warning),
            *(Figure(part.name, part.ns, "ns") for part in python),
            Figure("operators of a step", calls, "count"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line),
        parts=tuple(part.name for part in python),
    )


def _looped(found: Operators, known: Sequence[Loop]) -> frozenset[str]:
    """Phases of whose outermost operators most are in such loops."""
    top = found.caller == NONE
    calls = {
        name: int(np.count_nonzero(top & (found.phase == number)))
        for number, name in enumerate(PHASES)
    }
    over = Counter[str]()
    for loop in (*loops_over_rows(known), *(one for one in known if one.phase == OPTIMIZER)):
        over[loop.phase] += len(loop.positions)
    return frozenset(name for name in PHASES if over[name] > calls[name] / 2)


PYTHON_IN_MODEL = Rule(
    id="python-bound",
    when="Python takes the time, between the operators of the model",
    explanation=(
        "No operator runs meanwhile: the time goes to Python code within the model, or to the "
        "calls of very many small operators. Do more in each call: larger tensors, operators on "
        "whole batches, foreach or fused optimizers, torch.compile; and take what needs no tensor "
        "out of the model."
    ),
    lost=python_in_model,
    limits=Limits(0.10, 0.20, "From 10 % on, as the TensorBoard plugin speaks of parts of a step."),
    answer="fewer and larger operators, torch.compile, less Python in the model",
)
