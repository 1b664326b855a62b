"""Where the value of a call's argument is written, followed as far as it is certain."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Edit, RemoveKeyword, edit_of
from perftui.fixes.source.followed_values import followed
from perftui.fixes.source.origins import Wanted
from perftui.fixes.source.program import Decided, Literal, PatchRefusedError, Program, is_literal
from perftui.fixes.source.unpacked_dicts import from_dict

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

    If the source leaves several, ``spec.seen`` shows which of them the run had.

    Raises:
        PatchRefusedError: that is not certain.
    """
    given = argument(call, name, spec.positions.get(name))
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not spec.follows:
        _refuse_unclear(call, name, given, unpacked)
    wanted = Wanted(name, kind, spec.seen.get(name))
    default = spec.defaults.get(name)
    if given is not None:
        return followed(program, given, wanted)
    if len(unpacked) > 1:
        raise PatchRefusedError(f"{name} may be in any of {len(unpacked)} unpacked dicts")
    found = from_dict(program, unpacked[0], wanted, default) if unpacked else None
    return found or Decided(default, program.span(call), name)


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
    return None if now.value == value else edit_of(now, value)


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
