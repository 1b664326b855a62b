"""DistributedDataParallel: its buckets, what it looks for, and how often it reduces gradients."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from perftui.diagnosis.symptoms.ranks.collectives import BUCKET
from perftui.fixes.fix import finding_line_or_script, line_fix, script_with_finding
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, argument, decided, each_changed, removed
from perftui.fixes.source.edits import Edit, ReplaceExpression, insert_before
from perftui.script.program import Literal, NothingToChangeError, PatchRefusedError, Program
from perftui.script.steps import loop_of, micro_batches, refuse_late
from perftui.script.training import WRAPPER, WRAPPERS, refuse_mentioned, wrapped_model, wrapper_call

_SPEC = CallSpec(
    noun="wrapper",
    what="torch's DistributedDataParallel",
    names=dict.fromkeys(WRAPPERS, WRAPPER),
    defaults={"gradient_as_bucket_view": False, "find_unused_parameters": False},
    alike="parallel",
)
_CAP = "bucket_cap_mb"
_CAPPED = replace(_SPEC, positions={_CAP: 7}, defaults={_CAP: None}, follows=False)
"""A variable or an option would stay, and no longer have an effect: only a literal is removed."""


def wrapped_with(arguments: Mapping[str, Literal], program: Program, _: int) -> Sequence[Edit]:
    """``arguments`` for the only call of DistributedDataParallel of the file."""
    edits = each_changed(_SPEC, program, wrapper_call(program), arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    return list(edits.values())


bucket_view = partial(wrapped_with, {"gradient_as_bucket_view": True})
all_used = partial(wrapped_with, {"find_unused_parameters": False})


@line_fix(
    what="reduce gradients in buckets of 25 MiB while backward computes the next ones",
    at=script_with_finding,
    title=f"buckets of {BUCKET >> 20} MiB",
    advice=f"DistributedDataParallel(...) without {_CAP}",
    risks=(Risk.NUMERICS,),
)
def ddp_buckets(program: Program, _: int) -> Sequence[Edit]:
    """Without bucket_cap_mb, DistributedDataParallel reduces gradients in buckets of 25 MiB, the
    first one as soon as it holds 1 MiB. All but the last can be hidden behind backward. With more
    than two ranks the last digits of gradients may differ, because where a gradient lies in its
    bucket can decide in which order the ranks are summed. torch.compile splits the model where
    buckets end."""
    # No ``bucket_cap_mb`` for the only call of DistributedDataParallel of the file, where it is
    # above torch's default.
    #
    # Left out, and not set to 25: only then torch makes the first bucket small, so that reducing
    # starts early.
    call = wrapper_call(program)
    cap = decided(program, call, _CAPPED, _CAP, int).value
    if cap is None:
        raise NothingToChangeError(f"the call gives no {_CAP}")
    if not isinstance(cap, (int, float)) or cap <= BUCKET >> 20:
        raise NothingToChangeError(f"{_CAP} is {cap!r}, not above {BUCKET >> 20}")
    if argument(call, f"{_CAP}_list", None) is not None:
        raise PatchRefusedError(f"{_CAP}_list is given, too, and decides instead")
    hook = "registers a hook, which may need one bucket for all"
    refuse_mentioned(program, hook, "register_comm_hook")
    return [removed(program, call, _CAP)]


BUCKET_VIEW = line_fix(
    id="ddp-bucket-view",
    what="keep gradients in the reduction buckets",
    explanation=(
        "Gradients are views of the buckets: they are not copied back and forth, and take memory "
        "only once. detach_() on a gradient then raises an error."
    ),
    at=script_with_finding,
    title="gradients in buckets",
    advice="DistributedDataParallel(..., gradient_as_bucket_view=True)",
)(bucket_view)

ALL_USED = line_fix(
    id="ddp-all-used",
    what="do not search for unused parameters in every step",
    explanation=(
        "DistributedDataParallel does not traverse the graph after the forward pass. If a step "
        "leaves out a parameter after all, the next step raises an error that says so."
    ),
    at=script_with_finding,
    title="no search for unused",
    advice="DistributedDataParallel(..., find_unused_parameters=False)",
    risks=(Risk.UNUSED,),
)(all_used)


@line_fix(
    what="reduce gradients once per optimizer step, not for each micro-batch",
    at=finding_line_or_script,
    title="gradients reduced once a step",
    advice="model.require_backward_grad_sync = (i + 1) % K == 0 before the forward pass",
    risks=(Risk.NUMERICS,),
)
def ddp_no_sync(program: Program, _: int) -> Sequence[Edit]:
    """Gradients of micro-batches add up on each rank and are reduced with those of the last
    micro-batch before the step, using the same switch of DistributedDataParallel as no_sync(). The
    sum is the same; its last digits differ. Buffers, such as those of batch norm, are also sent to
    the other ranks only once per step."""
    # Set before each forward pass whether its backward pass reduces gradients, as ``no_sync()``
    # does.
    switches = ("no_sync", "require_backward_grad_sync")
    refuse_mentioned(program, "already controls when gradients are reduced", *switches)
    passes = program.calls("backward")
    if len(passes) != 1:
        raise PatchRefusedError(f"the file runs backward in {len(passes)} places")
    if any(kw.arg in ("static_graph", None) for kw in wrapper_call(program).keywords):
        raise PatchRefusedError("a static graph is always reduced in its first backward pass")
    loop, backward = loop_of(program, passes[0])
    model = wrapped_model(program, loop)
    turns = micro_batches(program, loop, backward)
    uses = [at for at, part in enumerate(loop.body[: turns.decided]) if _names(part, model)]
    if not uses or uses[0] > backward:
        raise PatchRefusedError(f"the loop at line {loop.lineno} does not call {model}")
    if uses[-1] > backward:
        later = loop.body[uses[-1]].lineno
        raise PatchRefusedError(f"line {later} may need the gradients of each micro-batch")
    refuse_late(program, turns, uses[0])
    text = f"{model}.require_backward_grad_sync = {turns.last}"
    # The loop has read all names of the condition before.
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    edits: list[Edit] = [insert_before(program, loop.body[uses[0]], text, names)]
    if turns.unnamed is not None:
        edits.append(ReplaceExpression(program.span(turns.unnamed), turns.last.split()[0]))
    return edits


def _names(statement: ast.stmt, model: str) -> bool:
    nodes = (n for n in ast.walk(statement) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(ast.unparse(node) == model for node in nodes)
