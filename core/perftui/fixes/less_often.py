"""Fixes that do every few steps what a script does in every step beside training."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, is_certain, place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, PatchRefusedError, ReplaceExpression
from perftui.fixes.source.observers import refuse_unless_observer
from perftui.fixes.source.program import Program
from perftui.fixes.source.statements import wrap
from perftui.fixes.source.step_loop import step_counter, step_statement

SELDOM = 10
"""So many times as seldom: what took most of the step takes a tenth of that then."""


def seldom(program: Program, line: int, *, may_evaluate: bool = False) -> Sequence[Edit]:
    """What leads to ``line`` in the loop over steps, put under ``if step % 10 == 0``; where it
    stands under such a condition already, that becomes rarer."""
    found = step_statement(program, line)
    statement = found.statement
    condition = _every(statement)
    refuse_unless_observer(program, statement, may_evaluate=may_evaluate)
    if condition is not None:
        return (_rarer(program, condition),)
    counter = step_counter(found.loop)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    return (wrap(program, first, last, f"if {counter} % {SELDOM} == 0"),)


def evaluated_seldom(program: Program, line: int) -> Sequence[Edit]:
    """As ``seldom``, of what may switch a model to evaluation and back."""
    return seldom(program, line, may_evaluate=True)


def _every(statement: ast.stmt) -> ast.expr | None:
    """The ``20`` of ``if step % 20 == 0:`` or of ``if not step % 20:``; None of anything else."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return None
    test = statement.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        test = test.left
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    else:
        return None
    is_rest = isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)
    return test.right if isinstance(test, ast.BinOp) and is_rest else None


def _rarer(program: Program, every: ast.expr) -> Edit:
    if isinstance(every, ast.Constant) and type(every.value) is int:
        return ReplaceExpression(program.span(every), str(SELDOM * every.value))
    if isinstance(every, (ast.Name, ast.Attribute)):
        return ReplaceExpression(program.span(every), f"({SELDOM} * {ast.unparse(every)})")
    raise PatchRefusedError(f"line {every.lineno} is not certain to count steps")


def _change(facts: Facts, rules: Sequence[str], title: str, evaluates: bool) -> LineChange | None:
    place = place_of(facts, *rules)
    if place is None or place.file is None or place.line is None:
        return None
    return LineChange(
        title,
        place.file,
        place.line,
        evaluated_seldom if evaluates else seldom,
        f"{place.short}: only every {SELDOM} steps",
        (Risk.SELDOM,),
    )


def _observe(facts: Facts) -> LineChange | None:
    title = f"logging or saving every {SELDOM}th time"
    saved = _change(facts, ("checkpoint", "slow-steps"), title, evaluates=False)
    if saved is not None:
        return saved
    done = _change(facts, ("python-bound",), title, evaluates=False)
    # Most of a script's own Python is part of training: then the fix is nothing to speak of.
    return done if done and is_certain(done) else None


def _evaluate(facts: Facts) -> LineChange | None:
    return _change(facts, ("evaluation",), f"evaluation every {SELDOM}th time", evaluates=True)


LESS_OFTEN = Fix(
    id="less-often",
    what="log, print or save every tenth time only",
    explanation=(
        "What the script does beside training, and what no step needs, is done every tenth time. "
        "Logs have a tenth of the entries, and a crash loses up to ten times as many steps."
    ),
    change=_observe,
)

EVALUATE_LESS = Fix(
    id="evaluate-less-often",
    what="evaluate every tenth time only",
    explanation=(
        "The model is evaluated a tenth as often. Curves have fewer points, and the best weights "
        "are found less exactly."
    ),
    change=_evaluate,
)
