"""What the calls of a function of the file give for one of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.source.program import Function, Program, called_name
from perftui.fixes.source.readers import attributes

_HARMLESS = frozenset(
    {"staticmethod", "no_grad", "inference_mode", "enable_grad", "record", "wraps"}
)
"""Decorators that hand a call on as it is."""


def function_of(program: Program, parameter: ast.arg) -> Function | None:
    """The function that has ``parameter``; None of a lambda."""
    arguments = program.parents[parameter]
    function = program.parents[arguments]
    return function if isinstance(function, Function) else None


def calls_of(program: Program, function: Function) -> list[ast.Call] | None:
    """All calls of ``function`` in the file; None where others may call it as well: it is handed
    on, decorated, or has a name that others have."""
    named = [one for one in program.statements() if getattr(one, "name", None) == function.name]
    if any(_decorator(one) not in _HARMLESS for one in function.decorator_list):
        return None
    above = program.parents[function]
    if function.name == "__init__" and isinstance(above, ast.ClassDef):
        return _by_name(program, above.name) if program.bindings(above.name) == [above] else None
    if len(named) != 1:
        return None
    if isinstance(above, ast.ClassDef):
        return _called(program, attributes(program, function.name, ast.Load))
    return _by_name(program, function.name) if program.bindings(function.name) == named else None


def given_for(
    program: Program, call: ast.Call, function: Function, parameter: str
) -> ast.expr | None:
    """What ``call`` of ``function`` gives for ``parameter``: its default where it gives none.

    None where that is not certain: something is unpacked, or there is no default.
    """
    unpacks = any(isinstance(one, ast.Starred) for one in call.args)
    if unpacks or any(keyword.arg is None for keyword in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if parameter in positional:
        at = positional.index(parameter)
        is_bound = isinstance(program.parents[function], ast.ClassDef) and not any(
            _decorator(one) == "staticmethod" for one in function.decorator_list
        )
        given = call.args[at - is_bound : at - is_bound + 1] if at >= is_bound else []
        return given[0] if given else _last(arguments.defaults, at - len(positional))
    names = [one.arg for one in arguments.kwonlyargs]
    return arguments.kw_defaults[names.index(parameter)] if parameter in names else None


def is_default(function: Function, value: ast.expr) -> bool:
    """Whether ``value`` is written as a default of ``function``."""
    return value in (*function.args.defaults, *function.args.kw_defaults)


def _last(defaults: Sequence[ast.expr], from_end: int) -> ast.expr | None:
    return defaults[from_end] if -from_end <= len(defaults) else None


def _by_name(program: Program, name: str) -> list[ast.Call] | None:
    return _called(program, program.loads(name))


def _called(program: Program, uses: Sequence[ast.expr]) -> list[ast.Call] | None:
    """The calls of all ``uses``; None where one of them is no call."""
    calls = [program.parents[use] for use in uses]
    found = [one for one, use in zip(calls, uses, strict=True) if _is_call_of(one, use)]
    return found if len(found) == len(uses) else None  # type: ignore[return-value]


def _is_call_of(node: ast.AST, use: ast.expr) -> bool:
    return isinstance(node, ast.Call) and node.func is use


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return called_name(node)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
