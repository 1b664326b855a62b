"""Which expressions hold the parsed command line, and whether anything else sets a value of it."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Program, assigned_value, called_name
from perftui.fixes.source.readers import is_only_read

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEEPEST = 3
"""Functions and attributes that hand the parsed command line on."""


def is_namespace(program: Program, value: ast.expr, depth: int = _DEEPEST) -> bool:
    """Whether ``value`` is only ever the result of ``parse_args`` in this file: a name, an
    attribute such as ``self.args``, or a call of a function that returns it."""
    if depth < 0:
        return False
    if isinstance(value, ast.Call):
        return _parses(value) or _returns_parsed(program, value, depth)
    if isinstance(value, ast.Attribute):
        stored = [_value(program, node) for node in _stores(program, value.attr)]
        return bool(stored) and all(
            one is not None and is_namespace(program, one, depth - 1) for one in stored
        )
    if not isinstance(value, ast.Name):
        return False
    return _all_parsed(program, program.bindings(value.id), depth)


def is_set(program: Program, attribute: str) -> bool:
    """Whether anything but the parser may set ``attribute`` of some object."""
    if program.calls("exec", "add_subparsers") or _stores(program, attribute):
        return True
    return (
        any(_may_be(call, attribute) for call in program.calls("set_defaults"))
        or any(_sets(call, attribute) for call in program.calls("setattr"))
        or any(not is_only_read(program, call) for call in program.calls("vars"))
        or any(
            not is_only_read(program, node)
            for node in program.nodes
            if isinstance(node, ast.Attribute)
            and node.attr == "__dict__"
            and ast.unparse(node.value) != "self"
        )
    )


def _all_parsed(program: Program, bindings: list[ast.AST], depth: int) -> bool:
    """Whether all of ``bindings`` are of ``parse_args``, parameters aside; one is at least."""
    passed = [one for one in bindings if isinstance(one, ast.arg)]
    parsers = [one for one in bindings if _is_its_own_parser(program, one)]
    rest = [one for one in bindings if one not in passed and one not in parsers]
    values = [_value(program, one) for one in rest]
    return bool(rest) and all(
        isinstance(one, ast.Call) and is_namespace(program, one, depth) for one in values
    )


def _value(program: Program, target: ast.AST) -> ast.expr | None:
    """What ``target`` is set to; of ``args, rest = p.parse_known_args()`` for the first of both."""
    value = assigned_value(program, target)
    above = program.parents.get(target)
    if value is None and isinstance(above, ast.Tuple) and above.elts[:1] == [target]:
        pair = assigned_value(program, above)
        if isinstance(pair, ast.Call) and called_name(pair) == "parse_known_args":
            return pair
    if isinstance(value, ast.Call) and called_name(value) == "parse_known_args":
        return None  # both, in a tuple
    return value


def _parses(value: ast.Call) -> bool:
    return called_name(value) in ("parse_args", "parse_known_args")


def _is_its_own_parser(program: Program, binding: ast.AST) -> bool:
    """Whether ``args = parser()`` is what the next statement, ``args = args.parse_args()``, sets
    anew."""
    statement = program.parents.get(binding)
    if not isinstance(binding, ast.Name) or not isinstance(statement, ast.Assign):
        return False
    block = program.block(statement)
    after = block[block.index(statement) + 1 :][:1]
    value = after[0].value if after and isinstance(after[0], ast.Assign) else None
    if not isinstance(value, ast.Call) or not _parses(value):
        return False
    by = value.func.value if isinstance(value.func, ast.Attribute) else None
    targets = after[0].targets if isinstance(after[0], ast.Assign) else []
    return isinstance(by, ast.Name) and by.id == binding.id and ast.unparse(targets[0]) == by.id


def _returns_parsed(program: Program, call: ast.Call, depth: int) -> bool:
    """Whether ``call`` is of the file's only function of that name, which returns what it has
    parsed and nothing else."""
    if not isinstance(call.func, ast.Name) or call.func.id not in {
        one.name for one in _functions(program)
    }:
        return False
    bindings = program.bindings(call.func.id)
    if len(bindings) != 1:
        return False
    function = bindings[0]
    below = [node for node in ast.walk(function) if _function(program, node) is function]
    returns = [node for node in below if isinstance(node, ast.Return)]
    generates = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in below)
    return (
        bool(returns)
        and not generates
        and all(_is_parsed_here(program, function, one.value, depth - 1) for one in returns)
    )


def _is_parsed_here(
    program: Program, function: ast.AST, value: ast.expr | None, depth: int
) -> bool:
    if isinstance(value, ast.Name):
        own = [one for one in program.bindings(value.id) if _function(program, one) is function]
        is_passed = any(isinstance(one, ast.arg) for one in own)
        return not is_passed and _all_parsed(program, own, depth)
    return isinstance(value, ast.Call) and called_name(value) == "parse_args"


def _function(program: Program, node: ast.AST) -> ast.AST | None:
    return next((one for one in program.ancestors(node) if isinstance(one, _FUNCTIONS)), None)


def _functions(program: Program) -> list[ast.FunctionDef]:
    return [node for node in program.statements() if isinstance(node, ast.FunctionDef)]


def _stores(program: Program, attribute: str) -> list[ast.Attribute]:
    return [
        node
        for node in program.nodes
        if isinstance(node, ast.Attribute)
        and node.attr == attribute
        and not isinstance(node.ctx, ast.Load)
    ]


def _may_be(call: ast.Call, attribute: str) -> bool:
    """Whether a keyword of ``set_defaults`` is ``attribute``, or may be."""
    return any(keyword.arg in (attribute, None) for keyword in call.keywords)


def _sets(call: ast.Call, attribute: str) -> bool:
    """Whether ``setattr`` may set ``attribute``; of an object of its own class it is known."""
    name = call.args[1] if len(call.args) > 1 else None
    if isinstance(name, ast.Constant):
        return name.value == attribute
    of = call.args[0] if call.args else None
    return not (isinstance(of, ast.Name) and of.id in ("self", "cls"))
