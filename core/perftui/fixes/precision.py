"""How GPUs multiply and convolve: TF32, bfloat16, and who chooses cuDNN's algorithm."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from perftui.fixes.change import script_with_finding
from perftui.fixes.fix import line_fix
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceLiteral, insert_after_imports, wrap
from perftui.script.names import module_name, qualified_name
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.training import mentions, model_name, step_loop

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


_PRECISIONS = ("autocast", "GradScaler", "half", "bfloat16", "float16", "float64", "double", "amp")


def autocast(program: Program, _: int) -> Sequence[Edit]:
    """The statements of the loop from the model's call to before ``backward()``, under autocast."""
    line = mentions(program, *_PRECISIONS)
    if line is not None:
        raise PatchRefusedError(f"line {line} already sets a precision")
    loop = step_loop(program)
    model = model_name(program, loop)
    calls = [[n for n in ast.walk(one) if isinstance(n, ast.Call)] for one in loop.body]
    called = [[one.func.id for one in row if isinstance(one.func, ast.Name)] for row in calls]
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
