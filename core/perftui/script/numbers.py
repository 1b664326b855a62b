"""Expressions that are certain to be plain numbers: of no tensor."""

from __future__ import annotations

import ast

from perftui.script.local_values import own_attribute
from perftui.script.names import bindings_of, qualified_name
from perftui.script.program import Program, assigned_value, called_name
from perftui.script.uses import default_of, function_of, values_given

_OF_ANYTHING = ("float", "int", "len")
_OF_NUMBERS = ("min", "max", "pow", "abs", "round")
_NUMERIC = frozenset({"int", "float"})
_COUNTING = ("range", "trange")
_DEEPEST = 6
"""Names that one number is followed through."""


def is_number(program: Program, node: ast.expr | None, depth: int = _DEEPEST) -> bool:
    """Whether ``node`` is certain to be an ``int`` or ``float``: a literal, a size, arithmetic of
    such, or a name, an attribute or an option of the command line that is given nothing else."""
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
        return _is_numeric_call(program, node, depth)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Name) and depth > 0:
        found = bindings_of(program, node)
        return bool(found) and all(_binds_number(program, one, depth - 1) for one in found)
    return (
        isinstance(node, ast.Attribute)
        and depth > 0
        and _is_numeric_attribute(program, node, depth - 1)
    )


def _is_numeric_call(program: Program, call: ast.Call, depth: int) -> bool:
    name = called_name(call)
    if isinstance(call.func, ast.Name) and not program.bindings(name):
        return name in _OF_ANYTHING or (
            name in _OF_NUMBERS and all(is_number(program, one, depth) for one in call.args)
        )
    named = qualified_name(program, call.func) or ""
    return (
        named.startswith("math.")
        or named == "numpy.sqrt"
        or (name == "size" and len(call.args) == 1)
    )


def _binds_number(program: Program, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        return _is_numeric_parameter(program, binding, depth)
    above = program.parents[binding]
    if isinstance(above, ast.AugAssign):
        return is_number(program, above.value, depth)
    if isinstance(above, ast.Tuple) and (value := assigned_value(program, above)) is not None:
        return ast.unparse(value).endswith((".shape", ".size()"))
    if isinstance(above, (ast.For, ast.Tuple)):
        loop = above if isinstance(above, ast.For) else program.parents[above]
        over = loop.iter if isinstance(loop, ast.For) else None
        called = called_name(over) if isinstance(over, ast.Call) else ""
        is_first = isinstance(above, ast.Tuple) and above.elts[0] is binding
        return called == "enumerate" if is_first else called in _COUNTING
    return is_number(program, assigned_value(program, binding), depth)


def _is_numeric_parameter(program: Program, parameter: ast.arg, depth: int) -> bool:
    """By its annotation, its default, what all calls of the file give, or because a layer of torch
    gets it as a size."""
    if parameter.annotation is not None:
        return ast.unparse(parameter.annotation) in _NUMERIC
    function = function_of(program, parameter)
    if function is None:
        return False
    if is_number(program, default_of(function, parameter.arg), depth):
        return True
    sizes = (
        given
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and called_name(call)[:1].isupper()
        and (qualified_name(program, call.func) or "").startswith("torch.nn.")
        for given in call.args
    )
    if any(isinstance(given, ast.Name) and given.id == parameter.arg for given in sizes):
        return True
    given = values_given(program, parameter)
    return bool(given) and all(is_number(program, one, depth) for one in given)


def _is_numeric_attribute(program: Program, node: ast.Attribute, depth: int) -> bool:
    own = own_attribute(program, node)
    if own is not None:
        return is_number(program, own, depth)
    stores = program.attributes(node.attr, ast.Store)
    if stores:
        return all(_binds_number(program, one, depth) for one in stores)
    if fields := _fields(program, node.attr):
        return all(ast.unparse(one.annotation) in _NUMERIC for one in fields)
    option = f"--{node.attr.replace('_', '-')}"
    for call in program.calls("add_argument"):
        words = [one.value for one in call.args if isinstance(one, ast.Constant)]
        if option in [str(word).replace("_", "-") for word in words]:
            kind = next((one.value for one in call.keywords if one.arg == "type"), None)
            return kind is not None and ast.unparse(kind) in _NUMERIC
    return False


def _fields(program: Program, name: str) -> list[ast.AnnAssign]:
    """The fields ``name`` of the file's classes: options that are read into a dataclass."""
    bodies = (one.body for classes in program.classes.values() for one in classes)
    return [
        statement
        for body in bodies
        for statement in body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == name
    ]
