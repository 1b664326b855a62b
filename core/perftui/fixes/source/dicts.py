"""Dicts that a file writes out and then reads or unpacks."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Program, assigned_value
from perftui.fixes.source.readers import is_only_read
from perftui.fixes.source.scopes import bindings_of, may_be_replaced, readers_of

Entries = list[tuple[str, ast.expr]]


def literal_entries(value: ast.expr | None) -> Entries | None:
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


def written_dict(program: Program, name: ast.Name) -> ast.expr | None:
    """What the dict ``name`` is set to, by the only assignment that there is; else None."""
    bindings = bindings_of(program, name)
    if len(bindings) != 1 or may_be_replaced(program, bindings[0]):
        return None
    return assigned_value(program, bindings[0])


def entries_of(program: Program, name: ast.Name) -> Entries | None:
    """Entries of the dict ``name``, which is written out once; else None."""
    return literal_entries(written_dict(program, name))


def is_changed(program: Program, name: ast.Name, key: str, is_known: bool) -> bool:
    """Whether ``key`` of the dict ``name`` may be set anywhere after it was written.

    ``is_known``: the run still had the value that was written, so what the dict was handed to did
    not set it.
    """
    return any(_may_set(program, load, key, is_known) for load in readers_of(program, name))


def _may_set(program: Program, load: ast.Name, key: str, is_known: bool) -> bool:
    above = program.parents[load]
    if isinstance(above, ast.Subscript) and above.value is load:
        is_other = isinstance(above.slice, ast.Constant) and above.slice.value != key
        return not isinstance(above.ctx, ast.Load) and not is_other
    if isinstance(above, ast.Call) and load in above.args and is_known:
        return False
    return not is_only_read(program, load)
