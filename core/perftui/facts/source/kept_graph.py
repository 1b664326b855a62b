"""Finds in the user's own source the line that takes a result, with its graph, into later steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_calls import called, only_line
from perftui.facts.source.source_search import own_files
from perftui.script.program import tree_of

_OF_TORCH = {"detach", "item", "tolist", "numpy", "no_grad", "zeros", "zeros_like"}
_WITHOUT_GRAPH = _OF_TORCH | {"float", "int", "len", "str", "format"}
"""Calls whose result has no graph."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KEEPERS = frozenset({"append", "appendleft", "add", "extend"})


def line_that_keeps_graph(facts: Facts) -> LineShare | None:
    """The only line of the loop that runs backward, or of a module, that makes a variable from
    itself, or appends what the loop has computed, and detaches nothing; None where there are
    several or none."""
    found = {
        (str(path), line) for path, changed in own_files(facts) for line in _lines(path, changed)
    }
    return only_line(found)


@lru_cache(maxsize=64)
def _lines(path: Path, changed: int) -> tuple[int, ...]:
    found: list[int] = []
    for node in ast.walk(tree_of(path, changed)):
        if isinstance(node, (ast.For, ast.While)) and _runs_backward(node):
            found += _carried(node)
        elif isinstance(node, _FUNCTIONS) and not node.name.startswith("__"):
            found += [each.lineno for each in _assignments(node) if _is_state(each)]
    return tuple(found)


def _runs_backward(loop: ast.For | ast.While) -> bool:
    """Whether that is the innermost loop around a backward pass."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    inner = (node for node in inside if isinstance(node, (ast.For, ast.While)))
    return _calls_backward(inside) and not any(
        _calls_backward(list(ast.walk(one))) for one in inner
    )


def _calls_backward(nodes: list[ast.AST]) -> bool:
    return any(isinstance(node, ast.Call) and called(node) == "backward" for node in nodes)


def _carried(loop: ast.For | ast.While) -> Iterator[int]:
    """Lines that read what the turn before has left in the variable that they set."""
    fresh = _names(loop.target) if isinstance(loop, ast.For) else set()
    made: set[str] = set()
    for node in _in_order(loop.body):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            own, read = _targets(node), _read(node)
            computes = _calls(node.value)
            if own & read - fresh and (computes or read & made) and not _cuts(node.value):
                yield node.lineno
            fresh |= own
            made |= own if computes else set()
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if called(call) in _KEEPERS and call.args and not _cuts(call):
                yield from [node.lineno] if _names(call.args[0]) & made else []


def _is_state(node: ast.Assign | ast.AugAssign) -> bool:
    """Whether it makes an attribute of ``self`` from itself and something else."""
    own = {name for name in _targets(node) if name.startswith("self.")}
    return bool(own & _read(node)) and _calls(node.value) and not _cuts(node.value)


def _assignments(function: ast.AST) -> Iterator[ast.Assign | ast.AugAssign]:
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            yield node


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the text, without those of functions and blocks without graphs."""
    for statement in body:
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(statement, ast.With) and any(
            _cuts(one.context_expr) for one in statement.items
        ):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _in_order(getattr(statement, name, []))


def _targets(node: ast.Assign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name for target in targets for name in _names(target)}


def _read(node: ast.Assign | ast.AugAssign) -> set[str]:
    own = _targets(node) if isinstance(node, ast.AugAssign) else set()
    return _names(node.value) | own


def _names(node: ast.AST) -> set[str]:
    """Variables and attributes, as they are written."""
    plain = (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)))
    return {ast.unparse(each) for each in plain}


def _calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _cuts(node: ast.AST) -> bool:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(called(call) in _WITHOUT_GRAPH for call in calls)
