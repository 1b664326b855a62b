"""What a call is given for an argument by ``**kwargs``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perftui.fixes.source.dicts import literal_entries
from perftui.fixes.source.followed_values import followed, one_of
from perftui.fixes.source.origins import Origin, Wanted
from perftui.fixes.source.program import (
    Decided,
    Literal,
    PatchRefusedError,
    Program,
    assigned_value,
)
from perftui.fixes.source.readers import is_only_read
from perftui.fixes.source.scopes import bindings_of, may_be_replaced, readers_of


def from_dict(
    program: Program, unpacked: ast.expr, wanted: Wanted, default: Literal
) -> Decided | None:
    """What decides ``wanted`` in ``**unpacked``; None where that certainly has no such key, and the
    ``default`` of the call holds.

    Raises:
        PatchRefusedError: that is not certain.
    """
    displays = list(_displays(program, unpacked, wanted))
    entries = [_entry(display, unpacked, wanted) for display in displays]
    found = [entry for entry in entries if entry is not None]
    if not found:
        return None
    readers = tuple(_unpacking(program, unpacked)) if isinstance(unpacked, ast.Name) else ()
    if len(entries) == 1:
        return one_of(program, found[0], [Origin(found[0], readers)], wanted)
    # Where the key is missing the default holds; it must not be what the run had.
    if wanted.seen is None or (len(found) < len(entries) and wanted.seen == default):
        raise _unknown(unpacked, wanted)
    fitting = [one for one in found if followed(program, one, wanted).value == wanted.seen]
    if len(fitting) != 1:
        raise _unknown(unpacked, wanted)
    return one_of(program, fitting[0], [Origin(fitting[0], readers)], wanted)


def _unknown(unpacked: ast.expr, wanted: Wanted) -> PatchRefusedError:
    return PatchRefusedError(f"{wanted.name} may come from **{ast.unparse(unpacked)}")


def _displays(program: Program, unpacked: ast.expr, wanted: Wanted) -> Iterator[ast.expr]:
    """The dicts that may give ``unpacked`` an entry: what it is set to and updated by, and the
    values of single entries."""
    if isinstance(unpacked, ast.IfExp):
        yield unpacked.body
        yield unpacked.orelse
        return
    if not isinstance(unpacked, ast.Name):
        yield unpacked
        return
    bindings = bindings_of(program, unpacked)
    if not bindings or any(may_be_replaced(program, one) for one in bindings):
        raise _unknown(unpacked, wanted)
    for binding in bindings:
        given = assigned_value(program, binding)
        if given is None:
            raise _unknown(unpacked, wanted)
        yield from _displays(program, given, wanted) if isinstance(given, ast.IfExp) else (given,)
    for load in readers_of(program, unpacked):
        added = _added(program, load)
        if added is not None:
            yield from _displays(program, added, wanted)
        elif not _is_unpacked(program, load) and not is_only_read(program, load):
            raise _unknown(unpacked, wanted)


def _added(program: Program, load: ast.Name) -> ast.expr | None:
    """What ``load.update(...)`` adds, or ``load["key"] = ...`` as a dict of one entry."""
    above = program.parents[load]
    call = program.parents[above]
    if isinstance(above, ast.Attribute) and above.attr == "update" and isinstance(call, ast.Call):
        if len(call.args) == 1 and not call.keywords:
            return call.args[0]
        return ast.Call(ast.Name("dict"), [], call.keywords) if not call.args else None
    if isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store):
        value = assigned_value(program, above)
        return ast.Dict([above.slice], [value]) if value is not None else None
    return None


def _is_unpacked(program: Program, load: ast.Name) -> bool:
    above = program.parents[load]
    return isinstance(above, ast.keyword) and above.arg is None


def _entry(display: ast.expr, unpacked: ast.expr, wanted: Wanted) -> ast.expr | None:
    entries = literal_entries(display)
    if entries is None:
        raise _unknown(unpacked, wanted)
    values = [value for key, value in entries if key == wanted.name]
    if len(values) > 1:
        raise PatchRefusedError(f"{wanted.name} is set twice")
    return values[0] if values else None


def _unpacking(program: Program, name: ast.Name) -> Iterator[ast.expr]:
    """Other calls that unpack ``name``, or a dict that is updated by the same."""
    for load in readers_of(program, name):
        if load is not name:
            yield from _call_unpacking(program, load)
        added = _added(program, load)
        for other in readers_of(program, added) if isinstance(added, ast.Name) else ():
            call = program.parents[other]
            updated = call.func if isinstance(call, ast.Call) else None
            dict_ = updated.value if isinstance(updated, ast.Attribute) else None
            if isinstance(dict_, ast.Name) and not _is_same(program, dict_, name):
                for use in readers_of(program, dict_):
                    yield from _call_unpacking(program, use)


def _call_unpacking(program: Program, load: ast.Name) -> Iterator[ast.expr]:
    call = program.parents[program.parents[load]]
    if _is_unpacked(program, load) and isinstance(call, ast.Call):
        yield call


def _is_same(program: Program, one: ast.Name, other: ast.Name) -> bool:
    return bindings_of(program, one) == bindings_of(program, other)
