"""Statements that only look at a training: leaving one out now and then changes no weight."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perftui.fixes.source.edits import PatchRefusedError
from perftui.fixes.source.program import Program, called_name
from perftui.fixes.source.step_loop import TRAINS

_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
_CHANGES = TRAINS | {
    *("requires_grad_", "load_state_dict", "register_buffer", "register_hook", "backward"),
    *(
        "update",
        "set_epoch",
        "seed",
        "manual_seed",
        "set_rng_state",
        "shuffle",
        "choice",
        "choices",
    ),
    *("add", "append", "appendleft", "extend", "insert", "pop", "popleft", "remove", "clear"),
    *("setdefault", "put", "put_nowait", "send"),
    *("sample", "randint", "random", "normal", "uniform", "multinomial", "bernoulli", "dropout"),
}
"""Methods and functions after which a training goes on otherwise."""
_MODES = frozenset({"train", "eval"})
_RANDOM = re.compile(r"rand(n|int|perm)?(_like)?$|.*_$")
"""Draws of random numbers, and methods of tensors that work in place."""
_DEEPEST = 4


def refuse_unless_observer(
    program: Program, statement: ast.stmt, *, may_evaluate: bool = False
) -> None:
    """Nothing where ``statement`` changes nothing that a training step reads.

    ``may_evaluate``: it may switch a model to evaluation and back.

    Raises:
        PatchRefusedError: it may change something; the message says what.
    """
    _refuse_names_used_elsewhere(program, statement)
    allowed = _MODES if may_evaluate else frozenset()
    for node in _reached(program, statement, _DEEPEST):
        why = _change(program, statement, node, allowed)
        if why:
            line = getattr(node, "lineno", statement.lineno)
            raise PatchRefusedError(f"line {line} may be needed in every step: it {why}")


def _reached(program: Program, node: ast.AST, depth: int) -> Iterator[ast.AST]:
    """``node`` and what is below it, and in the file's own functions that it calls."""
    for below in ast.walk(node):
        yield below
        if isinstance(below, ast.Call) and depth:
            for function in _functions(program, called_name(below)):
                yield from _reached(program, function, depth - 1)


def _functions(program: Program, name: str) -> list[ast.stmt]:
    return [
        one
        for one in program.statements()
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name == name
    ]


def _change(program: Program, statement: ast.stmt, node: ast.AST, allowed: frozenset[str]) -> str:
    """What ``node`` may change for the training; empty where nothing."""
    own = program.scope(node) is program.scope(statement) if node in program.parents else True
    if isinstance(node, _LEAVES) and own:
        return "leaves the loop"
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return f"sets {', '.join(node.names)}"
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return "" if _is_local(program, node) else f"sets {ast.unparse(node)}"
    if isinstance(node, ast.Call):
        name = called_name(node)
        changes = name in _CHANGES or (name in _MODES and name not in allowed)
        changes = changes or _RANDOM.match(name) is not None
        if changes and not _is_local(program, node.func):
            return f"calls {name}()"
    return ""


def _is_local(program: Program, node: ast.expr) -> bool:
    """Whether what is changed was made in the same function, other than the module."""
    inner = node
    if isinstance(inner, ast.Name):
        return False
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    scope = program.scope(node)
    if not isinstance(inner, ast.Name) or isinstance(scope, ast.Module):
        return False
    made = [one for one in program.bindings(inner.id) if program.scope(one) is scope]
    return bool(made) and not any(isinstance(one, ast.arg) for one in made)


def _refuse_names_used_elsewhere(program: Program, statement: ast.stmt) -> None:
    inside = set(ast.walk(statement))
    bound = {
        node.id
        for node in inside
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    scope = program.scope(statement)
    for name in sorted(bound):
        for use in program.loads(name):
            if use not in inside and program.scope(use) is scope:
                raise PatchRefusedError(f"line {use.lineno} reads {name}, which it sets")
