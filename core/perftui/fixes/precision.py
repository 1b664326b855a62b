"""Fixes that multiply at a lower precision: TF32, and autocast to bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from perftui.fixes.fix import line_fix, script_with_finding
from perftui.fixes.option import Risk
from perftui.fixes.source.edits import Edit, wrap
from perftui.fixes.switches import switched
from perftui.script.names import module_name
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.training import model_name, refuse_mentioned, step_loop

_SETS_TF32 = ("set_float32_matmul_precision", "allow_tf32", "fp32_precision")
tf32 = partial(switched, '.set_float32_matmul_precision("high")', _SETS_TF32)

TF32 = line_fix(
    id="tf32",
    what="multiply float32 matrices on the tensor cores",
    explanation=(
        "Inputs of matrix products are rounded to 10 bits of mantissa; sums stay float32. Neural "
        "network training tolerates that; numerical solvers may not."
    ),
    at=script_with_finding,
    rules=("matmul-fp32",),
    title="TF32 on",
    plan=tf32,
    advice='torch.set_float32_matmul_precision("high") after the imports',
    risks=(Risk.NUMERICS,),
)


_ALREADY = ("autocast", "GradScaler", "half", "bfloat16", "float16", "float64", "double", "amp")


def autocast(program: Program, _: int) -> Sequence[Edit]:
    """The statements of the loop from the model's call to before ``backward()``, under autocast."""
    refuse_mentioned(program, "already sets a precision", *_ALREADY)
    loop = step_loop(program)
    model = model_name(program, loop)
    calls = [[n for n in ast.walk(part) if isinstance(n, ast.Call)] for part in loop.body]
    called = [[call.func.id for call in row if isinstance(call.func, ast.Name)] for row in calls]
    forward = [at for at, names in enumerate(called) if model in names]
    backward = [at for at, row in enumerate(calls) if "backward" in map(called_name, row)]
    if len(backward) != 1 or not forward or forward[-1] >= backward[0]:
        raise PatchRefusedError(
            "forward and backward are not separate statements in the body of the loop"
        )
    covered = loop.body[forward[0] : backward[0]]
    first, last = covered[0].lineno, covered[-1].end_lineno or covered[-1].lineno
    torch = module_name(program, "torch")
    return (wrap(program, first, last, f'with {torch}.autocast("cuda", dtype={torch}.bfloat16)'),)


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
