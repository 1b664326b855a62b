"""``ddp-no-sync``: ranks reduce gradients once for each step of the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_or_script
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression, insert_before
from perftui.script.accumulation import loop_of, micro_batches, refuse_late
from perftui.script.models import wrapped_model, wrapper_call
from perftui.script.program import PatchRefusedError, Program
from perftui.script.training import mentions

_OWN = ("no_sync", "require_backward_grad_sync")


def reduced_once(program: Program, _: int) -> Sequence[Edit]:
    """Before the forward pass of each micro-batch, whether its backward pass reduces gradients:
    what ``no_sync()`` sets, too."""
    line = mentions(program, *_OWN)
    if line is not None:
        raise PatchRefusedError(f"line {line} already controls when gradients are reduced")
    passes = program.calls("backward")
    if len(passes) != 1:
        raise PatchRefusedError(f"the file runs backward in {len(passes)} places")
    if any(one.arg in ("static_graph", None) for one in wrapper_call(program).keywords):
        raise PatchRefusedError("a static graph is always reduced in its first backward pass")
    loop, backward = loop_of(program, passes[0])
    model = wrapped_model(program, loop)
    found = micro_batches(program, loop, backward)
    named = [at for at, one in enumerate(loop.body[: found.decided]) if _names(one, model)]
    if not named or named[0] > backward:
        raise PatchRefusedError(f"the loop at line {loop.lineno} does not call {model}")
    if named[-1] > backward:
        later = loop.body[named[-1]].lineno
        raise PatchRefusedError(f"line {later} may need the gradients of each micro-batch")
    refuse_late(program, found, named[0])
    text = f"{model}.require_backward_grad_sync = {found.last}"
    # All that the condition reads has been read by the loop as it stands.
    known = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    edits: list[Edit] = [insert_before(program, loop.body[named[0]], text, known)]
    if found.unnamed is not None:
        edits.append(ReplaceExpression(program.span(found.unnamed), found.last.split()[0]))
    return edits


def _names(statement: ast.stmt, model: str) -> bool:
    nodes = (n for n in ast.walk(statement) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(ast.unparse(node) == model for node in nodes)


NO_SYNC = line_fix(
    id="ddp-no-sync",
    what="reduce gradients once per optimizer step, not for each micro-batch",
    explanation=(
        "Gradients of micro-batches add up on each rank and are reduced with those of the last "
        "micro-batch before the step, using the same switch of DistributedDataParallel as "
        "no_sync(). The sum is the same; its last digits differ. Buffers, such as those of batch "
        "norm, are also sent to the other ranks only once per step."
    ),
    at=place_or_script,
    rules=("reduce-each-micro-batch",),
    title="gradients reduced once a step",
    plan=reduced_once,
    advice="model.require_backward_grad_sync = (i + 1) % K == 0 before the forward pass",
    risks=(Risk.NUMERICS,),
)
