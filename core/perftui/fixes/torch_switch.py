"""Fixes that set a switch of torch by a line of the script."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import script_with_finding
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceLiteral, insert_after_imports
from perftui.script.names import module_name, qualified_name
from perftui.script.program import PatchRefusedError, Program
from perftui.script.training import mentions

_PRECISION = ("set_float32_matmul_precision", "allow_tf32", "fp32_precision")
_CHOICE = ("benchmark", "deterministic", "use_deterministic_algorithms", "benchmark_limit")


def switched(text: str, own: Sequence[str], program: Program, _: int) -> Sequence[Edit]:
    """``torch`` and ``text`` as a line after the imports, unless the file says any of ``own``."""
    line = mentions(program, *own)
    if line is not None:
        raise PatchRefusedError(f"line {line} already sets it")
    return (insert_after_imports(program, f"{module_name(program, 'torch')}{text}"),)


def search_off(program: Program, _: int) -> Sequence[Edit]:
    """``False`` wherever the file sets ``torch.backends.cudnn.benchmark`` to a literal True."""
    assignments = [node for node in program.statements() if isinstance(node, ast.Assign)]
    setting = [
        one
        for one in assignments
        for target in one.targets
        if qualified_name(program, target) == "torch.backends.cudnn.benchmark"
    ]
    computed = [one for one in setting if not isinstance(one.value, ast.Constant)]
    if computed:
        text = ast.unparse(computed[0].value)
        raise PatchRefusedError(f"line {computed[0].lineno} computes it: {text}")
    on = [one for one in setting if ast.unparse(one.value) == "True"]
    if not on:
        raise PatchRefusedError("no line of the file certainly sets it")
    return [ReplaceLiteral(program.span(one.value), "False") for one in on]


tf32 = partial(switched, '.set_float32_matmul_precision("high")', _PRECISION)
cudnn_benchmark = partial(switched, ".backends.cudnn.benchmark = True", _CHOICE)


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

CUDNN_BENCHMARK = line_fix(
    id="cudnn-benchmark",
    what="let cuDNN find the fastest kernel for each size",
    explanation=(
        "The first convolution of each size takes longer. If sizes change all the time, that "
        "never pays off."
    ),
    at=script_with_finding,
    rules=("cudnn-benchmark-off",),
    title="cudnn.benchmark on",
    plan=cudnn_benchmark,
    advice="torch.backends.cudnn.benchmark = True after the imports",
    risks=(Risk.NUMERICS, Risk.REPEATABLE),
)

CUDNN_SEARCH_OFF = line_fix(
    id="cudnn-search-off",
    what="let cuDNN choose kernels by its heuristics, if sizes change all the time",
    explanation=(
        "cuDNN does not benchmark kernels for each new size: it takes the one its heuristics "
        "choose, which is mostly as fast. Results may differ in the last digits."
    ),
    at=script_with_finding,
    rules=("cudnn-benchmark",),
    title="cudnn.benchmark off",
    plan=search_off,
    advice="torch.backends.cudnn.benchmark = False, or leave it out",
    risks=(Risk.NUMERICS,),
)
