"""Whether code trains: by what it calls, also through functions of the same file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perftui.fixes.source.program import Loop, Program, called_name

TRAINS = frozenset({"backward", "step", "zero_grad"})
"""Methods that a training step calls."""

_WORDS = re.compile(
    r"(^|_)(train|fit|learn|optimi[sz]e|backprop|backward|update|attack|adapt|meta|inner)(_|$)"
    r"|^(train|fit|update)|fine_?tun"
)
"""Names of functions of other files that may train."""
_EPOCH = re.compile(r"(train|fit)_(one_)?epoch$|train_(model|loop|step|batch)$")
_METER = re.compile(
    r"meter|loss|acc|top\d|prec|recall|metric|stat|avg|mean|logger|bar|score|mse|time|eval|result"
    r"|total|err|iou|auc|f1|confusion|hist|count|psnr|ssim",
    re.I,
)
"""What is named so gathers figures."""
_UPDATES = re.compile(r"step$|.*optimi[sz]e|add_$|sub_$|copy_$|update")


def trains(program: Program, node: ast.AST) -> bool:
    """Whether a training step is in ``node``, in what it calls of this file, or in a function of
    another file that is named for it."""
    called = _names(program, node, into_loops=True)
    return _is_step(called) or any(
        name not in program.functions and _EPOCH.match(name) for name in called
    )


def trains_each_turn(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` is a training step, and not several in a loop of its own."""
    direct = _names(program, loop, into_loops=False)
    # A loop over epochs steps a schedule and clears gradients itself.
    goes_back = "backward" in _names(program, loop, into_loops=True)
    return "backward" in direct if goes_back else _is_step(direct)


def updates(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` updates parameters: by an optimizer, or by hand."""
    return any(
        _UPDATES.match(called_name(call)) and not _is_meter(call)
        for call in _calls(program, loop, into_loops=False)
    )


def may_train(program: Program, node: ast.AST) -> str:
    """What ``node`` calls that trains, or may do so in another file; empty where nothing does."""
    if trains(program, node):
        return "a training step"
    for call in _calls(program, node, into_loops=True):
        name = called_name(call)
        if name == "train":
            # `model.train()` and `model.train(False)` switch a mode; `train(model, x)` trains.
            count = len(call.args) + len(call.keywords)
            if count > 1 or (count and not isinstance(call.func, ast.Attribute)):
                return "train()"
        elif name not in program.functions and _WORDS.search(name) and not _is_meter(call):
            return f"{name}()"
    return ""


def _is_meter(call: ast.Call) -> bool:
    """Whether ``call`` is an ``update`` of something named for a mean, a score or a bar."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "update":
        return False
    return _METER.search(ast.unparse(call.func.value).rpartition(".")[2]) is not None


def _is_step(called: set[str]) -> bool:
    return "backward" in called or {"step", "zero_grad"} <= called


def _names(program: Program, node: ast.AST, *, into_loops: bool) -> set[str]:
    return {called_name(call) for call in _calls(program, node, into_loops=into_loops)}


def _calls(
    program: Program, node: ast.AST, *, into_loops: bool, known: set[ast.AST] | None = None
) -> Iterator[ast.Call]:
    """All calls in ``node``, and within functions of the file that it calls."""
    known = {node} if known is None else known
    for below in _below(node, into_loops):
        if isinstance(below, ast.Call):
            yield below
            # Of `step` each optimizer has one.
            own = program.own_functions(below) if called_name(below) != "step" else ()
            for function in own:
                if function not in known:
                    known.add(function)
                    yield from _calls(program, function, into_loops=into_loops, known=known)


def _below(node: ast.AST, into_loops: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if into_loops or not isinstance(child, Loop):
            yield from _below(child, into_loops)
