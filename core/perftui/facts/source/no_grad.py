"""The code of the script that runs the model without gradients."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.source.lines import LineShare
from perftui.facts.source.main_thread import main_thread
from perftui.facts.source.source_calls import only_line
from perftui.facts.source.source_search import own_files
from perftui.script.program import tree_of

_OFF = ("no_grad", "inference_mode")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def line_without_gradients(facts: Facts) -> LineShare | None:
    """A line of a loop that ``no_grad`` or ``inference_mode`` holds for: the one where the main
    thread was longest; else the loop, where it is the only one. None if unknown."""
    loops = [
        (str(path), first, last)
        for path, changed in own_files(facts)
        for first, last in _loops(path, changed)
    ]
    thread = main_thread.or_none(facts)
    for line in thread.lines if thread else ():
        if any(line.file == file and first <= line.line <= last for file, first, last in loops):
            return line
    return only_line({(file, first) for file, first, _ in loops})


@lru_cache(maxsize=64)
def _loops(path: Path, changed: int) -> tuple[tuple[int, int], ...]:
    """First and last lines of the outermost of such loops."""
    return tuple(
        (loop.lineno, loop.end_lineno or loop.lineno)
        for node in ast.walk(tree_of(path, changed))
        if _is_off(node)
        for loop in _outermost(node)
        if _calls_model(loop)
    )


def _is_off(node: ast.AST) -> bool:
    """Whether gradients are off in a function or a ``with`` block."""
    if isinstance(node, _FUNCTIONS):
        return any(name in ast.unparse(each) for each in node.decorator_list for name in _OFF)
    if isinstance(node, ast.With):
        return any(name in ast.unparse(each) for each in node.items for name in _OFF)
    return False


def _calls_model(loop: ast.AST) -> bool:
    """Whether a variable, or an attribute of ``self``, is called there with something."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call) and node.args)
    return any(_may_be_model(call.func) for call in calls)


def _may_be_model(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return not hasattr(builtins, called.id)
    return isinstance(called, ast.Attribute) and ast.unparse(called).startswith("self.")


def _outermost(node: ast.AST) -> Iterator[ast.For | ast.While]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For | ast.While):
            yield child
        else:
            yield from _outermost(child)
