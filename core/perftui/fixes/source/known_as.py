"""By which name a function knows what another scope of the file has made."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Function, PatchRefusedError, Program


def known_as(program: Program, made: ast.Name, scope: ast.AST) -> str:
    """The name in ``scope`` of the object that ``made`` is given: its own, or a parameter for
    which every call gives it.

    Raises:
        PatchRefusedError: it is not certain, or the name is given another value later.
    """
    home = program.scope(made)
    for other in program.bindings(made.id):
        if program.scope(other) is home and _line(other) > made.lineno:
            raise PatchRefusedError(f"line {_line(other)} gives {made.id} another value")
    bound = [one for one in program.bindings(made.id) if scope in program.ancestors(one)]
    if home is scope or (isinstance(home, ast.Module) and not bound):
        return made.id
    if not isinstance(scope, Function):
        raise PatchRefusedError(f"what line {made.lineno} makes has no certain name there")
    return _given(program, scope, made)


def _given(program: Program, function: Function, made: ast.Name) -> str:
    uses, calls = program.loads(function.name), program.calls(function.name)
    if not calls or len(uses) != len(calls) or len(program.functions[function.name]) > 1:
        raise PatchRefusedError(f"it is not certain what {function.name}() is given")
    given = {_parameter(program, function, call, made) for call in calls}
    name = given.pop() if len(given) == 1 else None
    if name is None:
        raise PatchRefusedError(f"{function.name}() may not be given {made.id}")
    within = [one for one in program.bindings(name) if function in program.ancestors(one)]
    if len(within) > 1:
        raise PatchRefusedError(f"line {_line(within[-1])} gives {name} another value")
    return name


def _parameter(program: Program, function: Function, call: ast.Call, made: ast.Name) -> str | None:
    """The parameter for which ``call`` gives the name ``made``; None where it is not certain."""
    if program.scope(call) is not program.scope(made) or call.lineno < made.lineno:
        return None
    for parameter, value in zip(function.args.args, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return None
        if isinstance(value, ast.Name) and value.id == made.id:
            return parameter.arg
    named = (one for one in call.keywords if isinstance(one.value, ast.Name))
    return next((one.arg for one in named if ast.unparse(one.value) == made.id), None)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
