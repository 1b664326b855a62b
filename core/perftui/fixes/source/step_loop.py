"""The loop over training steps of a file, and what of it leads to a line."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from perftui.fixes.source.program import Function, Loop, PatchRefusedError, Program
from perftui.fixes.source.training_calls import trains, trains_each_turn, updates

_DEEPEST = 4
"""Functions between the loop and the line."""


@dataclass(frozen=True)
class StepStatement:
    """A statement of the loop over steps that leads to a line."""

    loop: Loop
    statement: ast.stmt
    """Stands in the body of ``loop``."""
    path: tuple[ast.stmt, ...]
    """Statements that hold the line, or a call that leads there, from the line outwards to
    ``statement``."""
    of_many: bool = False
    """Each turn of the loop holds many steps, as one over epochs does."""


def step_statement(program: Program, line: int) -> StepStatement:
    """The statement of the loop over steps that holds ``line``, or the call that leads there.

    Raises:
        PatchRefusedError: no such loop is in the file, or more than one call leads there.
    """
    node = statement_at(program, line)
    path: list[ast.stmt] = []
    for _ in range(_DEEPEST):
        found = _in_loop(program, node, path)
        if found is not None:
            return found
        node = _only_call(program, node)
    raise PatchRefusedError(f"line {line} is too far from the loop over steps")


def statement_at(program: Program, line: int) -> ast.stmt:
    """The innermost statement that holds ``line``.

    Raises:
        PatchRefusedError: there is none.
    """
    around = [n for n in program.statements() if n.lineno <= line <= (n.end_lineno or n.lineno)]
    if not around:
        raise PatchRefusedError(f"there is no statement at line {line}")
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset))


def _in_loop(program: Program, node: ast.stmt, path: list[ast.stmt]) -> StepStatement | None:
    """The statement around ``node`` in the innermost loop that trains, within its function; what
    stands around ``node`` up to there is added to ``path``."""
    child: ast.AST = node
    for above in program.ancestors(node):
        if isinstance(child, ast.stmt):
            path.append(child)
        if isinstance(above, Function):
            return None
        if isinstance(above, Loop) and child in above.body and trains(program, above):
            return _step_of(program, node, above, path)
        child = above
    return None


def _step_of(program: Program, node: ast.stmt, loop: Loop, path: list[ast.stmt]) -> StepStatement:
    if trains(program, path[0]):
        raise PatchRefusedError(f"line {node.lineno} is part of the training step")
    of_many = not trains_each_turn(program, loop)
    if not of_many and not updates(program, loop):
        raise PatchRefusedError(f"a step is several iterations of the loop at line {loop.lineno}")
    return StepStatement(loop, path[-1], tuple(path), of_many)


def _only_call(program: Program, node: ast.stmt) -> ast.stmt:
    """The statement with the only call of the function around ``node``."""
    around = [one for one in program.ancestors(node) if isinstance(one, Function)]
    if not around:
        raise PatchRefusedError(f"line {node.lineno} is not in a loop over training steps")
    name = around[0].name
    if trains(program, around[0]):
        raise PatchRefusedError(f"{name}() trains")
    kind = ast.Attribute if isinstance(program.parents[around[0]], ast.ClassDef) else ast.Name
    calls = [call for call in program.calls(name) if isinstance(call.func, kind)]
    if len(program.functions[name]) > 1 or len(calls) != 1:
        raise PatchRefusedError(f"{name}() is called at {len(calls)} places of the file")
    return next(one for one in program.ancestors(calls[0]) if isinstance(one, ast.stmt))
