"""The loop over training steps of a file, and what of it leads to a line."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from perftui.fixes.source.edits import PatchRefusedError
from perftui.fixes.source.program import Program, called_name

TRAINS = frozenset({"backward", "step", "zero_grad"})
"""Methods that a loop over training steps calls."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEEPEST = 4
"""Functions between the loop and the line."""


@dataclass(frozen=True)
class StepStatement:
    """A statement of the loop over steps that leads to a line."""

    loop: ast.For | ast.AsyncFor | ast.While
    statement: ast.stmt
    """Stands in the body of ``loop``."""


def step_statement(program: Program, line: int) -> StepStatement:
    """The statement of the loop over steps that holds ``line``, or the call that leads there.

    Raises:
        PatchRefusedError: no such loop is in the file, or more than one call leads there.
    """
    node = statement_at(program, line)
    for _ in range(_DEEPEST):
        found = _in_loop(program, node)
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
        raise PatchRefusedError(f"no statement stands at line {line}")
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset))


def trains(node: ast.AST) -> bool:
    """Whether a training step is in ``node``."""
    called = {called_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return "backward" in called or {"step", "zero_grad"} <= called


def step_counter(loop: ast.For | ast.AsyncFor | ast.While) -> str:
    """The name that counts the steps of ``loop``: by ``range`` or ``enumerate``, or one that each
    turn adds 1 to.

    Raises:
        PatchRefusedError: there is none.
    """
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        counted = _counted(loop.target, loop.iter)
        if counted.strip("_"):
            return counted
    for node in loop.body:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
        ):
            return node.target.id
    raise PatchRefusedError(f"nothing counts the steps of the loop at line {loop.lineno}")


def _counted(target: ast.expr, over: ast.expr) -> str:
    """The name in ``target`` that counts what ``over`` gives, through ``tqdm(...)``; else empty."""
    while isinstance(over, ast.Call) and called_name(over) in ("tqdm", "track") and over.args:
        over = over.args[0]
    called = called_name(over) if isinstance(over, ast.Call) else ""
    if called in ("range", "trange") and isinstance(target, ast.Name):
        return target.id
    if called == "enumerate" and isinstance(target, ast.Tuple):
        first = target.elts[0]
        return first.id if isinstance(first, ast.Name) else ""
    return ""


def _in_loop(program: Program, node: ast.stmt) -> StepStatement | None:
    """The statement around ``node`` in the innermost loop that trains, within its function."""
    child: ast.AST = node
    for above in program.ancestors(node):
        if isinstance(above, _FUNCTIONS):
            return None
        if isinstance(above, _LOOPS) and trains(above) and child in above.body:
            statement = next(one for one in above.body if one is child)
            if not trains(statement):
                return StepStatement(above, statement)
            raise PatchRefusedError(f"line {node.lineno} is part of the training step")
        child = above
    return None


def _only_call(program: Program, node: ast.stmt) -> ast.stmt:
    """The statement with the only call of the function around ``node``."""
    around = [one for one in program.ancestors(node) if isinstance(one, _FUNCTIONS)]
    if not around:
        raise PatchRefusedError(f"line {node.lineno} is in no loop over training steps")
    name = around[0].name
    if trains(around[0]):
        raise PatchRefusedError(f"{name}() trains")
    named = [
        one for one in program.statements() if isinstance(one, _FUNCTIONS) and one.name == name
    ]
    kind = ast.Attribute if isinstance(program.parents[around[0]], ast.ClassDef) else ast.Name
    calls = [call for call in program.calls(name) if isinstance(call.func, kind)]
    if len(named) > 1 or len(calls) != 1:
        raise PatchRefusedError(f"{name}() is called at {len(calls)} places of the file")
    return next(one for one in program.ancestors(calls[0]) if isinstance(one, ast.stmt))
