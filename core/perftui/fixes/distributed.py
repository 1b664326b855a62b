"""Fixes of ``DistributedDataParallel``: where gradients lie, and what it looks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from perftui.facts.fact import Facts
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, script_with_finding
from perftui.fixes.model import Risk
from perftui.fixes.source.call_arguments import each_changed
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Edit, Literal, PatchRefusedError
from perftui.fixes.source.program import Program
from perftui.fixes.source.wrapped_model import WRAPPER, WRAPPERS, wrapper_call

_SPEC = CallSpec(
    noun="wrapper",
    what="torch's DistributedDataParallel",
    names=dict.fromkeys(WRAPPERS, WRAPPER),
    defaults={"gradient_as_bucket_view": False, "find_unused_parameters": False},
    alike="parallel",
)


def wrapped_with(arguments: Mapping[str, Literal], program: Program, _: int) -> Sequence[Edit]:
    """``arguments`` for the only call of DistributedDataParallel of the file."""
    edits = each_changed(_SPEC, program, wrapper_call(program), arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    return list(edits.values())


bucket_view = partial(wrapped_with, {"gradient_as_bucket_view": True})
all_used = partial(wrapped_with, {"find_unused_parameters": False})


def _bucket_view(facts: Facts) -> LineChange | None:
    script = script_with_finding(facts, "bucket-copies")
    if script is None:
        return None
    advice = "DistributedDataParallel(..., gradient_as_bucket_view=True)"
    return LineChange("gradients in buckets", script, 1, bucket_view, advice)


def _all_used(facts: Facts) -> LineChange | None:
    script = script_with_finding(facts, "unused-parameters-search")
    if script is None:
        return None
    advice = "DistributedDataParallel(..., find_unused_parameters=False)"
    return LineChange("no search for unused", script, 1, all_used, advice, (Risk.UNUSED,))


BUCKET_VIEW = Fix(
    id="ddp-bucket-view",
    what="keep gradients in the reduction buckets",
    explanation=(
        "Gradients are views of the buckets: they are not copied back and forth, and take memory "
        "only once. detach_() on a gradient then raises an error."
    ),
    change=_bucket_view,
)

ALL_USED = Fix(
    id="ddp-all-used",
    what="do not search for unused parameters in every step",
    explanation=(
        "DistributedDataParallel does not traverse the graph after the forward pass. If a step "
        "leaves out a parameter after all, the next step raises an error that says so."
    ),
    change=_all_used,
    risks=(Risk.UNUSED,),
)
