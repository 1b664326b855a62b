"""The condition under which a loop does something only at some of its steps."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from perftui.fixes.source.observers import reached
from perftui.fixes.source.program import Function, PatchRefusedError, Program
from perftui.fixes.source.readers import attributes
from perftui.fixes.source.step_counter import counters
from perftui.fixes.source.step_loop import StepStatement

_COUNTS = re.compile(r"(step|iter|batch|count|idx|index|update|episode)|^(i|j|n|it|k|t)$")
_RANK = re.compile(
    r"rank|main|master|primary|chief|leader|is_initialized|is_available|verbose|isinstance|len|hasattr"
)
"""Calls in conditions that hold for all steps or for none."""


@dataclass(frozen=True)
class Every:
    """A condition that holds every so many steps, on the way to a line."""

    around: ast.If
    rest: ast.BinOp
    """``step % 20``."""
    inside: ast.stmt
    """What stands in ``around`` on that way."""


def every(program: Program, found: StepStatement) -> Every | None:
    """``if step % 20 == 0:`` on the way to the line, from the line outwards; None where nothing on
    that way depends on the step.

    Raises:
        PatchRefusedError: something on it does, and not certainly by counting steps.
    """
    for node, inner in zip(found.path, (found.path[0], *found.path), strict=False):
        if not isinstance(node, ast.If):
            continue
        counted = _rests(node.test)
        if len(counted) == 1 and not node.orelse and (inner in node.body or inner is node):
            _refuse_other_count(program, found, counted[0])
            return Every(node, counted[0], inner)
        if counted or _varies(program, found, node) or _is_else(node, inner):
            raise PatchRefusedError(
                f"line {node.lineno} decides in which steps, and it is not certain how"
            )
    return None


def refuse_own_count(program: Program, statement: ast.stmt) -> None:
    """Nothing where neither ``statement`` nor what it calls does something at some steps only.

    Raises:
        PatchRefusedError: it does: a condition around it might never hold together with that.
    """
    for node, _ in reached(program, statement):
        if isinstance(node, (ast.If, ast.IfExp)) and any(
            isinstance(below, ast.BinOp) and isinstance(below.op, ast.Mod) and _is_number(below)
            for below in ast.walk(node.test)
        ):
            raise PatchRefusedError(f"line {node.lineno} counts steps by itself")


def _is_number(rest: ast.BinOp) -> bool:
    """``"%d" % x`` is no rest of a division."""
    return not (isinstance(rest.left, ast.Constant) and isinstance(rest.left.value, str))


def _rests(test: ast.expr) -> list[ast.BinOp]:
    """``step % 20`` of ``step % 20 == 0``, of ``not step % 20`` and of what stands beside ``and``
    or ``or``; of anything else that divides with a rest two, which is not one."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    found: list[ast.BinOp] = []
    for part in parts:
        rests = [
            node
            for node in ast.walk(part)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _counts(node)
        ]
        plain = part
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Eq):
            plain = part.left
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            plain = part.operand
        found += rests if rests in ([], [plain]) else [*rests, *rests]
    return found


def _counts(rest: ast.BinOp) -> bool:
    """Whether it is a rest of numbers, which ``"%d" % x`` is not, and not of a rank's."""
    return _is_number(rest) and "rank" not in ast.unparse(rest.left).lower()


def _refuse_other_count(program: Program, found: StepStatement, rest: ast.BinOp) -> None:
    """Nothing where the left of ``rest`` counts steps of the loop, not of one around it."""
    names = [node for node in ast.walk(rest.left) if isinstance(node, (ast.Name, ast.Attribute))]
    own = set(counters(program, found.loop))
    bound = {n.id for n in ast.walk(found.loop) if isinstance(n, ast.Name) and _is_set(n)}
    for node in names:
        name = node.id if isinstance(node, ast.Name) else node.attr
        around = next((one for one in program.ancestors(rest) if isinstance(one, Function)), None)
        is_here = around is None or found.loop in program.ancestors(rest)
        known = name in own or (name in bound if is_here else True)
        if known or (isinstance(node, ast.Attribute) and _COUNTS.search(name)):
            return
    raise PatchRefusedError(f"line {rest.lineno} may not count the steps of the loop")


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_else(node: ast.If, inner: ast.stmt) -> bool:
    return inner in node.orelse and isinstance(node.test, ast.Compare) and not _asks_none(node.test)


def _asks_none(node: ast.AST) -> bool:
    """``x is None`` or ``x is not None``: what is there or not is so for all steps, mostly."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        and isinstance(node.comparators[0], ast.Constant)
    )


def _varies(program: Program, found: StepStatement, node: ast.If) -> bool:
    """Whether the condition of ``node`` may hold in some steps only."""
    bound = {n.id for n in ast.walk(found.loop) if isinstance(n, ast.Name) and _is_set(n)}
    scope = program.scope(node)
    if scope is not program.scope(found.loop):
        bound = {n.arg for n in ast.walk(scope) if isinstance(n, ast.arg) and n.arg != "self"}
        bound |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and _is_set(n)}
    asked = [one for one in ast.walk(node.test) if _asks_none(one)]
    steady = {below for one in asked for below in ast.walk(one)}
    for below in ast.walk(node.test):
        if below in steady and not isinstance(below, ast.Call):
            continue
        if isinstance(below, ast.Name) and below.id in bound:
            return True
        if isinstance(below, ast.Call) and not _RANK.search(ast.unparse(below.func)):
            return True
        if isinstance(below, ast.Attribute) and _is_stored(program, found, below.attr):
            return True
    return False


def _is_stored(program: Program, found: StepStatement, attribute: str) -> bool:
    """Whether the loop sets an attribute of that name, itself or by what it calls."""
    stores = set(attributes(program, attribute, ast.Store))
    return bool(stores) and any(node in stores for node, _ in reached(program, found.loop))
