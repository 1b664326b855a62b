"""Finds in the user's own source what a step calls twice with the same input, by following values.

The script is read from its first line on, into its own functions and methods, and each value gets
a name: what a call returns a new one, what is only handed on keeps its own. Two calls of the same
object with values of the same names, before one backward pass, are the same call. Whatever the
text alone does not show (branches, what loops do, results of other people's code) gets new names,
so that nothing is taken to be the same that may differ.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.source.definitions import Definition, definitions
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_calls import only_line
from perftui.facts.source.source_search import own_files, tree_of
from perftui.facts.source.values import Call, Values

DEEPEST = 12
"""Calls within calls that are followed."""

MOST = 500
"""Calls that are followed in all."""

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHOUT_GRAPH = ("no_grad", "inference_mode")


def same_call(facts: Facts) -> LineShare | None:
    """The second of two calls of a module, or of a method of one, that a step makes with the same
    input before one backward pass; None where there is none, or the same is also called with other
    input: two views of a batch through one encoder are no repetition."""
    return only_line(set(_second_calls(own_files(facts))))


@lru_cache(maxsize=16)
def _second_calls(files: tuple[tuple[Path, int], ...]) -> tuple[tuple[str, int], ...]:
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
