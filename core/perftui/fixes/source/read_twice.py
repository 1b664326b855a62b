"""Whether what a loop goes over can be gone over again."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import (
    Function,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
)
from perftui.fixes.source.scopes import bindings_of

_DEEPEST = 3


def refuse_one_pass(program: Program, over: ast.expr, depth: int = _DEEPEST) -> None:
    """Nothing where what is gone over can be gone over twice, as a list can and a generator not.

    Raises:
        PatchRefusedError: it is not certain: the loop that scales may have found nothing.
    """
    if isinstance(over, (ast.List, ast.Tuple, ast.ListComp, ast.Subscript)):
        return
    if isinstance(over, ast.Call) and (depth == _DEEPEST or called_name(over) in ("list", "tuple")):
        return
    values: list[ast.expr | None] = [None]
    if isinstance(over, ast.Name) and depth:
        values = []
        for binding in bindings_of(program, over):
            given = _given(program, binding) if isinstance(binding, ast.arg) else []
            values += given or [assigned_value(program, binding)]
    for value in values:
        if value is None:
            text = ast.unparse(over)
            raise PatchRefusedError(f"{text} may be a generator, which only one loop can consume")
        refuse_one_pass(program, value, depth - 1)


def _given(program: Program, parameter: ast.arg) -> list[ast.expr]:
    """What all calls of the file give for ``parameter`` by position."""
    function = program.parents[program.parents[parameter]]
    if not isinstance(function, Function) or parameter not in function.args.args:
        return []
    at = function.args.args.index(parameter)
    calls = [one for one in program.calls() if function in program.own_functions(one)]
    return [call.args[at] for call in calls] if all(len(one.args) > at for one in calls) else []
