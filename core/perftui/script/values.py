"""Follows a value to the literal or the option that decides it, or until it is surely a number.

Through variables, parameters, attributes and dicts. If the source leaves several, the run's value
decides."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perftui.script.command_line import declared_options, is_set, option_behind
from perftui.script.names import (
    bindings_of,
    calls_of,
    default_of,
    function_of,
    given_for,
    is_only_read,
    may_be_replaced,
    qualified_name,
    readers_of,
    values_given,
)
from perftui.script.program import (
    Decided,
    Literal,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    is_literal,
    receiver,
    value_given,
)
from perftui.script.templates import own_stores

_DEEPEST = 6


@dataclass(frozen=True)
class Origin:
    """One expression that may give the value, and what else reads it there."""

    value: ast.expr
    readers: tuple[ast.expr, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """An argument of a call, whose value is followed."""

    program: Program
    name: str
    """The argument, for a person."""
    kind: type[object]
    seen: Literal = None
    """Its value in the run; None where that is not known."""

    def followed(self, value: ast.expr, depth: int = _DEEPEST) -> Decided:
        """What decides ``value``; refused where that is not certain."""
        if is_literal(value):
            return self.program.literal(value)
        inner = _converted(value, self.kind)
        if inner is not None:
            return self.followed(inner, depth)
        if depth == 0:
            raise self._unclear(value, "it comes from too far away")
        option = option_behind(self.program, value, self.kind)
        if not isinstance(option, str):
            same = self.program.attributes(option.dest, ast.Load)
            return replace(option.decided(self.program), readers=_without(same, value))
        origins = self._origins(value)
        if origins is None:
            raise self._unclear(value, option)
        return self._one_of(value, origins, depth - 1)

    def from_dict(self, unpacked: ast.expr, default: Literal) -> Decided | None:
        """What decides the argument in ``**unpacked``; None where that certainly has no such key,
        and the ``default`` of the call holds; refused where that is not certain."""
        unknown = self._may_come_from(unpacked)
        entries = [self._entry(display, unknown) for display in self._displays(unpacked)]
        values = [entry for entry in entries if entry is not None]
        if not values:
            return None
        if len(entries) > 1:
            # If the key is missing the default holds; the run must not have had it.
            if self.seen is None or (len(values) < len(entries) and self.seen == default):
                raise unknown
            values = [value for value in values if self.followed(value).value == self.seen]
            if len(values) != 1:
                raise unknown
        readers = tuple(self._unpacking(unpacked)) if isinstance(unpacked, ast.Name) else ()
        return self._one_of(values[0], [Origin(values[0], readers)])

    def _unclear(self, value: ast.expr, why: str) -> PatchRefusedError:
        return PatchRefusedError(f"{self.name}={ast.unparse(value)}: {why}")

    def _may_come_from(self, unpacked: ast.expr) -> PatchRefusedError:
        return PatchRefusedError(f"{self.name} may come from **{ast.unparse(unpacked)}")

    def _one_of(self, value: ast.expr, choices: Sequence[Origin], depth: int = _DEEPEST) -> Decided:
        """What decides ``value``, which is one of ``choices``: the only one that the run can have
        had."""
        results: list[Decided] = []
        for choice in choices:
            result = self.followed(choice.value, depth)
            results.append(replace(result, readers=(*choice.readers, *result.readers)))
        places = {result.place for result in results}
        fitting = [result for result in results if len(places) == 1 or result.value == self.seen]
        if len({fit.place for fit in fitting}) != 1 or (len(places) > 1 and self.seen is None):
            lines = " and ".join(str(line) for line in sorted({place[0] for place in places}))
            raise self._unclear(value, f"it may come from line {lines}")
        readers = dict.fromkeys(reader for result in fitting for reader in result.readers)
        return replace(fitting[0], readers=tuple(readers))

    def _origins(self, value: ast.expr) -> tuple[Origin, ...] | None:
        """All that may give ``value`` in this file, one step back; None where it is computed."""
        if isinstance(value, ast.Name):
            return self._of_variable(value)
        if isinstance(value, ast.Attribute):
            stored = _set_once(self.program, value)
            same = self.program.attributes(value.attr, ast.Load)
            return (Origin(stored, _without(same, value)),) if stored else None
        if isinstance(value, ast.Subscript):
            return self._of_item(value)
        if isinstance(value, ast.IfExp):
            return Origin(value.body), Origin(value.orelse)
        return None

    def _of_variable(self, value: ast.Name) -> tuple[Origin, ...]:
        bindings = bindings_of(self.program, value)
        unknown = self._unclear(value, f"not certain where {value.id} gets its value")
        if len(bindings) > 1:
            raise self._unclear(value, f"{value.id} is set {len(bindings)} times")
        if not bindings:
            raise unknown
        if may_be_replaced(self.program, bindings[0]):
            raise self._unclear(value, f"exec, globals or an import may set {value.id}")
        others = _without(readers_of(self.program, value), value)
        if not isinstance(bindings[0], ast.arg):
            source = assigned_value(self.program, bindings[0])
            if source is None:
                raise unknown
            return (Origin(source, others),)
        function = function_of(self.program, bindings[0])
        calls = calls_of(self.program, function) if function else None
        if function is None or calls is None:
            raise unknown
        if not calls:
            why = f"{function.name}() is called in another file: give it there"
            raise self._unclear(value, why)
        origins: list[Origin] = []
        for call in calls:
            source = given_for(self.program, call, function, bindings[0].arg)
            if source is None:
                raise unknown
            # Each call that passes nothing gets the new default.
            defaults = (*function.args.defaults, *function.args.kw_defaults)
            sharing = _without(calls, call) if source in defaults else ()
            origins.append(Origin(source, (*others, *sharing)))
        return tuple(origins)

    def _of_item(self, value: ast.Subscript) -> tuple[Origin, ...] | None:
        """The entry of a dict that is written once, and as far as the file shows never changed."""
        key = value.slice.value if isinstance(value.slice, ast.Constant) else None
        if not isinstance(value.value, ast.Name) or not isinstance(key, str):
            return None
        bindings = bindings_of(self.program, value.value)
        if len(bindings) != 1 or may_be_replaced(self.program, bindings[0]):
            return None
        entries = _entries(assigned_value(self.program, bindings[0])) or ()
        matches = [entry for name, entry in entries if name == key]
        loads = readers_of(self.program, value.value)
        if len(matches) != 1 or any(self._may_set(load, key) for load in loads):
            return None
        items = (self.program.parents[load] for load in loads)
        same = [item for item in items if isinstance(item, ast.Subscript)]
        text = ast.unparse(value.slice)
        alike = [item for item in same if ast.unparse(item.slice) == text]
        return (Origin(matches[0], _without(alike, value)),)

    def _may_set(self, load: ast.Name, key: str) -> bool:
        """Whether ``load`` of a dict may set ``key``. A call that was given the dict did not, where
        the run still had the value that was written."""
        above = self.program.parents[load]
        if isinstance(above, ast.Subscript) and above.value is load:
            is_other = isinstance(above.slice, ast.Constant) and above.slice.value != key
            return not isinstance(above.ctx, ast.Load) and not is_other
        if isinstance(above, ast.Call) and load in above.args and self.seen is not None:
            return False
        return not is_only_read(self.program, load)

    def _displays(self, unpacked: ast.expr) -> Iterator[ast.expr]:
        """The dicts that may give ``unpacked`` an entry: what it is set to and updated by, and the
        values of single entries."""
        if isinstance(unpacked, ast.IfExp):
            yield unpacked.body
            yield unpacked.orelse
            return
        if not isinstance(unpacked, ast.Name):
            yield unpacked
            return
        bindings = bindings_of(self.program, unpacked)
        if not bindings or any(may_be_replaced(self.program, node) for node in bindings):
            raise self._may_come_from(unpacked)
        for binding in bindings:
            value = assigned_value(self.program, binding)
            if value is None:
                raise self._may_come_from(unpacked)
            yield from self._displays(value) if isinstance(value, ast.IfExp) else (value,)
        for load in readers_of(self.program, unpacked):
            added = _update_of(self.program, load)
            if added is not None:
                yield from self._displays(added)
            elif not _call_unpacking(self.program, load) and not is_only_read(self.program, load):
                raise self._may_come_from(unpacked)

    def _entry(self, display: ast.expr, unknown: PatchRefusedError) -> ast.expr | None:
        entries = _entries(display)
        if entries is None:
            raise unknown
        values = [value for key, value in entries if key == self.name]
        if len(values) > 1:
            raise PatchRefusedError(f"{self.name} is set twice")
        return values[0] if values else None

    def _unpacking(self, name: ast.Name) -> Iterator[ast.expr]:
        """Other calls that unpack ``name``, or a dict that is updated by the same."""
        for load in readers_of(self.program, name):
            if load is not name:
                yield from _call_unpacking(self.program, load)
            added = _update_of(self.program, load)
            for other in readers_of(self.program, added) if isinstance(added, ast.Name) else ():
                call = self.program.parents[other]
                dict_ = receiver(call) if isinstance(call, ast.Call) else None
                uses = readers_of(self.program, dict_) if isinstance(dict_, ast.Name) else []
                for use in uses if name not in uses else ():
                    yield from _call_unpacking(self.program, use)


def _without(nodes: Sequence[ast.expr], value: ast.expr) -> tuple[ast.expr, ...]:
    return tuple(node for node in nodes if node is not value)


def _converted(value: ast.expr, kind: type[object]) -> ast.expr | None:
    """``x`` of ``int(x)``, which keeps a whole number as it is."""
    if not isinstance(value, ast.Call) or value.keywords or len(value.args) != 1:
        return None
    return value.args[0] if ast.unparse(value.func) == kind.__name__ else None


def _set_once(program: Program, value: ast.Attribute) -> ast.expr | None:
    """What the file sets the attribute ``value`` to: once, by ``self.x = ...`` in a method or by
    ``x = ...`` in the body of its class; None where that is not certain."""
    # Attributes of some object may be set by computed names.
    constant = (
        len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
        for call in program.calls("setattr")
    )
    is_seen = all(constant) and not program.attributes("__dict__", ast.Load)
    if not isinstance(value.value, ast.Name) or not is_seen:
        return None
    stores = program.attributes(value.attr, ast.Store)
    bindings = program.bindings(value.attr)
    in_classes = [node for node in bindings if isinstance(program.scope(node), ast.ClassDef)]
    if value.value.id == "self" and len(stores) == 1 and not in_classes:
        is_own = ast.unparse(stores[0].value) == "self"
        is_same = program.owner(stores[0]) is program.owner(value)
        return assigned_value(program, stores[0]) if is_own and is_same else None
    if len(in_classes) != 1 or is_set(program, value.attr):
        return None
    is_own = _is_of(program, value, value.value, program.scope(in_classes[0]))
    return assigned_value(program, in_classes[0]) if is_own else None


def _is_of(program: Program, value: ast.Attribute, of: ast.Name, owner: ast.AST) -> bool:
    """Whether ``value`` is read from the class ``owner``, or from what ``owner()`` has made."""
    if not isinstance(owner, ast.ClassDef) or owner.decorator_list:
        return False
    if of.id == "self":
        return program.owner(value) is owner
    bindings = bindings_of(program, of)
    source = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
        is_plain = not source.args and not source.keywords
        return is_plain and bindings_of(program, source.func) == [owner]
    return bindings == [owner]


def _entries(value: ast.expr | None) -> list[tuple[str, ast.expr]] | None:
    """Entries of a dict display or a ``dict(...)`` call whose keys are all written out."""
    if isinstance(value, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        pairs = list(zip(keys, value.values, strict=True))
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "dict" and not value.args:
        pairs = [(keyword.arg, keyword.value) for keyword in value.keywords]
    else:
        return None
    result = [(key, entry) for key, entry in pairs if isinstance(key, str)]
    return result if len(result) == len(pairs) else None


def _update_of(program: Program, load: ast.Name) -> ast.expr | None:
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


def _call_unpacking(program: Program, load: ast.Name) -> list[ast.expr]:
    """The call that ``load`` is unpacked for, by ``**``; none where it is not."""
    above = program.parents[load]
    call = program.parents[above]
    is_it = isinstance(above, ast.keyword) and above.arg is None and isinstance(call, ast.Call)
    return [call] if is_it and isinstance(call, ast.Call) else []


_OF_NUMBERS = ("min", "max", "pow", "abs", "round")
_NUMERIC = frozenset({"int", "float"})
_MOST_NAMES = 6
"""Names that one number is followed through."""


def is_number(program: Program, node: ast.expr | None, depth: int = _MOST_NAMES) -> bool:
    """Whether ``node`` is certain to be an ``int`` or ``float``: a literal, a size, arithmetic of
    such, or a name, an attribute or an option of the command line that is given nothing else."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(program, node.operand, depth)
    if isinstance(node, ast.BinOp):
        # Floor division is of sizes: nobody divides a tensor so and takes a root of it.
        is_whole = isinstance(node.op, ast.FloorDiv)
        both = (node.left, node.right)
        return is_whole or all(is_number(program, side, depth) for side in both)
    if isinstance(node, ast.Call):
        name = called_name(node)
        if isinstance(node.func, ast.Name) and not program.bindings(name):
            return name in ("float", "int", "len") or (
                name in _OF_NUMBERS and all(is_number(program, arg, depth) for arg in node.args)
            )
        qualified = qualified_name(program, node.func) or ""
        return (
            qualified.startswith("math.")
            or qualified == "numpy.sqrt"
            or (name == "size" and len(node.args) == 1)
        )
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    bound: Sequence[ast.AST] = ()
    if isinstance(node, ast.Name) and depth > 0:
        bound = bindings_of(program, node)
    elif isinstance(node, ast.Attribute) and depth > 0:
        bound = _bindings_of_attribute(program, node)
        if not bound:
            options = declared_options(program)
            kinds = {option.kind for option in options if option.dest == node.attr}
            return bool(kinds) and kinds <= {int, float}
    return bool(bound) and all(_binds_number(program, node, depth - 1) for node in bound)


def _binds_number(program: Program, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        return _is_numeric_parameter(program, binding, depth)
    above = program.parents[binding]
    if isinstance(above, ast.AugAssign):
        return is_number(program, above.value, depth)
    if isinstance(above, ast.AnnAssign) and isinstance(program.scope(above), ast.ClassDef):
        # A field, such as of options that are read into a dataclass.
        return ast.unparse(above.annotation) in _NUMERIC
    loop = program.parents[above] if isinstance(above, ast.Tuple) else above
    if isinstance(loop, ast.For):
        called = called_name(loop.iter) if isinstance(loop.iter, ast.Call) else ""
        is_first = isinstance(above, ast.Tuple) and above.elts[0] is binding
        return called == "enumerate" if is_first else called in ("range", "trange")
    sizes = assigned_value(program, above)
    if sizes is not None and ast.unparse(sizes).endswith((".shape", ".size()")):
        return True
    return is_number(program, value_given(program, binding), depth)


def _is_numeric_parameter(program: Program, parameter: ast.arg, depth: int) -> bool:
    """By annotation, default, all calls of the file, or use as a size of a layer of torch."""
    if parameter.annotation is not None:
        return ast.unparse(parameter.annotation) in _NUMERIC
    function = function_of(program, parameter)
    if function is None:
        return False
    if is_number(program, default_of(function, parameter.arg), depth):
        return True
    sizes = (
        arg
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and called_name(call)[:1].isupper()
        and (qualified_name(program, call.func) or "").startswith("torch.nn.")
        for arg in call.args
    )
    if any(isinstance(arg, ast.Name) and arg.id == parameter.arg for arg in sizes):
        return True
    passed = values_given(program, parameter)
    return bool(passed) and all(is_number(program, value, depth) for value in passed)


def _bindings_of_attribute(program: Program, node: ast.Attribute) -> Sequence[ast.AST]:
    """Stores of ``self.x`` in its class if there is one, else all of that name, else fields of the
    file's classes."""
    own = own_stores(program, node) if ast.unparse(node.value) == "self" else []
    if len(own) == 1:
        return own
    fields = (
        n for n in program.bindings(node.attr) if isinstance(program.parents[n], ast.AnnAssign)
    )
    in_classes = [field for field in fields if isinstance(program.scope(field), ast.ClassDef)]
    return program.attributes(node.attr, ast.Store) or in_classes
