"""Fixes that do every few steps what a script does in every step beside training."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.fixes.fix import Fix, line_fix
from perftui.fixes.line_change import LineChange, is_certain, place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, rarer, rarer_within, wrap
from perftui.script.effects import observers, saves
from perftui.script.program import PatchRefusedError, Program
from perftui.script.steps import every, last_turn, refuse_own_count, step_counter
from perftui.script.training import StepStatement, step_statement, trains

SELDOM = 10
"""So many times as seldom: what took most of the step takes a tenth of that then."""


def seldom(program: Program, line: int, *, may_evaluate: bool = False) -> Sequence[Edit]:
    """What leads to ``line`` in the loop over steps, put under ``if step % 10 == 0``; where it
    stands under such a condition already, that becomes rarer. In a loop over epochs the last turn
    does it, too."""
    found = step_statement(program, line)
    condition = every(program, found)
    if condition is None:
        return (_now_and_then(program, found, may_evaluate),)
    if found.of_many:
        number = condition.around.lineno
        raise PatchRefusedError(
            f"line {number} counts iterations of many steps each: how much less often is for you "
            "to decide"
        )
    if trains(program, condition.around):
        inside = condition.inside
        if trains(program, inside):
            raise PatchRefusedError(f"line {line} is part of the training step")
        within = observers(program, inside, may_evaluate=may_evaluate)
        return (_under(within, rarer_within(condition, SELDOM), program),)
    around = observers(program, condition.around, may_evaluate=may_evaluate)
    if len(around) > 1:
        line = around[-1].lineno
        raise PatchRefusedError(f"line {line} reads what line {around[0].lineno} sets")
    return (rarer(program, condition, SELDOM),)


def _now_and_then(program: Program, found: StepStatement, may_evaluate: bool) -> Edit:
    """What is done in every turn of the loop."""
    statement = found.statement
    if trains(program, statement):
        raise PatchRefusedError(f"line {statement.lineno} is part of the training step")
    together = observers(program, statement, may_evaluate=may_evaluate)
    for one in together:
        refuse_own_count(program, one)
    counter = step_counter(program, found)
    header = f"if {counter} % {SELDOM} == 0"
    # The last of few turns, as of epochs, is the one whose results are kept; so it is of what saves
    # and evaluates, where the loop says which turn that is.
    with contextlib.suppress(*(() if found.of_many else (PatchRefusedError,))):
        if found.of_many or may_evaluate or any(map(saves, together)):
            header += f" or {counter} == {last_turn(found, counter)}"
    return _under(together, header, program)


def _under(statements: Sequence[ast.stmt], header: str, program: Program) -> Edit:
    first, last = statements[0], statements[-1]
    return wrap(program, first.lineno, last.end_lineno or last.lineno, header)


def evaluated_seldom(program: Program, line: int) -> Sequence[Edit]:
    """As ``seldom``, of what may switch a model to evaluation and back."""
    return seldom(program, line, may_evaluate=True)


def _observe(facts: Facts) -> LineChange | None:
    saved = place_of(facts, "checkpoint", "slow-steps")
    place = saved or place_of(facts, "python-bound")
    if place is None:
        return None
    change = LineChange(
        f"logging or saving every {SELDOM}th time",
        place.file,
        place.line,
        seldom,
        f"{place.short}: only every {SELDOM}th time",
        (Risk.SELDOM,),
    )
    # Most of a script's own Python is part of training: then the fix is nothing to speak of.
    return change if saved or is_certain(change) else None


LESS_OFTEN = Fix(
    id="less-often",
    what="log, print or save only every tenth time",
    explanation=(
        "Work besides training that no step needs is done every tenth time. Logs have a tenth of "
        "the entries, a crash loses up to ten times as many steps, and the output of the last "
        "steps may be missing."
    ),
    change=_observe,
    risks=(Risk.SELDOM,),
)

EVALUATE_LESS = line_fix(
    id="evaluate-less-often",
    what="evaluate only every tenth time",
    explanation=(
        "The model is evaluated a tenth as often. Curves have fewer points, and the best weights "
        "are found less precisely."
    ),
    at=place_of,
    rules=("evaluation",),
    title=f"evaluation every {SELDOM}th time",
    plan=evaluated_seldom,
    advice=f"only every {SELDOM}th time",
    # A data loader that is gone through draws a random number, also in its order.
    risks=(Risk.SELDOM, Risk.ORDER),
)
