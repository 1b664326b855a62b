"""``autocast-bf16``: forward pass and loss with factors of 16 bits."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import script_with_finding
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, wrap
from perftui.script.names import module_name
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.training import mentions, model_name, step_loop

_OWN = ("autocast", "GradScaler", "half", "bfloat16", "float16", "float64", "double", "amp")


def autocast(program: Program, _: int) -> Sequence[Edit]:
    """The statements of the loop from the model's call to before ``backward()``, under autocast."""
    line = mentions(program, *_OWN)
    if line is not None:
        raise PatchRefusedError(f"line {line} already sets a precision")
    loop = step_loop(program)
    model = model_name(program, loop)
    forward = [at for at, one in enumerate(loop.body) if _calls_model(one, model)]
    backward = [at for at, one in enumerate(loop.body) if _goes_backward(one)]
    if len(backward) != 1 or not forward or forward[-1] >= backward[0]:
        raise PatchRefusedError(
            "forward and backward are not separate statements in the body of the loop"
        )
    covered = loop.body[forward[0] : backward[0]]
    first, last = covered[0].lineno, covered[-1].end_lineno or covered[-1].lineno
    torch = module_name(program, "torch")
    return (wrap(program, first, last, f'with {torch}.autocast("cuda", dtype={torch}.bfloat16)'),)


def _calls_model(statement: ast.stmt, model: str) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == model for call in calls)


def _goes_backward(statement: ast.stmt) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(called_name(call) == "backward" for call in calls)


AUTOCAST = line_fix(
    id="autocast-bf16",
    what="multiply matrices in bfloat16",
    explanation=(
        "Inputs of matrix products and convolutions have 8 bits of mantissa; weights and sums "
        "stay float32, and losses are computed in float32. Most networks train as well with it; "
        "check the loss of a longer run. Cards before Ampere have no bfloat16."
    ),
    at=script_with_finding,
    rules=("tensor-cores-unused", "matmul-fp32"),
    title="autocast to bfloat16",
    plan=autocast,
    advice='with torch.autocast("cuda", dtype=torch.bfloat16): around forward pass and loss',
    risks=(Risk.HALF,),
)
