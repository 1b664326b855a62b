"""Follows a value to the literal or the option that decides it.

Through variables, parameters, attributes and dicts. If the source leaves several, the run's value
decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perftui.script.names import bindings_of, may_be_replaced, readers_of
from perftui.script.options import is_set, option_behind
from perftui.script.program import (
    Decided,
    Literal,
    PatchRefusedError,
    Program,
    assigned_value,
    is_literal,
)
from perftui.script.uses import (
    calls_of,
    function_of,
    given_for,
    is_default,
    is_only_read,
)


def stored(program: Program, value: ast.Attribute) -> ast.expr | None:
    """What the file sets the attribute ``value`` to: once, by ``self.x = ...`` in a method or by
    ``x = ...`` in the body of its class; None where that is not certain."""
    if not isinstance(value.value, ast.Name) or _is_set_unseen(program):
        return None
    stores = program.attributes(value.attr, ast.Store)
    in_classes = [
        node
        for node in program.bindings(value.attr)
        if isinstance(program.scope(node), ast.ClassDef)
    ]
    if value.value.id == "self" and len(stores) == 1 and not in_classes:
        is_own = ast.unparse(stores[0].value) == "self"
        is_same = program.owner(stores[0]) is program.owner(value)
        return assigned_value(program, stores[0]) if is_own and is_same else None
    if len(in_classes) != 1 or is_set(program, value.attr):
        return None
    owner = program.scope(in_classes[0])
    is_own = _is_of(program, value, value.value, owner)
    return assigned_value(program, in_classes[0]) if is_own else None


def _is_set_unseen(program: Program) -> bool:
    """Whether attributes of some object may be set by computed names."""
    named = (
        len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
        for call in program.calls("setattr")
    )
    return not all(named) or bool(program.attributes("__dict__", ast.Load))


def _is_of(program: Program, value: ast.Attribute, of: ast.Name, owner: ast.AST) -> bool:
    """Whether ``value`` is read from the class ``owner``, or from what ``owner()`` has made."""
    if not isinstance(owner, ast.ClassDef) or owner.decorator_list:
        return False
    if of.id == "self":
        return program.owner(value) is owner
    bindings = bindings_of(program, of)
    made = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
        is_plain = not made.args and not made.keywords
        return is_plain and bindings_of(program, made.func) == [owner]
    return bindings == [owner]


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
        same = program.attributes(value.attr, ast.Load)
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


_DEEPEST = 6


def followed(program: Program, value: ast.expr, wanted: Wanted, depth: int = _DEEPEST) -> Decided:
    """What decides ``value``.

    Raises:
        PatchRefusedError: that is not certain.
    """
    if is_literal(value):
        return program.literal(value)
    inner = _converted(value, wanted.kind)
    if inner is not None:
        return followed(program, inner, wanted, depth)
    if depth == 0:
        raise unclear(wanted, value, "it comes from too far away")
    option = option_behind(program, value, wanted.kind)
    if not isinstance(option, str):
        same = program.attributes(option.dest, ast.Load)
        others = tuple(node for node in same if node is not value)
        return replace(option.decided(program), readers=others)
    found = origins(program, value, wanted)
    if found is None:
        raise unclear(wanted, value, option)
    return one_of(program, value, found, wanted, depth - 1)


def one_of(
    program: Program,
    value: ast.expr,
    choices: Sequence[Origin],
    wanted: Wanted,
    depth: int = _DEEPEST,
) -> Decided:
    """What decides ``value``, which is one of ``choices``: the only one that the run can have had.

    Raises:
        PatchRefusedError: another one may be, or is not certain itself.
    """
    found: list[Decided] = []
    for choice in choices:
        one = followed(program, choice.value, wanted, depth)
        found.append(replace(one, readers=(*choice.readers, *one.readers)))
    places = {one.place for one in found}
    fitting = [one for one in found if len(places) == 1 or one.value == wanted.seen]
    if len({one.place for one in fitting}) != 1 or (len(places) > 1 and wanted.seen is None):
        lines = " and ".join(str(line) for line in sorted({place[0] for place in places}))
        raise unclear(wanted, value, f"it may come from line {lines}")
    readers = dict.fromkeys(reader for one in fitting for reader in one.readers)
    return replace(fitting[0], readers=tuple(readers))


def _converted(value: ast.expr, kind: type[object]) -> ast.expr | None:
    """``x`` of ``int(x)``, which keeps a whole number as it is."""
    if not isinstance(value, ast.Call) or value.keywords or len(value.args) != 1:
        return None
    return value.args[0] if ast.unparse(value.func) == kind.__name__ else None


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
