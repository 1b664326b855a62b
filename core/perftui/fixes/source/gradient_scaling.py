"""Reads a loop that scales gradients down to a limit of their norm."""

from __future__ import annotations

import ast

from perftui.fixes.source.parameter_loop import taken_apart
from perftui.fixes.source.program import PatchRefusedError, Program, called_name
from perftui.fixes.source.read_twice import refuse_one_pass

_EPSILON = "1e-06"
"""What ``clip_grad_norm_`` adds to the norm."""


def factor_name(statement: ast.stmt) -> str | None:
    """The name of ``factor = limit / (norm + 1e-6)``; None where the statement is another."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def limit_of(
    program: Program, loop: ast.For, scaling: ast.stmt | None, norm: str, given: ast.stmt | None
) -> str | None:
    """What the norm is limited to by ``scaling``, a loop or one under a condition.

    Raises:
        PatchRefusedError: it scales, but not certainly as ``clip_grad_norm_`` does.
    """
    test = scaling.test if isinstance(scaling, ast.If) and not scaling.orelse else None
    body = scaling.body if isinstance(scaling, ast.If) else [scaling]
    if len(body) == 2 and given is None:
        given, body = body[0], body[1:]
    scale = body[0] if len(body) == 1 else None
    if not isinstance(scale, ast.For) or ast.unparse(scale.iter) != ast.unparse(loop.iter):
        return None
    factor = _scaled_by(program, scale)
    if factor is None:
        return None
    value: ast.expr | None = factor
    if isinstance(factor, ast.Name):
        value = given.value if isinstance(given, ast.Assign) else None
        if given is None or factor_name(given) != factor.id:
            return None
    bounded = value
    if isinstance(value, ast.Call) and called_name(value) == "min" and len(value.args) == 2:
        ones = [one for one in value.args if ast.unparse(one) in ("1", "1.0")]
        bounded = next((one for one in value.args if one not in ones), None) if ones else None
    if not isinstance(bounded, ast.BinOp) or not isinstance(bounded.op, ast.Div):
        return None
    limit = ast.unparse(bounded.left)
    asked = [f"{norm} > {limit}", f"{ast.unparse(factor)} < 1", f"{ast.unparse(factor)} < 1.0"]
    is_asked = test is not None and ast.unparse(test) in asked
    if (bounded is value and not is_asked) or (test is not None and not is_asked):
        raise PatchRefusedError(f"line {scale.lineno} may scale gradients that are short already")
    if ast.unparse(bounded.right) != f"{norm} + {_EPSILON}":
        text = ast.unparse(bounded)
        raise PatchRefusedError(f"line {bounded.lineno}: {text} is not what clip_grad_norm_ does")
    refuse_one_pass(program, loop.iter)
    return limit


def _scaled_by(program: Program, loop: ast.For) -> ast.expr | None:
    """What ``loop`` multiplies each gradient by."""
    parts = taken_apart(program, loop)
    if parts is None or len(parts.statements) != 1 or not isinstance(loop.target, ast.Name):
        return None
    of, statement = loop.target.id, parts.statements[0]
    if not set(parts.conditions) <= {f"{of}.grad is not None", f"not {of}.grad is None"}:
        return None
    gradients = (f"{of}.grad", f"{of}.grad.data", f"{of}.grad.detach()")
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Mult):
        return statement.value if ast.unparse(statement.target) in gradients else None
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        is_it = called_name(value) == "mul_" and len(value.args) == 1 and owner is not None
        return (
            value.args[0]
            if owner is not None and is_it and ast.unparse(owner) in gradients
            else None
        )
    if isinstance(statement, ast.Assign) and isinstance(value, ast.BinOp):
        if ast.unparse(statement.targets[0]) not in gradients or not isinstance(value.op, ast.Mult):
            return None
        sides = [one for one in (value.left, value.right) if ast.unparse(one) not in gradients]
        return sides[0] if len(sides) == 1 else None
    return None
