"""Switches of torch: threads, checks for errors, oneDNN, cuDNN, the allocator, and precision."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perftui.facts.cpu.machine import THREAD_VARIABLES, cpu_share
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.fixes.fix import CallChange, fix, has_finding, line_fix, script_with_finding
from perftui.fixes.option import FixOption, Risk
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Edit, ReplaceLiteral, insert_after_imports, wrap
from perftui.run.manifest import Override
from perftui.script.names import module_name, qualified_name
from perftui.script.program import Literal, PatchRefusedError, Program, called_name
from perftui.script.training import model_name, refuse_mentioned, step_loop

TARGET = "switch"
"""The agent's name for all of them."""


def _call(name: str, argument: str, *modules: str) -> CallSpec:
    """Calls of one function of torch that is given the value first."""
    public = f"{modules[0] if modules else 'torch'}.{name}"
    names = {f"{module}.{name}": public for module in modules or ("torch",)}
    return CallSpec(
        noun="call", what=public, names=names, positions={argument: 0}, alike=name.lower()
    )


THREADS_CALL = _call("set_num_threads", "threads")
ANOMALY_CALL = _call("set_detect_anomaly", "mode", "torch.autograd", "torch.autograd.anomaly_mode")


def _switched(
    place: Place | None,
    spec: CallSpec,
    arguments: Mapping[str, Literal],
    title: str,
    advice: str,
    *,
    why_not: str = "",
    uncertain: str = "",
    written: Mapping[str, Literal] | None = None,
) -> CallChange:
    where = f"At {place.short}: " if place and place.source else ""
    return CallChange(
        target=TARGET,
        arguments=arguments,
        title=title,
        file=place.file if place else None,
        line=place.line if place else None,
        spec=spec,
        advice=f"{where}{advice}",
        written=written or {},
        why_not=why_not,
        uncertain=uncertain,
    )


@fix(what="use as many threads as each training process has cores", risks=(Risk.NUMERICS,))
def threads(facts: Facts) -> CallChange | None:
    """torch splits long operators across as many threads as there are usable cores, divided by the
    training processes on the machine. Sums are rounded differently. The fix overrides what the
    script or the environment sets."""
    cores, setup = cpu_share.or_none(facts), settings(facts)
    if cores is None:
        return None
    wanted = max(cores.allowed // cores.ranks, 1)
    called = setup.place("set_num_threads")
    variable = next((name for name in THREAD_VARIABLES if (setup.environment or {}).get(name)), "")
    set_by = (
        f"{variable} sets the number of threads" if variable else "no line of the script sets it"
    )
    return _switched(
        called,
        THREADS_CALL,
        {"threads": wanted},
        f"threads {cores.threads} -> {wanted}",
        f"{variable}={wanted}" if variable and not called else f"torch.set_num_threads({wanted})",
        why_not="torch already uses as many" if wanted == cores.threads else "",
        uncertain="" if called else set_by,
    )


@fix(what="turn off anomaly detection", risks=(Risk.UNCHECKED,))
def anomaly_off(facts: Facts) -> CallChange | None:
    """Stacks of operators are not recorded, and gradients are not checked for NaN. The training
    computes the same results."""
    setup = settings(facts)
    place = setup.place("set_detect_anomaly", "detect_anomaly")
    if place is None and not setup.modes.anomaly:
        return None
    return _switched(
        place,
        ANOMALY_CALL,
        {"anomaly": False},
        "anomaly detection off",
        "torch.autograd.set_detect_anomaly(False), or no detect_anomaly()",
        written={"mode": False},
    )


@fix(
    what="allow faster algorithms whose results differ from run to run",
    risks=(Risk.NUMERICS, Risk.REPEATABLE),
)
def deterministic_off(facts: Facts) -> CallChange | None:
    """Operators may use algorithms that sum in any order: results differ in the last digits, also
    from run to run. Keep deterministic algorithms if runs must be reproducible."""
    setup = settings(facts)
    if not setup.modes.deterministic:
        return None
    return _switched(
        setup.place("use_deterministic_algorithms"),
        _call("use_deterministic_algorithms", "mode"),
        {"deterministic": False},
        "deterministic algorithms off",
        "torch.use_deterministic_algorithms(False)",
        written={"mode": False},
    )


@fix(
    what="compute convolutions and recurrent layers on the CPU with oneDNN", risks=(Risk.NUMERICS,)
)
def onednn_on(facts: Facts) -> CallChange | None:
    """Convolutions and recurrent layers in float32 use oneDNN, torch's default. Results differ in
    the last digits, because sums are rounded at other points."""
    setup = settings(facts)
    if setup.mkldnn.enabled is not False:
        return None
    missing = setup.mkldnn.available is False
    return _switched(
        setup.place("mkldnn.enabled"),
        _call("set_flags", "_enabled", "torch.backends.mkldnn"),
        {"onednn": True},
        "oneDNN on",
        "leave torch.backends.mkldnn.enabled as it is",
        why_not="this build of torch lacks it" if missing else "",
        uncertain="remove the line that disables it",
    )


_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_VALUE = "expandable_segments:True"


@fix(what="let PyTorch grow its GPU memory segments", risks=(Risk.SHARED,))
def expandable_segments(facts: Facts) -> FixOption | None:
    """Tensors of ever-changing sizes no longer leave gaps that the next tensor does not fit into.
    It is set before the first use of the GPU, with an environment variable."""
    environment, fix = settings(facts).environment, expandable_segments
    if environment is None or not has_finding(facts, "fragmentation", "allocator-churn"):
        return None
    option = FixOption(fix.id, "expandable segments", fix.explanation)
    for name in (name for name in _VARIABLES if environment.get(name)):
        return replace(option, why_not=f"{name}={environment[name]} is already set")
    return replace(
        option,
        risks=fix.risks,
        # The older name, which every version knows.
        override=Override("environment", {_VARIABLES[1]: _VALUE}, fix=fix.id),
        why_not="it is set where the training is started",
        advice=f"{_VARIABLES[1]}={_VALUE} before the command",
    )


def _after_imports(program: Program, text: str, *own: str) -> Sequence[Edit]:
    """``torch`` and ``text`` as a line after the imports, unless the file says any of ``own``."""
    refuse_mentioned(program, "already sets it", *own)
    return (insert_after_imports(program, f"{module_name(program, 'torch')}{text}"),)


@line_fix(
    what="let cuDNN choose kernels by its heuristics, if sizes change all the time",
    at=script_with_finding,
    title="cudnn.benchmark off",
    advice="torch.backends.cudnn.benchmark = False, or leave it out",
    risks=(Risk.NUMERICS,),
)
def cudnn_search_off(program: Program, _: int) -> Sequence[Edit]:
    """cuDNN does not benchmark kernels for each new size: it takes the one its heuristics choose,
    which is mostly as fast. Results may differ in the last digits."""
    # ``False`` wherever the file sets ``torch.backends.cudnn.benchmark`` to a literal True.
    setting = [
        node
        for node in program.statements()
        if isinstance(node, ast.Assign)
        for target in node.targets
        if qualified_name(program, target) == "torch.backends.cudnn.benchmark"
    ]
    computed = [node for node in setting if not isinstance(node.value, ast.Constant)]
    if computed:
        text = ast.unparse(computed[0].value)
        raise PatchRefusedError(f"line {computed[0].lineno} computes it: {text}")
    enabled = [node for node in setting if ast.unparse(node.value) == "True"]
    if not enabled:
        raise PatchRefusedError("no line of the file certainly sets it")
    return [ReplaceLiteral(program.span(node.value), "False") for node in enabled]


_CHOICE = ("benchmark", "deterministic", "use_deterministic_algorithms", "benchmark_limit")


@line_fix(
    what="let cuDNN find the fastest kernel for each size",
    at=script_with_finding,
    title="cudnn.benchmark on",
    advice="torch.backends.cudnn.benchmark = True after the imports",
    risks=(Risk.NUMERICS, Risk.REPEATABLE),
)
def cudnn_benchmark(program: Program, _: int) -> Sequence[Edit]:
    """The first convolution of each size takes longer. If sizes change all the time, that never
    pays off."""
    return _after_imports(program, ".backends.cudnn.benchmark = True", *_CHOICE)


_SETS_TF32 = ("set_float32_matmul_precision", "allow_tf32", "fp32_precision")


@line_fix(
    what="multiply float32 matrices on the tensor cores",
    at=script_with_finding,
    title="TF32 on",
    advice='torch.set_float32_matmul_precision("high") after the imports',
    risks=(Risk.NUMERICS,),
)
def tf32(program: Program, _: int) -> Sequence[Edit]:
    """Inputs of matrix products are rounded to 10 bits of mantissa; sums stay float32. Neural
    network training tolerates that; numerical solvers may not."""
    return _after_imports(program, '.set_float32_matmul_precision("high")', *_SETS_TF32)


_ALREADY = ("autocast", "GradScaler", "half", "bfloat16", "float16", "float64", "double", "amp")


@line_fix(
    what="multiply matrices in bfloat16",
    at=script_with_finding,
    title="autocast to bfloat16",
    advice='with torch.autocast("cuda", dtype=torch.bfloat16): around forward pass and loss',
    risks=(Risk.HALF,),
)
def autocast_bf16(program: Program, _: int) -> Sequence[Edit]:
    """Inputs of matrix products and convolutions have 8 bits of mantissa; weights and sums stay
    float32, and losses are computed in float32. Most networks train as well with it; check the loss
    of a longer run. Cards before Ampere have no bfloat16."""
    # The statements of the loop from the model's call to before ``backward()``, under autocast.
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
    torch = module_name(program, "torch")
    header = f'with {torch}.autocast("cuda", dtype={torch}.bfloat16)'
    return (wrap(program, covered[0], covered[-1], header),)
