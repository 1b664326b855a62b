"""By which name a training loop knows the model that ``DistributedDataParallel`` wraps."""

from __future__ import annotations

import ast

from perftui.fixes.source.edits import PatchRefusedError
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Function, Loop, Program
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
        return _by_name(program, loop, target)
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
        return _by_attribute(program, loop, target)
    raise PatchRefusedError(f"line {call.lineno} gives the wrapped model no name")


def _by_name(program: Program, loop: Loop, made: ast.Name) -> str:
    home, scope = program.scope(made), program.scope(loop)
    for other in program.bindings(made.id):
        if program.scope(other) is home and getattr(other, "lineno", 0) > made.lineno:
            raise PatchRefusedError(f"line {_line(other)} gives {made.id} another value")
    bound = [one for one in program.bindings(made.id) if scope in program.ancestors(one)]
    if home is scope or (isinstance(home, ast.Module) and not bound):
        return made.id
    if not isinstance(scope, Function):
        raise PatchRefusedError(f"line {loop.lineno} may not know the model of line {made.lineno}")
    return _given(program, scope, made)


def _given(program: Program, function: Function, made: ast.Name) -> str:
    """The parameter of ``function`` that every call gives the name ``made``."""
    uses, calls = program.loads(function.name), program.calls(function.name)
    if not calls or len(uses) != len(calls) or len(program.functions[function.name]) > 1:
        raise PatchRefusedError(f"it is not certain which model {function.name}() is given")
    given = {_parameter(program, function, call, made) for call in calls}
    name = given.pop() if len(given) == 1 else None
    if name is None:
        raise PatchRefusedError(f"{function.name}() is not certain to be given the wrapped model")
    within = [one for one in program.bindings(name) if function in program.ancestors(one)]
    if len(within) > 1:
        raise PatchRefusedError(f"line {_line(within[-1])} gives {name} another value")
    return name


def _parameter(program: Program, function: Function, call: ast.Call, made: ast.Name) -> str | None:
    """The parameter for which ``call`` gives the name ``made``; None where it is not certain."""
    if program.scope(call) is not program.scope(made) or call.lineno < made.lineno:
        return None
    for parameter, value in zip(function.args.args, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return None
        if isinstance(value, ast.Name) and value.id == made.id:
            return parameter.arg
    named = (one for one in call.keywords if isinstance(one.value, ast.Name))
    return next((one.arg for one in named if ast.unparse(one.value) == made.id), None)


def _by_attribute(program: Program, loop: Loop, made: ast.Attribute) -> str:
    stores = attributes(program, made.attr, ast.Store)
    if any(one.lineno > made.lineno for one in stores):
        raise PatchRefusedError(f"self.{made.attr} is set again behind line {made.lineno}")
    if _class_around(program, made) is not _class_around(program, loop):
        raise PatchRefusedError(f"line {loop.lineno} is not in the class of self.{made.attr}")
    return f"self.{made.attr}"


def _class_around(program: Program, node: ast.AST) -> ast.AST | None:
    return next((one for one in program.ancestors(node) if isinstance(one, ast.ClassDef)), None)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
