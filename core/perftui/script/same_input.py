"""Finds in the user's own source what a step calls twice with the same input, by following values.

The script is read from its first line on, into its own functions and methods, and each value gets
a name: what a call returns a new one, what is only handed on keeps its own. Two calls of the same
object with values of the same names, before one backward pass, are the same call. Whatever the
text alone does not show (branches, what loops do, results of other people's code) gets new names,
so that nothing is taken to be the same that may differ.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, takewhile
from pathlib import Path

from perftui.script.program import tree_of


@dataclass(frozen=True)
class Definition:
    """A function of the user's own, with what the names around it are."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    around: dict[str, str] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class Definitions:
    """Functions and the methods of classes, by name; those of names given twice are left out."""

    functions: dict[str, Definition]
    classes: dict[str, dict[str, Definition]]


def definitions(trees: Iterable[tuple[str, ast.AST]]) -> Definitions:
    """What is defined at the top of these files."""
    functions: dict[str, list[Definition]] = {}
    classes: dict[str, list[dict[str, Definition]]] = {}
    for file, tree in trees:
        for node in getattr(tree, "body", []):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions.setdefault(node.name, []).append(Definition(node, file))
            elif isinstance(node, ast.ClassDef):
                methods = (one for one in node.body if isinstance(one, ast.FunctionDef))
                plain = {one.name: Definition(one, file) for one in methods if is_plain(one)}
                classes.setdefault(node.name, []).append(plain)
    return Definitions(
        {
            name: one[0]
            for name, one in functions.items()
            if len(one) == 1 and is_plain(one[0].node)
        },
        {name: one[0] for name, one in classes.items() if len(one) == 1},
    )


def is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a call does what its text says: neither a generator nor wrapped."""
    yields = (isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))
    return not node.decorator_list and not any(yields)


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


DEEPEST = 12
"""Calls within calls that are followed."""

MOST = 500
"""Calls that are followed in all."""

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHOUT_GRAPH = ("no_grad", "inference_mode")


@lru_cache(maxsize=16)
def second_calls(files: tuple[tuple[Path, int], ...]) -> tuple[tuple[str, int], ...]:
    """File and line of each such call; of ``files`` the first is the script."""
    if not files:
        return ()
    trees = [(str(path), tree_of(path, changed)) for path, changed in files]
    reader = _Reader(Values(definitions(trees)))
    path, tree = trees[0]
    try:
        reader.run(getattr(tree, "body", []), reader.globals_of(path), path)
    except RecursionError:
        return ()
    return tuple(dict.fromkeys(reader.found))


class _Reader:
    """Goes through statements as Python does, each loop once."""

    def __init__(self, values: Values) -> None:
        self.found: list[tuple[str, int]] = []
        self._values = values
        self._values.follow = self._follow
        self._values.backward = self._backward
        self._depth = self._followed = self._backwards = 0
        self._varied: set[str] = set()

    def globals_of(self, file: str) -> dict[str, str]:
        """The variables of the module that ``file`` is."""
        return self._values.globals.setdefault(file, {})

    def run(self, body: Sequence[ast.stmt], names: dict[str, str], file: str) -> str | None:
        """Go through ``body``; returns the value that it returns, if that is sure."""
        for at, node in enumerate(body):
            if isinstance(node, ast.Return):
                return self._values.of(node.value, names, file) if node.value else None
            self._statement(node, names, file)
            if not isinstance(node, _LOOPS) and _returns(node) and self._depth:
                self._lose(body[at:], names)
                return None
        return None

    def _statement(self, node: ast.stmt, names: dict[str, str], file: str) -> None:
        if isinstance(node, _LOOPS):
            self._loop(node, names, file)
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            self.run(node.body, names, file)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            opened = " ".join(ast.unparse(one.context_expr) for one in node.items)
            self._lose([node], names, without=node.body)
            if any(name in opened for name in _WITHOUT_GRAPH):
                self._lose(node.body, names)
            else:
                self.run(node.body, names, file)
        elif isinstance(node, (ast.If, ast.Try, ast.Match)):
            self._lose([node], names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._values.define(node, names, file)
        elif not isinstance(node, ast.ClassDef):
            self._values.take(node, names, file)

    def _loop(self, loop: ast.stmt, names: dict[str, str], file: str) -> None:
        """What a loop with a backward pass calls before that is one step; what another calls is
        called with other input each time."""
        before, had = self._values.calls, self._backwards
        self._values.calls = []
        self._lose([loop], names)
        self.run(getattr(loop, "body", []), names, file)
        inside = self._values.calls
        self._lose([loop], names)
        if self._backwards > had:
            self._values.calls = []
            return
        self._varied |= {call.what for call in inside}
        self._values.calls = before

    def _lose(
        self, body: Sequence[ast.stmt], names: dict[str, str], without: Sequence[ast.stmt] = ()
    ) -> None:
        """Whatever ``body`` may set has a value that is not known."""
        left_out = {id(node) for one in without for node in ast.walk(one)}
        for one in body:
            for node in ast.walk(one):
                if id(node) not in left_out and isinstance(
                    getattr(node, "ctx", None), (ast.Store, ast.Del)
                ):
                    self._values.lose(node, names)

    def _follow(self, known: Definition, names: dict[str, str]) -> str | None:
        """Go into a function whose parameters have those values."""
        if self._depth >= DEEPEST or self._followed >= MOST:
            return None
        self._depth, self._followed = self._depth + 1, self._followed + 1
        try:
            return self.run(known.node.body, names, known.file)
        finally:
            self._depth -= 1

    def _backward(self) -> None:
        """What was called twice until here is reported, the outermost of nested calls."""
        self._backwards += 1
        calls, self._values.calls = self._values.calls, []
        inputs: dict[str, set[tuple[str, ...]]] = {}
        for call in calls:
            inputs.setdefault(call.what, set()).add((call.on, *call.given))
        seen: set[Call] = set()
        for call in calls:
            again = call in seen and len(inputs[call.what]) == 1 and call.what not in self._varied
            if again:
                self.found.append((call.file, call.line))
                return
            seen.add(call)
        self._varied = set()


def _returns(node: ast.stmt) -> bool:
    return isinstance(node, (ast.If, ast.Try)) and any(
        isinstance(one, ast.Return) for one in ast.walk(node)
    )
