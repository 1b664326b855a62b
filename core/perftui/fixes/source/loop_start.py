"""Where all training of a file begins: the outermost loop that leads to its training steps."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Function, Loop, PatchRefusedError, Program, called_name

_DEEPEST = 5
"""Functions between the loop and the backward pass."""


def training_loop(program: Program) -> Loop:
    """The outermost loop that every backward pass of the file is in, through calls of its own
    functions; not beyond a function that makes an optimizer, where all is still to be set up.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    passes = program.calls("backward")
    if not passes:
        raise PatchRefusedError("no line of the file runs backward")
    loops = {_outermost(program, call) for call in passes}
    if len(loops) > 1:
        raise PatchRefusedError(f"{len(loops)} loops of the file train")
    return loops.pop()


def _outermost(program: Program, call: ast.Call) -> Loop:
    found: Loop | None = None
    node: ast.AST | None = call
    for _ in range(_DEEPEST):
        function = None
        for above in program.ancestors(node) if node is not None else ():
            if isinstance(above, Loop):
                found = above
            elif isinstance(above, Function):
                function = above
                break
        if function is None or _sets_up(function):
            break
        node = _only_use(program, function)
    if found is None:
        raise PatchRefusedError(f"line {call.lineno} runs backward outside of the file's loops")
    return found


def _sets_up(function: ast.AST) -> bool:
    """Whether an optimizer is made in ``function``."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(
        isinstance(given, ast.Call) and called_name(given) == "parameters"
        for call in calls
        for given in call.args
    )


def _only_use(program: Program, function: Function) -> ast.AST | None:
    """The only place of the file that names ``function``; None where there are none or several."""
    named = [
        one
        for one in program.statements()
        if isinstance(one, Function) and one.name == function.name
    ]
    uses: list[ast.Name] | list[ast.Attribute] = program.loads(function.name)
    if isinstance(program.parents[function], ast.ClassDef):
        nodes = ast.walk(program.tree)
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        uses = [node for node in attributes if node.attr == function.name]
    return uses[0] if len(uses) == len(named) == 1 else None
