"""Masks of attention that leave out all later positions, and nothing else."""

from __future__ import annotations

import ast

from perftui.fixes.source.local_values import LocalValues
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Program, assigned_value, called_name

_SAME = frozenset({"bool", "to", "type", "view", "unsqueeze", "reshape", "cuda", "float"})
"""Methods after which the same places of a mask are true."""


def is_causal(program: Program, local: LocalValues, mask: ast.expr) -> bool:
    """Whether ``mask`` is certain to be true for later positions only, of as many as there are."""
    mask = local.peeked(mask)
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(mask.ops[0], ast.Eq):
        wanted = ast.unparse(mask.comparators[0])
        return (wanted, _triangle(program, local, mask.left)) in (("0", "lower"), ("1", "upper"))
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return _triangle(program, local, mask.operand) == "lower"
    if isinstance(mask, ast.Call) and called_name(mask) == "logical_not" and len(mask.args) == 1:
        return _triangle(program, local, mask.args[0]) == "lower"
    return _triangle(program, local, mask) == "upper"


def _triangle(program: Program, local: LocalValues, node: ast.expr) -> str:
    """``lower`` of ``tril(ones(n, n))``, ``upper`` of ``triu(ones(n, n), 1)``, also where a buffer
    keeps it and as many rows as columns are taken; else empty."""
    node = local.peeked(node)
    if isinstance(node, ast.Subscript) and _is_square(node.slice):
        kept = _buffer(program, node.value)
        return _made(program, kept) if kept is not None else ""
    return _made(program, node)


def _is_square(index: ast.expr) -> bool:
    """``[:, :, :n, :n]``, ``[:n, :n]`` or ``[None, None, :n, :n]``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    ends = [ast.unparse(part) for part in parts[-2:]]
    first = [ast.unparse(part) for part in parts[:-2]]
    is_begun = len(ends) == 2 and ends[0] == ends[1] and ends[0][:1] == ":" and len(ends[0]) > 1
    return is_begun and ":" not in ends[0][1:] and set(first) <= {":", "None", "..."}


def _buffer(program: Program, node: ast.expr) -> ast.expr | None:
    """What ``self.mask`` is registered as, where its class does that once."""
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
        return None
    owner = next((one for one in program.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    if owner is None:
        return None
    stores = [
        one
        for one in ast.walk(owner)
        if isinstance(one, ast.Attribute)
        and one.attr == node.attr
        and not isinstance(one.ctx, ast.Load)
    ]
    registered = [
        call
        for call in ast.walk(owner)
        if isinstance(call, ast.Call)
        and called_name(call) == "register_buffer"
        and len(call.args) >= 2
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == node.attr
    ]
    if len(registered) != 1 or stores:
        return None
    value = registered[0].args[1]
    if isinstance(value, ast.Name):
        scope = program.scope(value)
        bindings = [one for one in program.bindings(value.id) if program.scope(one) is scope]
        return assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value


def _made(program: Program, node: ast.expr) -> str:
    while True:
        if isinstance(node, ast.Subscript) and _only_adds(node.slice):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SAME:
                break
            node = node.func.value
        else:
            break
    if not isinstance(node, ast.Call):
        return ""
    function = called_name(node)
    named = qualified_name(program, node.func)
    others = [ast.unparse(one) for one in node.args]
    others += [ast.unparse(one.value) for one in node.keywords if one.arg == "diagonal"]
    if named in ("torch.tril", "torch.triu") and node.args:
        inner: ast.expr = node.args[0]
        others = others[1:]
    elif isinstance(node.func, ast.Attribute) and function in ("tril", "triu"):
        inner = node.func.value
    else:
        return ""
    if not _is_square_of_ones(program, inner):
        return ""
    if function == "tril":
        return "lower" if others in ([], ["0"]) else ""
    return "upper" if others == ["1"] else ""


def _only_adds(index: ast.expr) -> bool:
    """``[None, None]``, also with ``:`` or ``...``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return {ast.unparse(part) for part in parts} <= {"None", ":", "..."}


def _is_square_of_ones(program: Program, node: ast.expr) -> bool:
    """``torch.ones(n, n)``, whatever its device and type."""
    if not isinstance(node, ast.Call) or qualified_name(program, node.func) != "torch.ones":
        return False
    sizes = node.args
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    return len(sizes) == 2 and ast.unparse(sizes[0]) == ast.unparse(sizes[1])
