"""Names for the values of a script: two expressions of one name have the same value."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, takewhile

from perftui.facts.source.definitions import Definition, Definitions, is_plain

_PLACES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(frozen=True)
class Call:
    """A call of a module, or of a method of an object of the user's own class."""

    what: str
    """The method of a class, or the object where its class is not known."""
    on: str
    given: tuple[str, ...]
    file: str = field(compare=False)
    line: int = field(compare=False)


@dataclass(frozen=True)
class _Given:
    """The arguments of a call, as text."""

    in_order: list[str]
    by_name: dict[str, str]
    sure: int
    """How many of ``in_order`` have that place: those before the first ``*args``."""

    @property
    def values(self) -> tuple[str, ...]:
        """All arguments; keyword arguments as ``name=value``."""
        return (*self.in_order, *(f"{name}={one}" for name, one in sorted(self.by_name.items())))

    def to(self, owner: str) -> _Given:
        """These arguments with ``owner`` put first, as for a call of one of its methods."""
        return _Given([owner, *self.in_order], self.by_name, self.sure + 1)


class Values:
    """The names of all values, and the calls so far."""

    def __init__(self, known: Definitions) -> None:
        self.calls: list[Call] = []
        self.globals: dict[str, dict[str, str]] = {}
        """By file the variables that its functions see."""
        self.follow: Callable[[Definition, dict[str, str]], str | None] = lambda *_: None
        self.backward: Callable[[], None] = lambda: None
        self._known = known
        self._fresh = count()
        self._classes: dict[str, str] = {}
        self._attributes: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._local: dict[str, Definition] = {}

    def new(self) -> str:
        """A value that is like no other."""
        return f"#{next(self._fresh)}"

    def define(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, str], file: str
    ) -> None:
        """A function within another knows what is around it."""
        names[node.name] = value = self.new()
        if is_plain(node):
            self._local[value] = Definition(node, file, names)

    def take(self, node: ast.stmt, names: dict[str, str], file: str) -> None:
        """A statement of one line."""
        if isinstance(node, ast.Assign):
            value = self.of(node.value, names, file)
            for target in node.targets:
                self._set(target, value, names)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._set(node.target, self.of(node.value, names, file), names)
        elif isinstance(node, ast.AugAssign):
            self.of(node.value, names, file)
            self._change(self._place(node.target, names))
            self.lose(node.target, names)
        elif isinstance(node, ast.Expr):
            self.of(node.value, names, file, alone=True)

    def lose(self, node: ast.AST, names: dict[str, str]) -> None:
        """What ``node`` names has a value that is not known; what it is a part of has changed."""
        if isinstance(node, ast.Name):
            names[node.id] = self.new()
        elif isinstance(node, ast.Attribute):
            place = self._place(node, names)
            self._change(place)
            self._attributes[place] = self.new()
        elif isinstance(node, ast.Subscript):
            self._change(self._place(node.value, names))
            self.lose(node.value, names)

    def of(
        self, node: ast.expr | None, names: dict[str, str], file: str, *, alone: bool = False
    ) -> str:
        """The value of an expression; ``alone`` where nothing is done with it."""
        if isinstance(node, ast.Call):
            return self._call(node, names, file, alone=alone)
        if isinstance(node, ast.Constant):
            return repr(node.value)
        if isinstance(node, (ast.Name, ast.Attribute)):
            if isinstance(node, ast.Attribute) and not isinstance(node.value, _PLACES):
                return f"{self.of(node.value, names, file)}.{node.attr}"
            place = self._place(node, names)
            return self._attributes.get(place, place)
        if isinstance(node, ast.Subscript):
            return self._part(self.of(node.value, names, file), self.of(node.slice, names, file))
        if isinstance(node, (ast.Tuple, ast.List)):
            value = self.new()
            self._parts[value] = tuple(self.of(one, names, file) for one in node.elts)
            return value
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Starred, ast.keyword)):
            for one in ast.iter_child_nodes(node):
                if isinstance(one, ast.expr):
                    self.of(one, names, file)
        return self.new()

    def _place(self, node: ast.AST, names: dict[str, str]) -> str:
        """The variable, or the attribute of a value."""
        if isinstance(node, ast.Name):
            return names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            place = self._place(node.value, names)
            return f"{self._attributes.get(place, place)}.{node.attr}"
        if isinstance(node, ast.Subscript):
            place = self._place(node.value, names)
            index = repr(node.slice.value) if isinstance(node.slice, ast.Constant) else self.new()
            return self._part(self._attributes.get(place, place), index)
        return self.new()

    def _part(self, value: str, index: str) -> str:
        parts = self._parts.get(value)
        if parts is not None and index.isdigit() and int(index) < len(parts):
            return parts[int(index)]
        return f"{value}[{index}]"

    def _set(self, target: ast.expr, value: str, names: dict[str, str]) -> None:
        parts = self._parts.get(value)
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if parts is None or len(parts) != len(target.elts):
                parts = tuple(f"{value}[{at}]" for at in range(len(target.elts)))
            for one, part in zip(target.elts, parts, strict=True):
                self._set(one, part, names)
        elif isinstance(target, ast.Attribute):
            place = self._place(target, names)
            self._change(place)
            self._attributes[place] = value
        else:
            self.lose(target, names)

    def _change(self, value: str) -> None:
        """What was called with ``value``, or a part of it, was called with another one."""
        self.calls = [
            call
            for call in self.calls
            if _root(value) not in (_root(one) for one in (call.on, *call.given))
        ]

    def _call(self, node: ast.Call, names: dict[str, str], file: str, *, alone: bool) -> str:
        called = self.of(node.func, names, file)
        given = _Given(
            [self.of(one, names, file) for one in node.args],
            {one.arg: self.of(one.value, names, file) for one in node.keywords if one.arg},
            len(list(takewhile(lambda one: not isinstance(one, ast.Starred), node.args))),
        )
        on, _, method = called.rpartition(".")
        if method == "backward":
            self.backward()
        elif method == "step":
            self.calls = []
        found = self._own(called, given) or self._module(called, given, node, file)
        if found is None and (alone or method.endswith("_")):
            # Whatever is done for its effect may change what it is done to.
            for value in (on or called, *given.values):
                self._change(value)
        return found or self.new()

    def _own(self, called: str, given: _Given) -> str | None:
        """What a class or a function of the user's own returns; None where it is none."""
        name = called if called.startswith("#") else called.rpartition(".")[2]
        if name in self._known.classes:
            value = self.new()
            self._classes[value] = name
            made = self._known.classes[name].get("__init__")
            if made is not None:
                self._enter(made, given.to(value))
            return value
        known = self._local.get(called) or self._known.functions.get(name)
        return None if known is None else self._enter(known, given) or self.new()

    def _module(self, called: str, given: _Given, node: ast.Call, file: str) -> str | None:
        """Note the call of a module or a method; returns what it does where its text is known."""
        on, _, method = called.rpartition(".")
        if called in self._classes:
            on, method = called, "forward"
        kind = self._classes.get(on)
        known = self._known.classes.get(kind, {}).get(method) if kind else None
        if known is not None:
            self._note(Call(f"{kind}.{method}", on, given.values, file, node.lineno))
            return self._enter(known, given.to(on)) or self.new()
        if called.startswith("#") and (kind or "." not in called):
            self._note(Call(called, called, given.values, file, node.lineno))
        return None

    def _note(self, call: Call) -> None:
        """Keep a call that has an input."""
        if any("#" in value for value in call.given):
            self.calls.append(call)

    def _enter(self, known: Definition, given: _Given) -> str | None:
        """Follow a call: its parameters have the values that it is given."""
        arguments = known.node.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        everything = [*names, *(one.arg for one in arguments.kwonlyargs)]
        more = [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
        bound = {**self.globals.get(known.file, {}), **known.around}
        bound.update((name, self.new()) for name in (*everything, *more))
        bound.update(zip(names, given.in_order[: given.sure], strict=False))
        bound.update((name, value) for name, value in given.by_name.items() if name in everything)
        return self.follow(known, bound)


def _root(value: str) -> str:
    """What ``value`` is an attribute or a part of, or itself."""
    return re.split(r"[.\[]", value.rpartition("=")[2], maxsplit=1)[0]
