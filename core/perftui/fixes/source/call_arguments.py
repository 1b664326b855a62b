"""Where the value of a call's argument is written, followed as far as it is certain."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.declared_options import option_behind
from perftui.fixes.source.edits import (
    Decided,
    Edit,
    Literal,
    PatchRefusedError,
    RemoveKeyword,
    is_literal,
)
from perftui.fixes.source.program import Program, assigned_value

_COMPUTED = (ast.Call, ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def argument(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """The expression given for ``name``, by keyword or at ``position``; None where there is none.

    Raises:
        PatchRefusedError: positional arguments are unpacked, so that positions are unknown.
    """
    if any(isinstance(given, ast.Starred) for given in call.args):
        raise PatchRefusedError("the call unpacks positional arguments")
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def decided(
    program: Program, call: ast.Call, spec: CallSpec, name: str, kind: type[object]
) -> Decided:
    """What decides the argument ``name`` of ``call``; an option has to be one for a ``kind``.

    Raises:
        PatchRefusedError: that is not certain.
    """
    given = argument(call, name, spec.positions.get(name))
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not spec.follows:
        _refuse_unclear(call, name, given, unpacked)
    elif given is not None and not is_literal(given):
        return _followed(program, name, given, kind)
    elif given is None and len(unpacked) > 1:
        raise PatchRefusedError(f"{name} may be in any of {len(unpacked)} unpacked dicts")
    elif given is None and unpacked:
        given = _in_dict(program, call, name, unpacked[0])
    if given is None:
        return Decided(spec.defaults.get(name), program.span(call), name)
    return program.literal(given)


def changed(
    program: Program, call: ast.Call, spec: CallSpec, name: str, value: Literal
) -> Edit | None:
    """The edit that gives ``call`` the argument, None where it has it.

    Raises:
        PatchRefusedError: what decides it now is not certain, or is of another kind than ``value``.
    """
    now = decided(program, call, spec, name, type(value))
    for other in spec.conflicts.get(name, ()) if value else ():
        beside = argument(call, other, spec.positions.get(other))
        if beside is not None and not (is_literal(beside) and not ast.literal_eval(beside)):
            raise PatchRefusedError(f"{name} does not go with {other}={ast.unparse(beside)}")
    unset = now.keyword or now.value is spec.defaults.get(name) is None
    if not unset and not now.is_a(type(value)):
        raise PatchRefusedError(f"{name} is {now.value!r}")
    return None if now.value == value else now.edit(value)


def each_changed(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> dict[str, Edit]:
    """The edits that give ``call`` each of ``arguments`` by itself, those left out that it has.

    Raises:
        PatchRefusedError: what decides one now is not certain, or is of another kind.
    """
    found = {name: changed(program, call, spec, name, arguments[name]) for name in arguments}
    return {name: edit for name, edit in found.items() if edit}


def removed(program: Program, call: ast.Call, name: str) -> RemoveKeyword:
    """The keyword ``name`` taken out of ``call``.

    Raises:
        PatchRefusedError: it is not given there, or computed there, which may do more than that.
    """
    given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if given is None:
        raise PatchRefusedError(f"the call has no keyword {name}")
    if any(isinstance(node, _COMPUTED) for node in ast.walk(given)):
        raise PatchRefusedError(f"{name}={ast.unparse(given)} is computed")
    return RemoveKeyword(program.span(call), name)


def _refuse_unclear(
    call: ast.Call, name: str, given: ast.expr | None, unpacked: list[ast.expr]
) -> None:
    if unpacked:
        raise PatchRefusedError(f"{name} may come from **{ast.unparse(unpacked[0])}")
    if given in call.args:
        raise PatchRefusedError(f"{name} is given by position")
    if given is not None and not is_literal(given):
        raise PatchRefusedError(f"{name}={ast.unparse(given)} is not a literal")


def _followed(program: Program, name: str, given: ast.expr, kind: type[object]) -> Decided:
    if isinstance(given, ast.Name):
        return program.literal(_module_constant(program, name, given))
    option = option_behind(program, given, kind)
    if isinstance(option, str):
        raise PatchRefusedError(f"{name}={ast.unparse(given)}: {option}")
    return option.decided(program)


def _module_constant(program: Program, name: str, given: ast.Name) -> ast.expr:
    """The literal of a variable that the module sets once, at its top level, and nothing else."""
    bindings = program.bindings(given.id)
    value = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if value is None or not is_literal(value):
        raise PatchRefusedError(f"{name}={given.id}: not certain where {given.id} gets its value")
    if not isinstance(_statement_parent(program, value), ast.Module):
        raise PatchRefusedError(f"{name}={given.id}: {given.id} is set inside a block")
    if program.calls("exec", "globals", "setattr"):
        raise PatchRefusedError(
            f"{name}={given.id}: the file may set {given.id} by exec or globals"
        )
    return value


def _in_dict(program: Program, call: ast.Call, name: str, unpacked: ast.expr) -> ast.expr | None:
    """The literal under ``name`` in ``**unpacked``, a dict that is written once and used once."""
    entries = _entries(program, call, name, unpacked)
    values = [value for key, value in entries if key == name]
    if len(values) > 1:
        raise PatchRefusedError(f"{name} is set twice")
    if values and not is_literal(values[0]):
        raise PatchRefusedError(f"{name} comes from {ast.unparse(values[0])} in a dict")
    return values[0] if values else None


def _entries(
    program: Program, call: ast.Call, name: str, unpacked: ast.expr
) -> list[tuple[str, ast.expr]]:
    unknown = PatchRefusedError(f"{name} may come from **{ast.unparse(unpacked)}")
    value: ast.expr | None = unpacked
    if isinstance(unpacked, ast.Name):
        bindings = program.bindings(unpacked.id)
        value = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
        # Any other use may change the dict, or make another call share it.
        if value is None or len(program.loads(unpacked.id)) != 1:
            raise unknown
        block = _statement_parent(program, value)
        if block not in (program.tree, program.scope(call)):
            raise unknown
    entries = _literal_entries(value)
    if entries is None:
        raise unknown
    return entries


def _literal_entries(value: ast.expr | None) -> list[tuple[str, ast.expr]] | None:
    """Entries of a dict display or a ``dict(...)`` call whose keys are all written out."""
    if isinstance(value, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        pairs = list(zip(keys, value.values, strict=True))
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "dict" and not value.args:
        pairs = [(keyword.arg, keyword.value) for keyword in value.keywords]
    else:
        return None
    named = [(key, entry) for key, entry in pairs if isinstance(key, str)]
    return named if len(named) == len(pairs) else None


def _statement_parent(program: Program, value: ast.expr) -> ast.AST:
    """What holds the statement around ``value``: a module, a function, an ``if``..."""
    statement = next(a for a in program.ancestors(value) if isinstance(a, ast.stmt))
    return program.parents[statement]
