"""Reads an exponential average of one tensor: ``old = decay * old + weight * new``."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perftui.fixes.source.parameter_loop import SAME
from perftui.fixes.source.program import called_name


class Kept(enum.Enum):
    """Where the new average goes."""

    IN_PLACE = enum.auto()
    DATA = enum.auto()
    """``tensor.data = ...``: what the tensor had may be another's as well, and stays as it is."""
    ITEM = enum.auto()
    """``averages[name] = ...``, likewise."""


@dataclass(frozen=True)
class Average:
    """What one turn of a loop over parameters computes."""

    old: ast.expr
    new: ast.expr
    decay: ast.expr | None
    """None for ``lerp_``, where it is 1 less the weight."""
    weight: ast.expr
    kept: Kept = Kept.IN_PLACE
    numbers: tuple[ast.expr, ...] = ()
    """What must be numbers of Python so that operators on lists take them."""


Of = Callable[[ast.expr], bool]
"""Whether an expression depends on the turn of the loop."""


def average_of(statements: Sequence[ast.stmt], of_turn: Of) -> Average | None:
    """The average that ``statements`` compute; None where they do anything else."""
    if len(statements) == 2:
        return _in_two(statements[0], statements[1], of_turn)
    statement = statements[0] if len(statements) == 1 else None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _called(statement.value, of_turn)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "data":
            return _formula(statement.value, target, Kept.DATA, of_turn)
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Name):
            return _formula(statement.value, target, Kept.ITEM, of_turn)
    return None


def is_tensor(node: ast.expr, of_turn: Of) -> bool:
    """Whether ``node`` is a tensor of the turn as it is: a name, an item or an attribute, moved or
    detached at most."""
    if isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        return owner is not None and called_name(node) in SAME and is_tensor(owner, of_turn)
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Name):
        return False
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and of_turn(node)


def _called(call: ast.Call, of_turn: Of) -> Average | None:
    """``old.lerp_(new, weight)``, ``old.mul_(decay).add_(...)``, ``old.copy_(...)``."""
    if not isinstance(call.func, ast.Attribute):
        return None
    owner, name = call.func.value, call.func.attr
    if name == "lerp_" and len(call.args) == 2 and not call.keywords:
        new, weight = call.args
        if all(is_tensor(one, of_turn) for one in (owner, new)) and not of_turn(weight):
            return Average(owner, new, None, weight, numbers=(weight,))
    if name == "add_" and isinstance(owner, ast.Call):
        return _multiplied(owner, call, of_turn)
    if name == "copy_" and len(call.args) == 1 and not call.keywords:
        return _formula(call.args[0], owner, Kept.IN_PLACE, of_turn)
    return None


def _in_two(first: ast.stmt, second: ast.stmt, of_turn: Of) -> Average | None:
    """``old.mul_(decay)`` and ``old.add_(...)`` behind it."""
    calls = [one.value for one in (first, second) if isinstance(one, ast.Expr)]
    if len(calls) != 2 or not all(isinstance(one, ast.Call) for one in calls):
        return None
    mul, add = calls
    if not isinstance(mul, ast.Call) or not isinstance(add, ast.Call):
        return None
    if not isinstance(mul.func, ast.Attribute) or not isinstance(add.func, ast.Attribute):
        return None
    is_add = add.func.attr == "add_" and _text(mul.func.value) == _text(add.func.value)
    return _multiplied(mul, add, of_turn) if is_add else None


def _multiplied(mul: ast.Call, add: ast.Call, of_turn: Of) -> Average | None:
    if not isinstance(mul.func, ast.Attribute) or mul.func.attr != "mul_":
        return None
    if len(mul.args) != 1 or len(add.args) != 1 or mul.keywords:
        return None
    old, decay, new = mul.func.value, mul.args[0], add.args[0]
    if [one.arg for one in add.keywords] == ["alpha"]:
        found = Average(old, new, decay, add.keywords[0].value)
    else:
        product = _product(new, of_turn)
        if product is None or add.keywords:
            return None
        found = Average(old, product[0], decay, product[1], numbers=(product[1],))
    tensors = is_tensor(found.old, of_turn) and is_tensor(found.new, of_turn)
    factors = not of_turn(decay) and not of_turn(found.weight)
    return found if tensors and factors else None


def _formula(value: ast.expr, target: ast.expr, kept: Kept, of_turn: Of) -> Average | None:
    """``decay * target + weight * new``, in any order, or a clone of that."""
    if isinstance(value, ast.Call) and called_name(value) == "clone" and not value.args:
        value = value.func.value if isinstance(value.func, ast.Attribute) else value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    terms = [_product(side, of_turn) for side in (value.left, value.right)]
    if terms[0] is None or terms[1] is None:
        return None
    own = [at for at, term in enumerate(terms) if term and _text(term[0]) == _text(target)]
    if len(own) != 1 or not is_tensor(target, of_turn):
        return None
    (old, decay), (new, weight) = terms[own[0]], terms[1 - own[0]]  # type: ignore[misc] # neither is None
    return Average(old, new, decay, weight, kept, (decay, weight))


def _product(node: ast.expr, of_turn: Of) -> tuple[ast.expr, ast.expr] | None:
    """The tensor of the turn and the factor, which does not depend on it."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    for tensor, factor in ((node.left, node.right), (node.right, node.left)):
        if is_tensor(tensor, of_turn) and not of_turn(factor):
            return tensor, factor
    return None


def _text(node: ast.expr) -> str:
    """The tensor, however it is taken out of the graph."""
    text = ast.unparse(node)
    for end in (".data", ".detach()"):
        text = text.removesuffix(end)
    return text
