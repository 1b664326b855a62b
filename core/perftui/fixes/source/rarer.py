"""A condition that counts steps, made to hold ten times as seldom."""

from __future__ import annotations

import ast
import re

from perftui.fixes.source.edits import Edit, ReplaceExpression
from perftui.fixes.source.program import PatchRefusedError, Program
from perftui.fixes.source.step_condition import Every


def rarer(program: Program, condition: Every, times: int) -> Edit:
    """The edit after which ``condition`` holds so many ``times`` as seldom.

    Raises:
        PatchRefusedError: a comment names the number, or what is done reckons with it.
    """
    around, right = condition.around, condition.rest.right
    text = ast.unparse(right)
    inside = [node for one in around.body for node in ast.walk(one)]
    if text != "1" and any(_is_alike(node, right) for node in inside):
        raise PatchRefusedError(f"line {around.lineno} does something with {text}, its number")
    beside = program.comments(around.lineno - 1, around.body[0].lineno)
    if isinstance(right, ast.Constant) and re.search(rf"\b{text}\b", beside):
        raise PatchRefusedError(f"a comment at line {around.lineno} says {text}: change both")
    return ReplaceExpression(program.span(right), _times(right, times))


def rarer_within(condition: Every, times: int) -> str:
    """The header under which what stands in ``condition``, which also trains, is done so many
    ``times`` as seldom."""
    right = ast.parse(_times(condition.rest.right, times), mode="eval").body
    rest = ast.BinOp(condition.rest.left, ast.Mod(), right)
    return f"if {ast.unparse(ast.Compare(rest, [ast.Eq()], [_remainder(condition)]))}"


def _remainder(condition: Every) -> ast.expr:
    for node in ast.walk(condition.around.test):
        if isinstance(node, ast.Compare) and node.left is condition.rest:
            return node.comparators[0]
    return ast.Constant(0)


def _times(right: ast.expr, times: int) -> str:
    if isinstance(right, ast.Constant) and type(right.value) is int:
        return str(times * right.value)
    if isinstance(right, (ast.Name, ast.Attribute)):
        return f"({times} * {ast.unparse(right)})"
    raise PatchRefusedError(f"line {right.lineno} may not count steps")


def _is_alike(node: ast.AST, other: ast.expr) -> bool:
    return isinstance(node, ast.expr) and ast.dump(node) == ast.dump(other)
