"""Loops over micro-batches: which of their turns the optimizer's step follows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perftui.script.program import (
    Function,
    Loop,
    PatchRefusedError,
    Program,
    bound_name,
    called_name,
)
from perftui.script.steps import last_turn, step_counter
from perftui.script.training import StepStatement

_NOT_OPTIMIZERS = re.compile(r"sched|prof|progress|bar|env|lr|warmup|wandb|meter", re.IGNORECASE)
"""Names of what has a ``step()`` and is no optimizer."""
_OF_GRADIENTS = re.compile(r"clip_grad|unscale_|grad_norm")
_FRESH = ("micro", "micro_batch", "micro_step")


@dataclass(frozen=True)
class MicroBatches:
    """The turns of a loop that each go backward, of which some end with the optimizer's step."""

    loop: Loop
    last: str
    """What holds in a turn that ends with the step, and in no other."""
    decided: int
    """How many statements of a turn have run when that is asked; no later one matters."""
    of_range: bool = False
    """What ``last`` compares was worked out before the first turn."""
    unnamed: ast.Name | None = None
    """The ``_`` that counts the turns, to be called what ``last`` calls it."""


def loop_of(program: Program, backward: ast.Call) -> tuple[Loop, int]:
    """The loop of which each turn runs ``backward``, and the number of the statement that does.

    Raises:
        PatchRefusedError: there is none, or some turns may leave it out.
    """
    child: ast.AST = backward
    for above in program.ancestors(backward):
        if isinstance(above, Loop) and isinstance(child, ast.stmt) and child in above.body:
            return above, above.body.index(child)
        if isinstance(above, Function) or not isinstance(above, (ast.Expr, ast.With)):
            break
        child = above
    raise PatchRefusedError(f"line {backward.lineno} does not run in each iteration of a loop")


def micro_batches(program: Program, loop: Loop, backward: int) -> MicroBatches:
    """When the optimizer's step follows the turn of ``loop`` whose statement number ``backward``
    goes backward.

    Raises:
        PatchRefusedError: it is not certain, or each turn steps.
    """
    steps = _optimizer_steps(program)
    if not steps:
        raise PatchRefusedError("no line of the file certainly steps an optimizer")
    within = set(ast.walk(loop))
    if within.isdisjoint(steps):
        return _nested(program, loop, steps)
    for at in range(backward + 1, len(loop.body)):
        one = loop.body[at]
        inside = {node for below in getattr(one, "body", ()) for node in ast.walk(below)}
        if isinstance(one, ast.If) and inside.issuperset(steps):
            _refuse_uncounted(one.test)
            _refuse_readers(loop, loop.body[:at])
            return MicroBatches(loop, ast.unparse(one.test), at)
    raise PatchRefusedError("the optimizer also steps outside of one condition of the loop")


def refuse_late(program: Program, found: MicroBatches, first: int) -> None:
    """Nothing where the condition has the same value before statement number ``first`` of the turn
    as where it is asked.

    Raises:
        PatchRefusedError: something that it reads may be set in between, or elsewhere.
    """
    parts = list(ast.walk(ast.parse(found.last)))
    names = {node.id for node in parts if isinstance(node, ast.Name)}
    since = 0 if found.of_range else first
    between = [n for one in found.loop.body[since : found.decided] for n in ast.walk(one)]
    for node in between:
        if bound_name(node) in names:
            line = getattr(node, "lineno", found.loop.lineno)
            raise PatchRefusedError(f"line {line} sets {bound_name(node)} after the forward pass")
    for part in parts:
        if not isinstance(part, ast.Attribute):
            continue
        for store in program.attributes(part.attr, ast.Store):
            around = program.scope(store)
            is_early = isinstance(around, Function) and around.name == "__init__"
            if store in between or not (is_early or found.loop in program.ancestors(store)):
                raise PatchRefusedError(f"line {store.lineno} may set {ast.unparse(store)} then")
    for node in program.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and not names.isdisjoint(node.names):
            raise PatchRefusedError(f"line {node.lineno} lets a function set the counter")


def _nested(program: Program, loop: Loop, steps: Sequence[ast.Call]) -> MicroBatches:
    """A loop over the micro-batches of one step, which follows it in the same block."""
    block = program.block(loop)
    behind = {node for one in block[block.index(loop) + 1 :] for node in ast.walk(one)}
    if not behind.issuperset(steps):
        raise PatchRefusedError("the optimizer does not step right after the loop")
    if not isinstance(loop, ast.For) or loop.orelse:
        raise PatchRefusedError(f"the last iteration of the loop at line {loop.lineno} is unknown")
    for node in ast.walk(loop):
        if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
            raise PatchRefusedError(f"line {node.lineno} may end the loop or an iteration early")
    _refuse_readers(loop, loop.body)
    found = StepStatement(loop, loop.body[-1], (loop.body[-1],))
    target, end = loop.target, len(loop.body)
    if not isinstance(target, ast.Name) or target.id.strip("_"):
        counter = step_counter(program, found)
        return MicroBatches(loop, f"{counter} == {last_turn(found, counter)}", end, True)
    last = last_turn(found, target.id)
    uses = [use for use in program.loads(target.id) if loop in program.ancestors(use)]
    if uses or (isinstance(loop.iter, ast.Call) and len(loop.iter.args) > 2):
        raise PatchRefusedError(f"the loop at line {loop.lineno} does more than count with _")
    taken = (name for name in _FRESH if not program.bindings(name) and not program.loads(name))
    name = next(taken, None)
    if name is None:
        raise PatchRefusedError("all names for a counter of micro-batches are taken")
    return MicroBatches(loop, f"{name} == {last}", end, True, target)


def _optimizer_steps(program: Program) -> list[ast.Call]:
    """``.step()`` calls, except of what is named like a scheduler, profiler, scaler or game."""
    return [
        call
        for call in program.calls("step")
        if isinstance(call.func, ast.Attribute)
        and not _NOT_OPTIMIZERS.search(ast.unparse(call.func.value))
    ]


def _refuse_uncounted(test: ast.expr) -> None:
    """Nothing where ``test`` only counts, so that asking it earlier changes nothing.

    Raises:
        PatchRefusedError: it calls something, or divides nothing with a rest.
    """
    for node in ast.walk(test):
        is_length = isinstance(node, ast.Call) and called_name(node) == "len"
        if isinstance(node, (ast.Call, ast.NamedExpr, ast.Await)) and not is_length:
            raise PatchRefusedError(
                f"line {node.lineno} tests more than a count: {ast.unparse(node)}"
            )
    if not any(isinstance(node, ast.Mod) for node in ast.walk(test)):
        raise PatchRefusedError(f"line {test.lineno} does not count micro-batches")


def _refuse_readers(loop: Loop, statements: Iterable[ast.stmt]) -> None:
    """Nothing where no turn reads gradients but under the condition.

    Raises:
        PatchRefusedError: what it reads would be this rank's alone.
    """
    for node in (below for one in statements for below in ast.walk(one)):
        reads = isinstance(node, ast.Attribute) and node.attr == "grad"
        if reads or (isinstance(node, ast.Call) and _OF_GRADIENTS.search(called_name(node))):
            line = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {line} needs the gradients of each micro-batch")
