"""Where a variable, a parameter, an attribute or an entry of a dict gets its value: one step."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from perftui.fixes.source.attribute_origins import stored
from perftui.fixes.source.callers import calls_of, function_of, given_for, is_default
from perftui.fixes.source.dicts import entries_of, is_changed
from perftui.fixes.source.program import Literal, PatchRefusedError, Program, assigned_value
from perftui.fixes.source.readers import attributes
from perftui.fixes.source.scopes import bindings_of, may_be_replaced, readers_of


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    name: str
    """The argument, for a person."""
    kind: type[object]
    seen: Literal = None
    """Its value in the run; None where that is not known."""


@dataclass(frozen=True)
class Origin:
    """One expression that may give the value, and what else reads it there."""

    value: ast.expr
    readers: tuple[ast.expr, ...] = ()


def unclear(wanted: Wanted, value: ast.expr, why: str) -> PatchRefusedError:
    """The refusal to follow ``value``."""
    return PatchRefusedError(f"{wanted.name}={ast.unparse(value)}: {why}")


def origins(program: Program, value: ast.expr, wanted: Wanted) -> tuple[Origin, ...] | None:
    """All that may give ``value`` in this file; None where it is computed.

    Raises:
        PatchRefusedError: more may give it than the file shows.
    """
    if isinstance(value, ast.Name):
        return _variable(program, value, wanted)
    if isinstance(value, ast.Attribute):
        given = stored(program, value)
        same = attributes(program, value.attr, ast.Load)
        others = tuple(node for node in same if node is not value)
        return (Origin(given, others),) if given else None
    if isinstance(value, ast.Subscript):
        return _item(program, value, wanted)
    if isinstance(value, ast.IfExp):
        return Origin(value.body), Origin(value.orelse)
    return None


def _variable(program: Program, value: ast.Name, wanted: Wanted) -> tuple[Origin, ...]:
    bindings = bindings_of(program, value)
    unknown = f"not certain where {value.id} gets its value"
    if len(bindings) > 1:
        unknown = f"{value.id} is set {len(bindings)} times"
    if len(bindings) != 1:
        raise unclear(wanted, value, unknown)
    if may_be_replaced(program, bindings[0]):
        raise unclear(wanted, value, f"exec, globals or an import may set {value.id}")
    others = tuple(one for one in readers_of(program, value) if one is not value)
    if isinstance(bindings[0], ast.arg):
        return _parameter(program, value, bindings[0], wanted, others)
    given = assigned_value(program, bindings[0])
    if given is None:
        raise unclear(wanted, value, unknown)
    return (Origin(given, others),)


def _parameter(
    program: Program,
    value: ast.Name,
    parameter: ast.arg,
    wanted: Wanted,
    others: tuple[ast.expr, ...],
) -> tuple[Origin, ...]:
    function = function_of(program, parameter)
    calls = calls_of(program, function) if function else None
    if function is not None and calls == []:
        raise unclear(wanted, value, f"{function.name}() is called in another file: give it there")
    unknown = unclear(wanted, value, f"not certain where {value.id} gets its value")
    if function is None or calls is None:
        raise unknown
    found: list[Origin] = []
    for call in calls:
        given = given_for(program, call, function, parameter.arg)
        if given is None:
            raise unknown
        # Each call that leaves it to the default gets the new one.
        sharing = calls if is_default(function, given) else ()
        found.append(Origin(given, (*others, *(one for one in sharing if one is not call))))
    return tuple(found)


def _item(program: Program, value: ast.Subscript, wanted: Wanted) -> tuple[Origin, ...] | None:
    """The entry of a dict that is written once, and changed nowhere as far as the file shows."""
    key = value.slice.value if isinstance(value.slice, ast.Constant) else None
    if not isinstance(value.value, ast.Name) or not isinstance(key, str):
        return None
    entries = entries_of(program, value.value)
    found = [entry for name, entry in entries or () if name == key]
    if len(found) != 1 or is_changed(program, value.value, key, wanted.seen is not None):
        return None
    same = (program.parents[load] for load in readers_of(program, value.value))
    others = (one for one in same if isinstance(one, ast.Subscript) and one is not value)
    text = ast.unparse(value.slice)
    return (Origin(found[0], tuple(one for one in others if ast.unparse(one.slice) == text)),)
