"""Expressions that are certain to be plain numbers, such as the scale of attention."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.source.local_values import LocalValues, own_attribute
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Program, assigned_value, called_name

_ROOTS = frozenset({"math.sqrt", "numpy.sqrt"})
_NUMERIC = frozenset({"int", "float"})
_DEEPEST = 6


def is_number(program: Program, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """Whether ``node`` is certain to be an ``int`` or ``float``, not a tensor."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(program, node.operand, depth)
    if isinstance(node, ast.BinOp):
        # Of sizes only: nobody divides a tensor so and then takes a root of it.
        is_whole = isinstance(node.op, ast.FloorDiv)
        both = (node.left, node.right)
        return is_whole or all(is_number(program, one, depth) for one in both)
    if isinstance(node, ast.Call):
        named = qualified_name(program, node.func)
        if named in _ROOTS or called_name(node) in ("len", "int", "float"):
            return True
        return called_name(node) == "size" and len(node.args) == 1
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return depth > 0 and _is_named_number(program, node, depth - 1)


def _is_named_number(program: Program, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Attribute):
        value = own_attribute(program, node)
        return value is not None and is_number(program, value, depth)
    if not isinstance(node, ast.Name):
        return False
    scope = program.scope(node)
    bindings = [one for one in program.bindings(node.id) if program.scope(one) is scope]
    if not bindings:
        bindings = [
            one for one in program.bindings(node.id) if isinstance(program.scope(one), ast.Module)
        ]
    if len(bindings) != 1:
        return False
    (binding,) = bindings
    if isinstance(binding, ast.arg):
        return _is_numeric_argument(program, binding)
    above = program.parents[binding]
    if isinstance(above, ast.Tuple):
        value = assigned_value(program, above)
        return value is not None and ast.unparse(value).endswith((".shape", ".size()"))
    value = assigned_value(program, binding)
    return value is not None and is_number(program, value, depth)


def _is_numeric_argument(program: Program, argument: ast.arg) -> bool:
    """By its annotation or default, or because a layer of torch gets it as a size."""
    if argument.annotation is not None:
        return ast.unparse(argument.annotation) in _NUMERIC
    if type(_default(program, argument)) in (int, float):
        return True
    function = program.scope(argument)
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(
        (qualified_name(program, call.func) or "").startswith("torch.nn.")
        and any(isinstance(given, ast.Name) and given.id == argument.arg for given in call.args)
        for call in calls
        if called_name(call)[:1].isupper()
    )


def _default(program: Program, argument: ast.arg) -> object:
    """What ``argument`` is by default, where that is a literal."""
    given = program.parents[argument]
    if not isinstance(given, ast.arguments):
        return None
    positional = [*given.posonlyargs, *given.args]
    first = len(positional) - len(given.defaults)
    pairs = [*zip(positional[first:], given.defaults, strict=True)]
    pairs += [
        (one, default)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=False)
        if default
    ]
    found = next((default for one, default in pairs if one is argument), None)
    return found.value if isinstance(found, ast.Constant) else None


def is_root_of_width(
    program: Program,
    local: LocalValues,
    node: ast.expr,
    tensors: Sequence[ast.expr],
    *,
    inverse: bool,
) -> bool:
    """Whether ``node`` is the root of the last size of one of ``tensors``, or one over it."""
    if inverse:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            is_one = isinstance(node.left, ast.Constant) and node.left.value == 1
            return is_one and is_root_of_width(program, local, node.right, tensors, inverse=False)
        power = "-0.5"
    else:
        power = "0.5"
        if isinstance(node, ast.Call) and qualified_name(program, node.func) in _ROOTS:
            return len(node.args) == 1 and _is_width(node.args[0], tensors)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return ast.unparse(node.right) == power and _is_width(node.left, tensors)
    return False


def _is_width(node: ast.expr, tensors: Sequence[ast.expr]) -> bool:
    texts = {ast.unparse(one) for one in tensors}
    widths = {f"{text}{size}" for text in texts for size in (".shape[-1]", ".size(-1)")}
    return ast.unparse(node) in widths
