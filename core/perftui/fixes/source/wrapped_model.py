"""By which name a training loop knows the model that ``DistributedDataParallel`` wraps."""

from __future__ import annotations

import ast

from perftui.fixes.source.known_as import known_as
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Loop, PatchRefusedError, Program
from perftui.fixes.source.readers import attributes

WRAPPER = "torch.nn.parallel.DistributedDataParallel"
WRAPPERS = (WRAPPER, "torch.nn.parallel.distributed.DistributedDataParallel")
"""Qualified names of the class, its public one first."""


def wrapper_call(program: Program) -> ast.Call:
    """The only call of DistributedDataParallel of the file.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    calls = [call for call in program.calls() if qualified_name(program, call.func) in WRAPPERS]
    if len(calls) != 1:
        raise PatchRefusedError(f"the file has {len(calls)} calls of DistributedDataParallel")
    return calls[0]


def wrapped_model(program: Program, loop: Loop) -> str:
    """What the wrapped model is called in ``loop``: ``model``, or ``self.model``.

    Raises:
        PatchRefusedError: it is not certain that any name there is that object.
    """
    call = wrapper_call(program)
    above = program.parents[call]
    target = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if isinstance(target, ast.Name):
        return known_as(program, target, program.scope(loop))
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
        return _by_attribute(program, loop, target)
    raise PatchRefusedError(f"line {call.lineno} gives the wrapped model no name")


def _by_attribute(program: Program, loop: Loop, made: ast.Attribute) -> str:
    stores = attributes(program, made.attr, ast.Store)
    if any(one.lineno > made.lineno for one in stores):
        raise PatchRefusedError(f"self.{made.attr} is set again after line {made.lineno}")
    if _class_around(program, made) is not _class_around(program, loop):
        raise PatchRefusedError(f"line {loop.lineno} is not in the class of self.{made.attr}")
    return f"self.{made.attr}"


def _class_around(program: Program, node: ast.AST) -> ast.AST | None:
    return next((one for one in program.ancestors(node) if isinstance(one, ast.ClassDef)), None)
