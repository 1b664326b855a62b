"""Reads gradients that are clipped by hand: their norm summed up in one loop, scaled in another."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from perftui.script.local_values import assigned_name
from perftui.script.names import bindings_of
from perftui.script.parameter_loop import ParameterLoop, refuse_read_later, taken_apart
from perftui.script.program import PatchRefusedError, Program, assigned_value, called_name
from perftui.script.templates import Templates
from perftui.script.uses import values_given

_SQUARES = frozenset(
    {
        *("(g ** 2).sum()", "(g * g).sum()", "g.pow(2).sum()", "g.square().sum()"),
        *("g.norm() ** 2", "g.norm(2) ** 2", "g.norm(2.0) ** 2", "g.norm(p=2) ** 2"),
        *("g.norm().pow(2)", "g.norm(2).pow(2)", "g.norm().square()"),
        *("torch.norm(g) ** 2", "torch.sum(g ** 2)"),
    }
)
"""The squared norm of a gradient ``g``, ``item()`` left out."""
_ROOTS = (
    *("{0} ** 0.5", "{0} ** (1 / 2)", "{0} ** (1.0 / 2)", "{0} ** (1.0 / 2.0)"),
    *("math.sqrt({0})", "sqrt({0})", "{0}.sqrt()", "torch.sqrt({0})"),
)
_SCALED = ("$gradient *= $factor", "$gradient.mul_($factor)", "$gradient = $own * $factor")
_BOUNDED = ("min(1, $limit / $rest)", "min($limit / $rest, 1)")
_EPSILON = "1e-06"
"""What ``clip_grad_norm_`` adds to the norm."""
_DEEPEST = 3


@dataclass(frozen=True)
class Clipped:
    """Statements that follow one another, and what they come to."""

    norm: ast.Assign
    gone: tuple[ast.stmt, ...]
    """All that is not needed beside ``clip_grad_norm_``: what adds up the squares, which is a loop
    or a statement of one that does more, the factor, and the loop that scales."""
    parameters: str
    limit: str
    is_float: bool
    """The norm is a number of Python, as by ``item()``."""


def clipped_by_hand(program: Program, loop: ast.For) -> Clipped | None:
    """The clipping that ``loop`` begins; None where it does anything else.

    Raises:
        PatchRefusedError: it clips, but not certainly as torch does.
    """
    found = _squares(program, loop)
    if found is None:
        return None
    summed, total, is_float = found
    block = program.block(loop)
    following = block[block.index(loop) + 1 :]
    norm = following[0] if following else None
    if not isinstance(norm, ast.Assign) or not isinstance(norm.targets[0], ast.Name):
        return None
    if ast.unparse(norm.value) not in [root.format(total) for root in _ROOTS]:
        return None
    name, rest = norm.targets[0].id, following[1:3]
    factor = assigned_name(rest[0]) if rest else None
    scaling = rest[1] if factor is not None and len(rest) > 1 else rest[0] if rest else None
    given = rest[0] if factor is not None else None
    limit = _limit(program, loop, scaling, name, given)
    if scaling is None or limit is None:
        return None
    gone = [*([given] if given is not None else []), scaling]
    taken = [summed, *gone]
    _refuse_others(program, [loop, norm, *gone], taken, total, name, factor)
    gone = [*_zero(program, loop, total), *taken]
    return Clipped(norm, tuple(gone), ast.unparse(loop.iter), limit, is_float)


def _of_gradients(program: Program, loop: ast.For) -> ParameterLoop | None:
    """``loop`` taken apart, where it goes over parameters that have gradients or over all."""
    parts = taken_apart(program, loop)
    of = loop.target.id if isinstance(loop.target, ast.Name) else ""
    has_one = {f"{of}.grad is not None", f"not {of}.grad is None"}
    return parts if parts is not None and of and has_one.issuperset(parts.conditions) else None


def _squares(program: Program, loop: ast.For) -> tuple[ast.stmt, str, bool] | None:
    """The statement that sums up squares, the name of the sum, and whether it is a float."""
    parts = _of_gradients(program, loop)
    if parts is None:
        return None
    adding = [one for one in parts.statements if _is_square(one, ast.unparse(loop.target))]
    if len(adding) != 1:
        return None
    added = adding[0]
    total = ast.unparse(added.target)  # type: ignore[attr-defined] # an AugAssign
    is_float = ".item()" in ast.unparse(added)
    if len(parts.statements) == 1:
        return loop, total, is_float
    own = [one for one in loop.body if ast.dump(one) == ast.dump(added)]
    return (own[0], total, is_float) if own else None


def _is_square(statement: ast.stmt, of: str) -> bool:
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return False
    return isinstance(statement.target, ast.Name) and _of_gradient(statement.value, of) in _SQUARES


def _of_gradient(node: ast.expr, of: str) -> str:
    text = ast.unparse(node).replace(".item()", "")
    for gradient in (f"{of}.grad.data", f"{of}.grad.detach()", f"{of}.grad"):
        text = text.replace(gradient, "g")
    return text


def _refuse_others(
    program: Program,
    own: list[ast.stmt],
    gone: list[ast.stmt],
    total: str,
    norm: str,
    factor: str | None,
) -> None:
    """Nothing where nobody else needs what is no longer worked out, or holds a gradient.

    Raises:
        PatchRefusedError: somebody does.
    """
    within = {node for one in own for node in ast.walk(one)}
    scope = program.scope(own[0])
    for name in (total, factor):
        for use in program.loads(name or ""):
            is_norm = name == norm and use.lineno > own[0].lineno
            if use not in within and program.scope(use) is scope and not is_norm:
                raise PatchRefusedError(f"line {use.lineno} reads {name}, too")
    for loop in (node for one in gone for node in ast.walk(one) if isinstance(node, ast.For)):
        parts = taken_apart(program, loop)
        if parts is not None:
            refuse_read_later(parts)
    for node in program.nodes:
        held = node.value if isinstance(node, ast.Assign) else None
        # A local name of a loop over parameters is gone with its turn.
        in_loop = any(isinstance(above, ast.For) for above in program.ancestors(node))
        if isinstance(held, ast.Attribute) and held.attr == "grad" and not in_loop:
            raise PatchRefusedError(f"line {held.lineno} keeps a gradient as it was")


def _zero(program: Program, loop: ast.For, total: str) -> list[ast.stmt]:
    """``total = 0.0`` before ``loop``, where it sets nothing else."""
    block = program.block(loop)
    for one in block[: block.index(loop)]:
        value = one.value if isinstance(one, ast.Assign) else None
        is_it = isinstance(one, ast.Assign) and [ast.unparse(t) for t in one.targets] == [total]
        if is_it and isinstance(value, ast.Constant) and not value.value:
            return [one]
    return []


def _limit(
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
    factor = value = _scaled_by(program, scale)
    if isinstance(factor, ast.Name):
        is_given = given is not None and assigned_name(given) == factor.id
        value = given.value if is_given and isinstance(given, ast.Assign) else None
    if factor is None or value is None:
        return None
    templates = Templates(program)
    bounded = templates.match(value, *_BOUNDED)
    found = bounded or templates.match(value, "$limit / $rest")
    if found is None:
        return None
    limit, rest = ast.unparse(found["limit"]), ast.unparse(found["rest"])
    asked = [f"{norm} > {limit}", f"{ast.unparse(factor)} < 1", f"{ast.unparse(factor)} < 1.0"]
    is_asked = test is not None and ast.unparse(test) in asked
    if not is_asked and (bounded is None or test is not None):
        raise PatchRefusedError(f"line {scale.lineno} may scale gradients that are short already")
    if rest != f"{norm} + {_EPSILON}":
        text = ast.unparse(ast.BinOp(found["limit"], ast.Div(), found["rest"]))
        line = found["limit"].lineno
        raise PatchRefusedError(f"line {line}: {text} is not what clip_grad_norm_ does")
    refuse_one_pass(program, loop.iter)
    return limit


def _scaled_by(program: Program, loop: ast.For) -> ast.expr | None:
    """What ``loop`` multiplies each gradient by."""
    parts = _of_gradients(program, loop)
    if parts is None:
        return None
    of = ast.unparse(loop.target)
    gradients = (f"{of}.grad", f"{of}.grad.data", f"{of}.grad.detach()")
    where = {
        **dict.fromkeys(("gradient", "own"), lambda one: ast.unparse(one) in gradients),
        "factor": lambda one: ast.unparse(one) not in gradients,
    }
    found = [Templates(program, where=where).match(parts.statements, one) for one in _SCALED]
    return next((one["factor"] for one in found if one), None)


def refuse_one_pass(program: Program, over: ast.expr, depth: int = _DEEPEST) -> None:
    """Nothing where what is gone over can be gone over twice, as a list can and a generator not.

    Raises:
        PatchRefusedError: it is not certain: the loop that scales may have found nothing.
    """
    if isinstance(over, (ast.List, ast.Tuple, ast.ListComp, ast.Subscript)):
        return
    if isinstance(over, ast.Call) and (depth == _DEEPEST or called_name(over) in ("list", "tuple")):
        return
    values: list[ast.expr | None] = []
    for binding in bindings_of(program, over) if isinstance(over, ast.Name) and depth else ():
        given = values_given(program, binding) if isinstance(binding, ast.arg) else []
        values += given or [assigned_value(program, binding)]
    for value in values or [None]:
        if value is None:
            text = ast.unparse(over)
            raise PatchRefusedError(f"{text} may be a generator, which only one loop can consume")
        refuse_one_pass(program, value, depth - 1)
