"""``no-grad``: evaluation that records nothing for a backward pass."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.script.evaluation import evaluation
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, place_of
from perftui.fixes.source.edits import Edit, PatchRefusedError
from perftui.fixes.source.names import module_name
from perftui.fixes.source.program import Program
from perftui.fixes.source.statements import wrap
from perftui.fixes.source.step_loop import statement_at, trains

_LOOPS = (ast.For, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def without_gradients(program: Program, line: int) -> Sequence[Edit]:
    """The outermost loop around ``line`` that does not train, under ``torch.no_grad()``."""
    node: ast.AST = statement_at(program, line)
    loops = [node] if isinstance(node, _LOOPS) else []
    for above in program.ancestors(node):
        if isinstance(above, _FUNCTIONS) or trains(above):
            break
        if isinstance(above, _LOOPS):
            loops.append(above)
    if not loops or trains(loops[-1]):
        raise PatchRefusedError(f"line {line} is in no loop that only evaluates")
    _refuse_kept(program, loops[-1])
    first, last = loops[-1].lineno, loops[-1].end_lineno or loops[-1].lineno
    return (wrap(program, first, last, f"with {module_name(program, 'torch')}.no_grad()"),)


def _refuse_kept(program: Program, loop: ast.For | ast.While) -> None:
    """Nothing where no backward pass follows in the function, which may need what is recorded."""
    around = next((one for one in program.ancestors(loop) if isinstance(one, _FUNCTIONS)), None)
    if around is not None and trains(around):
        raise PatchRefusedError(f"{around.name}() goes backward, too")


def _change(facts: Facts) -> LineChange | None:
    found, place = evaluation(facts), place_of(facts, "evaluation", "slow-steps")
    if found is None or not found.lacks_no_grad or place is None:
        return None
    if place.file is None or place.line is None:
        return None
    advice = f"{place.short}: evaluate under torch.no_grad()"
    return LineChange(
        "evaluation without gradients", place.file, place.line, without_gradients, advice
    )


NO_GRAD = Fix(
    id="no-grad",
    what="evaluate without recording gradients",
    explanation=(
        "Nothing is kept for a backward pass that never comes: results are the same, with less "
        "memory. A backward pass through what is computed there would raise."
    ),
    change=_change,
)
