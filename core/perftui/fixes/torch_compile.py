"""``compile-dynamic``: one compilation for every size."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.calls import CallSpec, call_at, each_changed
from perftui.fixes.source.edits import Edit
from perftui.script.program import PatchRefusedError, Program

_SPEC = CallSpec(
    noun="call",
    what="torch.compile",
    names={"torch.compile": "torch.compile"},
    defaults={"dynamic": None},
    alike="compile",
)


def dynamic(program: Program, line: int) -> Sequence[Edit]:
    """``dynamic=True`` for the ``torch.compile`` at ``line``."""
    edits = each_changed(_SPEC, program, call_at(program, line, _SPEC), {"dynamic": True})
    if not edits:
        raise PatchRefusedError("it is already compiled for every size")
    return list(edits.values())


COMPILE_DYNAMIC = line_fix(
    id="compile-dynamic",
    what="compile once for every size",
    explanation=(
        "Sizes become variables in the compiled code, so a new length is not recompiled. Each "
        "call is a little slower than one compiled for its exact size."
    ),
    at=place_of,
    rules=("recompiles",),
    title="torch.compile dynamic=True",
    plan=dynamic,
    advice="torch.compile(..., dynamic=True)",
    risks=(Risk.NUMERICS,),
)
