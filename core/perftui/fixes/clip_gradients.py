"""``clip-grad-norm``: gradients that are clipped by hand are clipped by torch's function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_or_script
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, remove, replace_statement
from perftui.fixes.source.optimizer_arguments import is_sparse
from perftui.script.clipping import Clipped, clipped_by_hand
from perftui.script.names import spelling
from perftui.script.program import PatchRefusedError, Program, refusal_of

_FUNCTION = "torch.nn.utils.clip_grad_norm_"


def clipped_at_once(program: Program, _: int) -> Sequence[Edit]:
    """Each clipping of the file that is written out, as a call of ``clip_grad_norm_``."""
    sparse = next(filter(is_sparse, program.calls()), None)
    if sparse is not None:
        raise PatchRefusedError(f"gradients are sparse at line {sparse.lineno}")
    loops = [node for node in program.statements() if isinstance(node, ast.For)]
    found = [_of_loop(program, loop) for loop in loops]
    edits = [edit for one in found if not isinstance(one, str) for edit in one]
    if not edits:
        raise refusal_of(found, "no loop certainly clips gradients by their norm")
    return edits


def _of_loop(program: Program, loop: ast.For) -> Sequence[Edit] | str:
    """The edits of the clipping that ``loop`` begins, or why it is left as it is."""
    try:
        found = clipped_by_hand(program, loop)
        return _written(program, found) if found else ()
    except PatchRefusedError as refusal:
        return str(refusal)


def _written(program: Program, found: Clipped) -> Sequence[Edit]:
    name = ast.unparse(found.norm.targets[0])
    call = f"{spelling(program, _FUNCTION)}({found.parameters}, {found.limit})"
    text = f"{name} = {call}{'.item()' if found.is_float else ''}"
    gone = [remove(program, one) for one in found.gone]
    return [*gone, replace_statement(program, found.norm, text)]


CLIP = line_fix(
    id="clip-grad-norm",
    what="clip gradients with torch's function instead of one parameter at a time",
    explanation=(
        "clip_grad_norm_ computes the norm of all gradients and scales them with a few operators "
        "on lists. The formula is the same; results may differ in the last digits. If the norm is "
        "NaN, all gradients become NaN."
    ),
    at=place_or_script,
    rules=("per-parameter-loop",),
    title="gradients clipped in one call",
    plan=clipped_at_once,
    advice=f"{_FUNCTION}(parameters, limit)",
    is_one_of_several=True,
    risks=(Risk.NUMERICS,),
)
