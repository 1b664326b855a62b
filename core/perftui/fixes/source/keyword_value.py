"""Where the value of a call's argument is written, followed as far as it is certain."""

from __future__ import annotations

import ast

from perftui.fixes.source.declared_options import option_behind
from perftui.fixes.source.program import Program, assigned_value
from perftui.fixes.source.refused import PatchRefusedError


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


def written(
    program: Program, call: ast.Call, name: str, position: int | None
) -> ast.Constant | None:
    """The literal that decides ``name`` in ``call``; None where the call does not give it.

    Raises:
        PatchRefusedError: the value is not certain.
    """
    given = argument(call, name, position)
    if given is not None:
        return _followed(program, name, given)
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not unpacked:
        return None
    if len(unpacked) > 1:
        raise PatchRefusedError(f"{name} may be in any of {len(unpacked)} unpacked dicts")
    return _in_dict(program, call, name, unpacked[0])


def _followed(program: Program, name: str, given: ast.expr) -> ast.Constant:
    if isinstance(given, ast.Constant):
        return given
    if isinstance(given, ast.Name):
        return _module_constant(program, name, given)
    option = option_behind(program, given)
    if isinstance(option, str):
        raise PatchRefusedError(f"{name}={ast.unparse(given)}: {option}")
    if option.default is None:
        raise PatchRefusedError(f"{option.long_flag} has no default that is a whole number")
    return option.default


def _module_constant(program: Program, name: str, given: ast.Name) -> ast.Constant:
    """The literal of a variable that the module sets once, at its top level, and nothing else."""
    bindings = program.bindings(given.id)
    value = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if not isinstance(value, ast.Constant):
        raise PatchRefusedError(f"{name}={given.id}: not certain where {given.id} gets its value")
    if not isinstance(_statement_parent(program, value), ast.Module):
        raise PatchRefusedError(f"{name}={given.id}: {given.id} is set inside a block")
    if program.calls("exec", "globals", "setattr"):
        raise PatchRefusedError(
            f"{name}={given.id}: the file may set {given.id} by exec or globals"
        )
    return value


def _in_dict(
    program: Program, call: ast.Call, name: str, unpacked: ast.expr
) -> ast.Constant | None:
    """The literal under ``name`` in ``**unpacked``, a dict that is written once and used once."""
    entries = _entries(program, call, name, unpacked)
    values = [value for key, value in entries if key == name]
    if len(values) > 1:
        raise PatchRefusedError(f"{name} is set twice")
    if not values:
        return None
    if not isinstance(values[0], ast.Constant):
        raise PatchRefusedError(f"{name} comes from {ast.unparse(values[0])} in a dict")
    return values[0]


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
