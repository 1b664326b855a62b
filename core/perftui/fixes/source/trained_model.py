"""The model that a file trains, by its name in the loop that does, and what the file mentions."""

from __future__ import annotations

import ast

from perftui.fixes.source.edits import InsertLine
from perftui.fixes.source.loop_start import training_loop
from perftui.fixes.source.program import Loop, PatchRefusedError, Program
from perftui.fixes.source.statements import insert_before
from perftui.fixes.source.training_calls import trains_each_turn


def step_loop(program: Program) -> Loop:
    """The loop of which each turn is a training step.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    loops = (node for node in program.statements() if isinstance(node, Loop))
    training = [loop for loop in loops if trains_each_turn(program, loop)]
    if len(training) != 1:
        raise PatchRefusedError(f"{len(training)} loops of the file train")
    return training[0]


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


def insert_before_training(program: Program, model: str, text: str) -> InsertLine:
    """``text``, one line about ``model``, before the outermost loop that trains it.

    Raises:
        PatchRefusedError: the model may go by another name there, or a name in ``text`` may have
            no value.
    """
    loop = training_loop(program)
    if program.scope(loop) is not program.scope(step_loop(program)):
        calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
        given = (value for call in calls for value in call.args)
        if not any(isinstance(value, ast.Name) and value.id == model for value in given):
            raise PatchRefusedError(f"{model} may go by another name before the training")
    return insert_before(program, loop, text)


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
