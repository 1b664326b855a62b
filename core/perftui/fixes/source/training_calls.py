"""Whether code trains: by what it calls, also through functions of the same file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perftui.fixes.source.program import Program, called_name

TRAINS = frozenset({"backward", "step", "zero_grad"})
"""Methods that a training step calls."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WORDS = re.compile(
    r"(^|_)(train|fit|learn|optimi[sz]e|backprop|backward|update|attack|adapt|meta|inner)(_|$)"
    r"|^(train|fit|update)|fine_?tun"
)
"""Names of functions of other files that may train."""
_EPOCH = re.compile(r"(train|fit)_(one_)?epoch$|train_(model|loop|step|batch)$")
_UPDATES = re.compile(r"step$|.*optimi[sz]e|add_$|sub_$|copy_$|update")


def trains(program: Program, node: ast.AST) -> bool:
    """Whether a training step is in ``node``, in what it calls of this file, or in a function of
    another file that is named for it."""
    called = set(_names(program, node, into_loops=True))
    return _is_step(called) or any(
        name not in program.functions and _EPOCH.match(name) for name in called
    )


def trains_each_turn(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` is a training step, and not several in a loop of its own."""
    direct = set(_names(program, loop, into_loops=False))
    # A loop over epochs steps a schedule and clears gradients itself.
    goes_back = "backward" in set(_names(program, loop, into_loops=True))
    return "backward" in direct if goes_back else _is_step(direct)


def updates(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` updates parameters: by an optimizer, or by hand."""
    called = set(_names(program, loop, into_loops=False))
    return any(_UPDATES.match(name) for name in called)


def may_train(program: Program, node: ast.AST) -> str:
    """What ``node`` calls that trains, or may do so in another file; empty where nothing does."""
    if trains(program, node):
        return "a training step"
    for name in _names(program, node, into_loops=True):
        if name not in program.functions and _WORDS.search(name) and name != "train":
            return f"{name}()"
    plain = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    given = (c for c in plain if called_name(c) == "train" and (c.args or c.keywords))
    # `model.train()` and `model.train(False)` switch a mode; `train(model, loader)` trains.
    if any(not isinstance(c.func, ast.Attribute) or len(c.args) > 1 for c in given):
        return "train()"
    return ""


def _is_step(called: set[str]) -> bool:
    return "backward" in called or {"step", "zero_grad"} <= called


def _names(
    program: Program, node: ast.AST, *, into_loops: bool, known: set[ast.AST] | None = None
) -> Iterator[str]:
    """Names of all that ``node`` calls, within functions of the file as well."""
    known = {node} if known is None else known
    for below in _below(node, into_loops):
        if isinstance(below, ast.Call):
            name = called_name(below)
            yield name
            # Of `step` each optimizer has one.
            for function in program.own_functions(below) if name != "step" else ():
                if function not in known:
                    known.add(function)
                    yield from _names(program, function, into_loops=into_loops, known=known)


def _below(node: ast.AST, into_loops: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if into_loops or not isinstance(child, LOOPS):
            yield from _below(child, into_loops)
