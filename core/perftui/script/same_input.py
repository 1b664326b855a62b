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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, takewhile
from pathlib import Path

from perftui.script.program import Function, program_of

DEEPEST = 12
"""Calls within calls that are followed."""

MOST = 500
"""Calls that are followed in all."""

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PLACES = (ast.Name, ast.Attribute, ast.Subscript)
_COMPUTING = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Starred, ast.keyword)
_WITHOUT_GRAPH = ("no_grad", "inference_mode")

Names = dict[str, str]
"""Variables, each with the name of its value."""


@dataclass(frozen=True)
class _Definition:
    """A function of the user, with the variables of the function around it."""

    node: Function
    file: str
    around: Names = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class _Call:
    """A call of a module, or of a method of an object of the user's own class."""

    what: str
    """The method of a class, or the object where its class is not known."""
    on: str
    given: tuple[str, ...]
    file: str = field(compare=False)
    line: int = field(compare=False)


@dataclass(frozen=True)
class _Given:
    """The arguments of a call, as names of values."""

    in_order: list[str]
    by_name: Names
    sure: int
    """Number of ``in_order`` whose position is certain: before the first ``*args``."""

    @property
    def values(self) -> tuple[str, ...]:
        """All arguments; keyword arguments as ``name=value``."""
        return (*self.in_order, *(f"{name}={item}" for name, item in sorted(self.by_name.items())))


@lru_cache(maxsize=16)
def second_calls(files: tuple[tuple[Path, int], ...]) -> tuple[tuple[str, int], ...]:
    """File and line of each call with the input of an earlier one; the first file is the script."""
    if not files:
        return ()
    trees = [(str(path), program_of(path, changed).tree) for path, changed in files]
    reader = _Reader(trees)
    path, tree = trees[0]
    try:
        reader.run(tree.body, reader.globals.setdefault(path, {}), path)
    except RecursionError:
        return ()
    return tuple(dict.fromkeys(reader.found))


class _Reader:
    """Goes through statements as Python does, each loop once, and names their values."""

    def __init__(self, trees: Iterable[tuple[str, ast.Module]]) -> None:
        self.found: list[tuple[str, int]] = []
        self.globals: dict[str, Names] = {}
        """Variables that functions see, by file."""
        self._calls: list[_Call] = []
        self._fresh = count()
        self._depth = self._followed = self._backwards = 0
        self._varied: set[str] = set()
        self._functions: dict[str, _Definition] = {}
        self._methods: dict[str, dict[str, _Definition]] = {}
        """By class and name. Classes that are defined twice are left out."""
        self._classes: Names = {}
        """Class of each value that is an object of one of the user's classes."""
        self._attributes: Names = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._define_all(trees)

    def _define_all(self, trees: Iterable[tuple[str, ast.Module]]) -> None:
        seen: set[str] = set()
        for file, node in ((file, node) for file, tree in trees for node in tree.body):
            if not isinstance(node, (Function, ast.ClassDef)):
                continue
            if node.name in seen:
                self._functions.pop(node.name, None)
                self._methods.pop(node.name, None)
            elif isinstance(node, ast.ClassDef):
                methods = (func for func in node.body if isinstance(func, ast.FunctionDef))
                plain = {func.name: _Definition(func, file) for func in methods if _is_plain(func)}
                self._methods[node.name] = plain
            elif _is_plain(node):
                self._functions[node.name] = _Definition(node, file)
            seen.add(node.name)

    def run(self, body: Sequence[ast.stmt], names: Names, file: str) -> str | None:
        """Go through ``body``; returns the value that it returns, if that is sure."""
        for at, node in enumerate(body):
            if isinstance(node, ast.Return):
                return self._value(node.value, names, file) if node.value else None
            self._statement(node, names, file)
            returns = any(isinstance(part, ast.Return) for part in ast.walk(node))
            if self._depth and returns and isinstance(node, (ast.If, ast.Try)):
                self._lose(body[at:], names)
                return None
        return None

    def _statement(self, node: ast.stmt, names: Names, file: str) -> None:
        if isinstance(node, _LOOPS):
            self._loop(node, names, file)
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            self.run(node.body, names, file)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            opened = " ".join(ast.unparse(item.context_expr) for item in node.items)
            self._lose([node], names, without=node.body)
            if any(name in opened for name in _WITHOUT_GRAPH):
                self._lose(node.body, names)
            else:
                self.run(node.body, names, file)
        elif isinstance(node, (ast.If, ast.Try, ast.Match)):
            self._lose([node], names)
        elif isinstance(node, Function):
            # A function within another sees the variables around it.
            names[node.name] = value = self._new()
            if _is_plain(node):
                self._functions[value] = _Definition(node, file, names)
        elif not isinstance(node, ast.ClassDef):
            self._line(node, names, file)

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While, names: Names, file: str) -> None:
        """Calls in a loop before its backward pass are one step; calls in any other loop have other
        input each time."""
        before, had = self._calls, self._backwards
        self._calls = []
        self._lose([loop], names)
        self.run(loop.body, names, file)
        inside, self._calls = self._calls, []
        self._lose([loop], names)
        if self._backwards == had:
            self._varied |= {call.what for call in inside}
            self._calls = before

    def _line(self, node: ast.stmt, names: Names, file: str) -> None:
        if isinstance(node, ast.Assign):
            value = self._value(node.value, names, file)
            for target in node.targets:
                self._set(target, value, names)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._set(node.target, self._value(node.value, names, file), names)
        elif isinstance(node, ast.AugAssign):
            self._value(node.value, names, file)
            self._change(self._place(node.target, names))
            self._forget(node.target, names)
        elif isinstance(node, ast.Expr):
            self._value(node.value, names, file, alone=True)

    def _new(self) -> str:
        """A value unlike any other."""
        return f"#{next(self._fresh)}"

    def _lose(
        self, body: Sequence[ast.stmt], names: Names, without: Sequence[ast.stmt] = ()
    ) -> None:
        """Forget the values of whatever ``body`` may set."""
        left_out = {node for part in without for node in ast.walk(part)}
        for node in (node for part in body for node in ast.walk(part) if node not in left_out):
            if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
                self._forget(node, names)

    def _forget(self, node: ast.AST, names: Names) -> None:
        """Forget the value that ``node`` names; what it is a part of has changed."""
        if isinstance(node, ast.Name):
            names[node.id] = self._new()
        elif isinstance(node, ast.Attribute):
            self._set(node, self._new(), names)
        elif isinstance(node, ast.Subscript):
            self._change(self._place(node.value, names))
            self._forget(node.value, names)

    def _value(self, node: ast.expr | None, names: Names, file: str, *, alone: bool = False) -> str:
        """The value of an expression; ``alone`` where nothing is done with it."""
        if isinstance(node, ast.Call):
            return self._called(node, names, file, alone=alone)
        if isinstance(node, ast.Constant):
            return repr(node.value)
        if isinstance(node, ast.Attribute) and not isinstance(node.value, _PLACES):
            return f"{self._value(node.value, names, file)}.{node.attr}"
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._read(node, names)
        if isinstance(node, ast.Subscript):
            value, index = (self._value(part, names, file) for part in (node.value, node.slice))
            return self._part(value, index)
        value = self._new()
        if isinstance(node, (ast.Tuple, ast.List)):
            self._parts[value] = tuple(self._value(part, names, file) for part in node.elts)
        elif isinstance(node, _COMPUTING):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._value(child, names, file)
        return value

    def _read(self, node: ast.AST, names: Names) -> str:
        place = self._place(node, names)
        return self._attributes.get(place, place)

    def _place(self, node: ast.AST, names: Names) -> str:
        """The variable, or the attribute of a value."""
        if isinstance(node, ast.Name):
            return names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self._read(node.value, names)}.{node.attr}"
        if isinstance(node, ast.Subscript):
            value = self._read(node.value, names)
            is_known = isinstance(node.slice, ast.Constant)
            return self._part(value, repr(node.slice.value) if is_known else self._new())  # type: ignore[attr-defined] # a constant
        return self._new()

    def _part(self, value: str, index: str) -> str:
        parts = self._parts.get(value, ())
        return (
            parts[int(index)]
            if index.isdigit() and int(index) < len(parts)
            else f"{value}[{index}]"
        )

    def _set(self, target: ast.expr, value: str, names: Names) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = self._parts.get(value)
            if parts is None or len(parts) != len(target.elts):
                parts = tuple(f"{value}[{at}]" for at in range(len(target.elts)))
            for node, part in zip(target.elts, parts, strict=True):
                self._set(node, part, names)
        elif isinstance(target, ast.Attribute):
            place = self._place(target, names)
            self._change(place)
            self._attributes[place] = value
        else:
            self._forget(target, names)

    def _change(self, value: str) -> None:
        """Drop the calls with ``value`` or a part of it: they were made with another one."""
        root = _root(value)
        self._calls = [one for one in self._calls if root not in map(_root, (one.on, *one.given))]

    def _called(self, node: ast.Call, names: Names, file: str, *, alone: bool) -> str:
        called = self._value(node.func, names, file)
        args = _Given(
            [self._value(arg, names, file) for arg in node.args],
            {kw.arg: self._value(kw.value, names, file) for kw in node.keywords if kw.arg},
            len(list(takewhile(lambda arg: not isinstance(arg, ast.Starred), node.args))),
        )
        on, _, method = called.rpartition(".")
        if method == "backward":
            self._backward()
        elif method == "step":
            self._calls = []
        result = self._own(called, args) or self._module(called, args, node, file)
        if result is None and (alone or method.endswith("_")):
            # A call made for its effect may change its object and its arguments.
            for value in (on or called, *args.values):
                self._change(value)
        return result or self._new()

    def _own(self, called: str, args: _Given) -> str | None:
        """The result of a class or function of the user; None if it is neither."""
        name = called if called.startswith("#") else called.rpartition(".")[2]
        if name in self._methods:
            value = self._new()
            self._classes[value] = name
            if init := self._methods[name].get("__init__"):
                self._enter(init, args, value)
            return value
        function = self._functions.get(name)
        return None if function is None else self._enter(function, args) or self._new()

    def _module(self, called: str, args: _Given, node: ast.Call, file: str) -> str | None:
        """Note the call of a module or a method; its result where its source is known."""
        on, _, method = called.rpartition(".")
        if called in self._classes:
            on, method = called, "forward"
        kind = self._classes.get(on, "")
        function = self._methods.get(kind, {}).get(method)
        what = f"{kind}.{method}" if function else called
        is_module = called.startswith("#") and (kind or "." not in called)
        if (function or is_module) and any("#" in value for value in args.values):
            on_what = on if function else called
            self._calls.append(_Call(what, on_what, args.values, file, node.lineno))
        return self._enter(function, args, on) or self._new() if function else None

    def _enter(self, function: _Definition, args: _Given, *owner: str) -> str | None:
        """Follow a call into a function whose parameters have the values that it is given."""
        if self._depth >= DEEPEST or self._followed >= MOST:
            return None
        arguments = function.node.args
        names = [node.arg for node in (*arguments.posonlyargs, *arguments.args)]
        everything = [*names, *(node.arg for node in arguments.kwonlyargs)]
        more = [node.arg for node in (arguments.vararg, arguments.kwarg) if node is not None]
        bound = {**self.globals.get(function.file, {}), **function.around}
        bound.update((name, self._new()) for name in (*everything, *more))
        bound.update(zip(names, (*owner, *args.in_order[: args.sure]), strict=False))
        bound.update((name, value) for name, value in args.by_name.items() if name in everything)
        self._depth, self._followed = self._depth + 1, self._followed + 1
        try:
            return self.run(function.node.body, bound, function.file)
        finally:
            self._depth -= 1

    def _backward(self) -> None:
        """Report a call made twice until here: the outermost, where calls are nested."""
        self._backwards += 1
        calls, self._calls = self._calls, []
        inputs: dict[str, set[tuple[str, ...]]] = {}
        for call in calls:
            inputs.setdefault(call.what, set()).add((call.on, *call.given))
        seen: set[_Call] = set()
        for call in calls:
            if call in seen and len(inputs[call.what]) == 1 and call.what not in self._varied:
                self.found.append((call.file, call.line))
                return
            seen.add(call)
        self._varied = set()


def _root(value: str) -> str:
    """The object that ``value`` is an attribute or part of, or ``value`` itself."""
    return re.split(r"[.\[]", value.rpartition("=")[2], maxsplit=1)[0]


def _is_plain(node: Function) -> bool:
    """Whether a call does what its text says: neither a generator nor wrapped."""
    yields = (isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))
    return not node.decorator_list and not any(yields)
