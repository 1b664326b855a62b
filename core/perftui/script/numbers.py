"""Expressions that are certain to be plain numbers, such as the scale of attention."""

from __future__ import annotations

import ast

from perftui.script.local_values import own_attribute
from perftui.script.names import bindings_of, qualified_name
from perftui.script.program import Function, Program, assigned_value, called_name
from perftui.script.uses import attributes

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


_NAMES_FOLLOWED = 4
"""Names that one number is followed through."""
_OF_NUMBERS = ("min", "max", "pow", "abs", "round")


def is_scalar(program: Program, node: ast.expr | None, depth: int = _NAMES_FOLLOWED) -> bool:
    """Whether ``node`` is a literal number, arithmetic of such, or a name, an attribute or an
    option of the command line that is given nothing else."""
    if depth <= 0:
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_scalar(program, node.operand, depth)
    if isinstance(node, ast.BinOp):
        return all(is_scalar(program, side, depth) for side in (node.left, node.right))
    if isinstance(node, ast.Call):
        return _is_numeric_call(program, node, depth)
    if isinstance(node, ast.Name):
        found = bindings_of(program, node)
        return bool(found) and all(_binds_number(program, one, depth - 1) for one in found)
    return isinstance(node, ast.Attribute) and _is_numeric_attribute(program, node, depth - 1)


def _is_numeric_call(program: Program, call: ast.Call, depth: int) -> bool:
    if isinstance(call.func, ast.Name) and not program.bindings(call.func.id):
        if call.func.id in ("float", "int", "len"):
            return True
        return call.func.id in _OF_NUMBERS and all(
            is_scalar(program, one, depth) for one in call.args
        )
    return (qualified_name(program, call.func) or "").startswith("math.")


def _binds_number(program: Program, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        return _is_numeric_parameter(program, binding, depth)
    above = program.parents[binding]
    if isinstance(above, ast.AugAssign):
        return is_scalar(program, above.value, depth)
    if isinstance(above, (ast.For, ast.Tuple)):
        loop = above if isinstance(above, ast.For) else program.parents[above]
        over = loop.iter if isinstance(loop, ast.For) else None
        called = called_name(over) if isinstance(over, ast.Call) else ""
        is_first = isinstance(above, ast.Tuple) and above.elts[0] is binding
        return called == "enumerate" if is_first else called in ("range", "trange")
    return is_scalar(program, assigned_value(program, binding), depth)


def _is_numeric_parameter(program: Program, parameter: ast.arg, depth: int) -> bool:
    """By its annotation, its default, or what all calls of the file give."""
    if parameter.annotation is not None:
        return ast.unparse(parameter.annotation) in ("float", "int")
    arguments = program.parents[parameter]
    function = program.parents[arguments]
    if not isinstance(arguments, ast.arguments) or not isinstance(function, Function):
        return False
    named = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(reversed(named), reversed(arguments.defaults), strict=False))
    defaults |= {
        one: value
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }
    if is_scalar(program, defaults.get(parameter), depth):
        return True
    calls = [one for one in program.calls() if function in program.own_functions(one)]
    offset = bool(named) and named[0].arg == "self"
    given = [
        _given(call, parameter.arg, named.index(parameter) - offset if parameter in named else -1)
        for call in calls
    ]
    return bool(given) and all(is_scalar(program, one, depth) for one in given)


def _given(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = (one.value for one in call.keywords if one.arg == name)
    return call.args[position] if 0 <= position < len(call.args) else next(named, None)


def _is_numeric_attribute(program: Program, node: ast.Attribute, depth: int) -> bool:
    stores = attributes(program, node.attr, ast.Store)
    if stores:
        return all(_binds_number(program, one, depth) for one in stores)
    if fields := _fields(program, node.attr):
        return all(ast.unparse(one.annotation) in ("float", "int") for one in fields)
    option = f"--{node.attr.replace('_', '-')}"
    for call in program.calls("add_argument"):
        words = [one.value for one in call.args if isinstance(one, ast.Constant)]
        if option in [str(word).replace("_", "-") for word in words]:
            kind = next((one.value for one in call.keywords if one.arg == "type"), None)
            return kind is not None and ast.unparse(kind) in ("float", "int")
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
