"""The one loop that trains in a file, the model in it, and the place before it."""

from __future__ import annotations

import ast

from perftui.fixes.source.edits import InsertLine, PatchRefusedError
from perftui.fixes.source.program import Program
from perftui.fixes.source.statements import insert_after
from perftui.fixes.source.step_loop import trains

Loop = ast.For | ast.AsyncFor | ast.While
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def training_loop(program: Program) -> Loop:
    """The innermost loop that trains.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    loops = [node for node in program.statements() if isinstance(node, _LOOPS) and trains(node)]
    inner = [one for one in loops if not any(one in program.ancestors(other) for other in loops)]
    if len(inner) != 1:
        raise PatchRefusedError(f"{len(inner)} loops of the file train")
    return inner[0]


def model_name(program: Program, loop: Loop) -> str:
    """The name of the model that ``loop`` trains: called there, and its ``parameters()`` are asked
    for in the file.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    called = {
        call.func.id
        for call in ast.walk(loop)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    asked = {
        call.func.value.id
        for call in program.calls("parameters")
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
    }
    models = sorted(called & asked)
    if len(models) != 1:
        which = ", ".join(models) or "none is known by name"
        raise PatchRefusedError(f"the loop has no single model: {which}")
    return models[0]


def insert_before_training(program: Program, text: str) -> InsertLine:
    """``text``, one line, before the outermost loop around the one that trains.

    Raises:
        PatchRefusedError: nothing stands before it, or a name in ``text`` may have no value there.
    """
    loop = training_loop(program)
    for above in program.ancestors(loop):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if isinstance(above, _LOOPS):
            loop = above
    block = program.block(loop)
    at = block.index(loop)
    if not at:
        raise PatchRefusedError(f"nothing stands before the loop at line {loop.lineno}")
    before = block[at - 1]
    return insert_after(program, before.lineno, text)


def mentions(program: Program, *names: str) -> int | None:
    """The line at which one of ``names`` is read, set, called or given as a keyword; None if
    nowhere."""
    said = (node for node in ast.walk(program.tree) if _said(node) in names)
    return next((line for node in said if (line := getattr(node, "lineno", None))), None)


def _said(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return node.arg if isinstance(node, ast.keyword) else None
