"""The name that counts the turns of a loop one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perftui.fixes.source.program import (
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
)
from perftui.fixes.source.readers import attributes
from perftui.fixes.source.step_loop import StepStatement

_BARS = ("tqdm", "track", "trange", "progress_bar", "prange")


def step_counter(program: Program, found: StepStatement) -> str:
    """The name that counts the steps of the loop: by ``range`` or ``enumerate``, or one that each
    turn adds 1 to.

    Raises:
        PatchRefusedError: there is none, something else sets it, or turns may end before the
            statement, so that it sees only some of the numbers.
    """
    loop = found.loop
    name = next(iter(counters(program, loop)), "")
    if not name:
        raise PatchRefusedError(f"nothing counts the steps of the loop at line {loop.lineno}")
    _refuse_set_again(program, loop, name)
    for before in loop.body[: loop.body.index(found.statement)]:
        if any(_continues(program, node, loop) for node in ast.walk(before)):
            raise PatchRefusedError(f"line {before.lineno} may end a step before it")
    return name


def last_turn(found: StepStatement, counter: str) -> str:
    """The value of ``counter`` in the last turn of the loop, as an expression.

    Raises:
        PatchRefusedError: the loop does not say it.
    """
    over = found.loop.iter if isinstance(found.loop, (ast.For, ast.AsyncFor)) else None
    while isinstance(over, ast.Call) and called_name(over) == "tqdm" and over.args:
        over = over.args[0]
    is_range = isinstance(over, ast.Call) and called_name(over) in ("range", "trange")
    counted = ast.unparse(found.loop.target) if isinstance(found.loop, ast.For) else ""
    if not isinstance(over, ast.Call) or not is_range or counted != counter or not over.args:
        raise PatchRefusedError(
            f"the loop at line {found.loop.lineno} does not show which iteration is its last"
        )
    end = over.args[:2][-1]
    if isinstance(end, ast.Constant) and type(end.value) is int:
        return str(end.value - 1)
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and _is_one(end.right):
        end, less = end.left, ""
    else:
        less = " - 1"
    parts = [node for node in ast.walk(end) if isinstance(node, ast.expr)]
    if not all(isinstance(node, (ast.Name, ast.Attribute, ast.BinOp)) for node in parts):
        raise PatchRefusedError(f"the end of the loop at line {found.loop.lineno} is computed")
    text = ast.unparse(end)
    return f"({text}){less}" if isinstance(end, ast.BinOp) and less else f"{text}{less}"


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def counters(program: Program, loop: Loop) -> Iterator[str]:
    """All names that go up by 1 in each turn of ``loop``."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        counted = _counted(program, loop.target, loop.iter)
        if counted.strip("_"):
            yield counted
    for node in loop.body:
        if _adds_one(node):
            yield ast.unparse(node.target)  # type: ignore[attr-defined]


def _adds_one(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, (ast.Name, ast.Attribute))
        and _is_one(node.value)
    )


def _counted(program: Program, target: ast.expr, over: ast.expr) -> str:
    """The name in ``target`` that counts what ``over`` gives, through ``tqdm(...)`` and a variable
    that is set once; else empty."""
    if isinstance(over, ast.Name):
        bindings = program.bindings(over.id)
        over = (_given(program, bindings[0]) if len(bindings) == 1 else None) or over
    while isinstance(over, ast.Call) and called_name(over) in _BARS and over.args:
        if called_name(over) == "trange":
            break
        over = over.args[0]
    called = called_name(over) if isinstance(over, ast.Call) else ""
    arguments = over.args if isinstance(over, ast.Call) else []
    # A third argument of range is another step than 1, as is a second one of count.
    most = {"range": 2, "trange": 2, "count": 1}.get(called, 0)
    if isinstance(target, ast.Name) and len(arguments) <= most and called:
        return target.id
    if called in ("enumerate", "zip") and isinstance(target, ast.Tuple) and target.elts:
        first = target.elts[0]
        if called == "zip":
            return _counted(program, first, arguments[0]) if arguments else ""
        return first.id if isinstance(first, ast.Name) else ""
    return ""


def _given(program: Program, binding: ast.AST) -> ast.expr | None:
    """What ``binding`` is set to, by an assignment or ``with ... as``."""
    above = program.parents[binding]
    return (
        above.context_expr if isinstance(above, ast.withitem) else assigned_value(program, binding)
    )


def _refuse_set_again(program: Program, loop: Loop, name: str) -> None:
    within = set(ast.walk(loop))
    own = set(ast.walk(loop.target)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
    adding = [node.target for node in loop.body if _adds_one(node)]  # type: ignore[attr-defined]
    stored = attributes(program, name.rpartition(".")[2], ast.Store) if "." in name else []
    for node in (*program.bindings(name), *stored):
        if node in within and node not in own and node not in adding:
            line = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {line} sets {name}, which counts the steps")


def _continues(program: Program, node: ast.AST, loop: Loop) -> bool:
    if not isinstance(node, ast.Continue):
        return False
    return next(one for one in program.ancestors(node) if isinstance(one, Loop)) is loop
