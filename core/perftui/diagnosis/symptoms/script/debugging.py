"""Debugging switches and profilers left on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops.calls import launch_of
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.gpu.idle import per_step, rows_place
from perftui.facts.gpu.kernels import kernels_begun
from perftui.facts.place import Place
from perftui.facts.script.looks import Slowed, anomaly_checks, runs_own_profiler, slowed
from perftui.facts.settings import Settings, settings
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    at_frames,
    lines_within,
    stack_samples,
    steady_held,
)
from perftui.facts.source.operator_lines import line_place
from perftui.facts.source.source_calls import matching_line
from perftui.facts.source.stack_profile import FEWEST_MOMENTS, moments
from perftui.facts.step.judged_step import (
    HOST_AT_WORK,
    PYTHON_AT_WORK,
    PYTHON_IN,
    host_parts,
    judged_step,
)
from perftui.facts.step.steps import steady_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import PROFILE
from perftui.trace.model import NONE, Int64

FEWEST_LAUNCHES = 20
"""Launches in the steady steps: a few short kernels may end by chance when their launch does."""

MOSTLY = 0.9
"""Share of launches from which all of them wait: otherwise hardly any does."""

SOON = 20_000
"""Most ns from a kernel's end to the return of a launch that waits for it: 3 to 4 us on an H100."""

LEAST = 0.5
"""Least share of a launch, or of its growth, taken by its kernel as proof: short kernels begin and
end within calls that do not wait."""

APART = 1_000
"""Least ns between the typical short and the typical long kernel to compare launches."""


@trace_fact
def launches_block(analysis: TraceAnalysis) -> int | None:
    """Time that launches wait for their kernels and the device then for the host, ns in all steady
    steps; None if launches do not wait. Unknown if the trace shows no GPU."""
    begun, trace = kernels_begun(analysis), analysis.trace
    launch = launch_of(trace, begun)
    rows, launch = begun[launch != NONE], launch[launch != NONE]
    if len(rows) < FEWEST_LAUNCHES:
        return None
    after = trace.ends_of(launch) - trace.ends_of(rows)
    # A kernel that begins before its launch is on another clock.
    waits = (trace.start[rows] >= trace.start[launch]) & (after >= 0) & (after <= SOON)
    if np.mean(waits) < MOSTLY or not _follow(trace.duration[launch], trace.duration[rows]):
        return None
    waited = int((trace.ends_of(launch) - trace.start[rows]).clip(min=0).sum())
    return min(waited, idle_of_host(analysis).total)


def _follow(launches: Int64, kernels: Int64) -> bool:
    """Whether launches last as long as their kernels: most of a launch is its kernel, or the launch
    of a long kernel is longer than that of a short one by as much."""
    if np.median(kernels) >= LEAST * np.median(launches):
        return True
    long = kernels > np.median(kernels)
    if not long.any():
        return False
    apart = np.median(kernels[long]) - np.median(kernels[~long])
    grown = np.median(launches[long]) - np.median(launches[~long])
    return bool(apart >= APART and grown >= LEAST * apart)


LEAST_STACKS = 0.03
"""Share of samples that record stacks from which anomaly detection is on."""

STACK_NS = 20_000
"""Least ns for an operator to record its stack: measured 20 us to 400 us, by the machine and how
deep it is called."""

_EXTRACT = re.compile(r"traceback\.py:|linecache\.py:|torch/fx/traceback\.py|anomaly_mode\.py:")

_DETECTS = r"detect_anomaly\s*\((?!\s*False)"

_OFF = ("", "0", "false", "off", "no")

_VARIABLES = {
    "TORCH_LOGS": (),
    "NCCL_DEBUG": ("version", "warn"),
    "TORCH_DISTRIBUTED_DEBUG": ("info",),
    "TORCH_CUDA_SANITIZER": (),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (),
    "TORCH_SHOW_CPP_STACKTRACES": (),
    "PYTHONMALLOC": ("malloc", "pymalloc"),
}
"""Environment variables for debugging, with the values that cost nothing."""

_ON_GPU = frozenset({"NCCL_DEBUG", "TORCH_CUDA_SANITIZER", "PYTORCH_NO_CUDA_MEMORY_CACHING"})


@dataclass(frozen=True)
class _Flag:
    name: str
    sentence: str
    """Without its end, where the cost is appended."""
    cost: int = 0
    """ns per step."""
    parts: tuple[str, ...] = ()
    pattern: str = ""
    """Pattern of the line that sets the flag."""
    place: Place | None = None
    """Where else it shows."""
    set_by: tuple[str, ...] = ()
    """Its names in the places noted by a run."""
    is_least: bool = False
    """Whether it may cost more."""


@rule(
    when="a debugging switch is left on",
    limits=Limits("Below 5 % the switch is only reported as on.", info=0.0),
    fixes=("anomaly-off", "deterministic-off"),
    answer="remove the line that turns the switch on, or unset its environment variable",
    slows_launches=True,
)
def debug_flags(facts: Facts) -> Lost | None:
    """Anomaly detection checks each result for NaN. CUDA_LAUNCH_BLOCKING waits for each kernel. A
    trace function (a debugger, coverage, cProfile) runs for every call or line of Python.
    Deterministic algorithms are reported for information only."""
    setup = settings(facts)
    flags = [flag for flag in (_anomaly(facts, setup), _blocking(facts, setup)) if flag]
    flags += [_slowed(facts, cause) for cause in slowed(facts)]
    flags += _costless(facts, setup)
    if not flags:
        return None
    worst = max(flags, key=lambda flag: flag.cost)
    judged = judged_step.or_none(facts)
    # By the run's notes or the script's text.
    if noted := setup.place(*worst.set_by):
        set_at: Place | None = replace(noted, rank=facts.rank_number)
    else:
        line = matching_line(facts, worst.pattern) if worst.pattern else None
        set_at = line_place(facts, line)
    place = set_at or worst.place
    at = set_at.at if set_at else ""
    step = judged.of if worst.cost and judged else None
    costs, figures = "", [Figure("on", flag.name) for flag in flags]
    if step is not None:
        costs = f", which takes {'at least ' * worst.is_least}{step.part_of(worst.cost)}"
        share = worst.cost / step.mean
        figures.insert(0, Figure.share(worst.name, share, debug_flags.limits.warning, place))
    return Lost(
        worst.cost,
        step,
        f"{worst.sentence}{at}{costs}.",
        tuple(figures),
        place=place,
        parts=worst.parts,
        is_least=worst.is_least,
        shows_step=False,
    )


def _anomaly(facts: Facts, setup: Settings) -> _Flag | None:
    """By the window's checks of gradients, the samples, or the mode itself."""
    found, steps = anomaly_checks.or_none(facts), trace_steps.or_none(facts)
    outside, held = stack_samples(facts)[0], steady_held(facts)
    noted = held[at_frames(_EXTRACT)(outside)].sum() / max(held.sum(), 1) if len(outside) else 0.0
    if found is None and not setup.modes.anomaly:
        # Other features record stacks too; a mode that is off between steps may be on within them.
        may_be = setup == Settings() or matching_line(facts, _DETECTS) is not None
        if noted < LEAST_STACKS or not may_be:
            return None
    judged, place, checking = judged_step.or_none(facts), None, ""
    cost = round(noted * judged.of.mean) if judged else 0
    if found is not None and steps is not None:
        (rows, checks, nodes), count = found, max(steps.steps, 1)
        place = rows_place(facts, rows)
        checking = f": it checks {checks // count} gradients in each step"
        if judged is not None:
            # The least time to record stacks, as few samples may miss it; then the checks.
            trace, mean = steps.analysis.trace, judged.of.mean
            time = kinds.busy(trace, rows).total
            cost = max(cost, round(min(nodes * STACK_NS / count / steps.step_ns, 1.0) * mean))
            on_host = round(time / count / steps.step_ns * mean)
            cost += per_step(facts, time) if judged.on_device else on_host
    return _Flag(
        "anomaly detection",
        f"Anomaly detection is on{checking}",
        min(cost, judged.of.mean) if judged else 0,
        host_parts(facts, (FORWARD, BACKWARD), GapCause.SYNCHRONISATION.value),
        _DETECTS,
        place,
        ("set_detect_anomaly", "detect_anomaly"),
        # Measured: 62 ms of 119 were seen, and without it a step took 31.
        is_least=judged is not None and not judged.on_device,
    )


def _blocking(facts: Facts, setup: Settings) -> _Flag | None:
    variable = (setup.environment or {}).get("CUDA_LAUNCH_BLOCKING", "")
    is_set = variable.lower() not in _OFF and has_gpu(facts) is not False
    waited = launches_block.or_none(facts)
    if not is_set and waited is None:
        return None
    cause = "CUDA_LAUNCH_BLOCKING is set: every" if is_set else "Every"
    after = "" if is_set else ", as CUDA_LAUNCH_BLOCKING makes it"
    return _Flag(
        "CUDA_LAUNCH_BLOCKING",
        f"{cause} launch waits until its kernel is over{after}",
        per_step(facts, waited) if waited else 0,
        (GapCause.LAUNCH.value,),
        "CUDA_LAUNCH_BLOCKING",
        set_by=("CUDA_LAUNCH_BLOCKING",),
    )


SLOWED = 1.5
"""Multiple of the usual time of Python from which it is certainly slowed: processors differ by a
third. Tracing calls by a function that does nothing takes 3 to 4 times as long, lines 12 times."""

LESS = 0.5
"""Part of that which other Python loses, with fewer calls and lines in the same time: where a short
function took 12 times as long, all Python of a step took 1.9 times."""

_SET = {
    "sys.settrace": ("settrace", "settrace_all_threads", "set_trace", "breakpoint"),
    "sys.setprofile": ("setprofile", "setprofile_all_threads"),
    "sys.monitoring": ("set_events", "set_local_events"),
    "gc.set_debug": ("set_debug",),
    "tracemalloc": (r"tracemalloc\.start",),
}
"""Functions that turn it on."""

_IN_MODE = re.compile(
    r"__torch_(dispatch|function)__|torch/(utils/(flop_counter|_python_dispatch|_device|_pytree)"
    r"|_ops|overrides)\.py"
)
"""Frames of modes of torch and of the user's own."""


def _slowed(facts: Facts, cause: Slowed) -> _Flag:
    """All of Python is slowed: what it costs, if a short function or samples show it."""
    judged, parts, cost = judged_step.or_none(facts), tuple[str, ...](), 0
    stacks = moments(facts) if cause.by.startswith("Torch") else None
    if judged is not None and stacks is not None:
        parts = host_parts(facts, (FORWARD, BACKWARD, OPTIMIZER, OTHER))
        inside = stacks.matching(lambda frame: bool(_IN_MODE.search(frame)), "inner", "function")
        cost = round(stacks.share(inside) * judged.of.mean)
    elif judged is not None and cause.factor >= SLOWED:
        parts = HOST_AT_WORK if judged.on_device else PYTHON_AT_WORK
        cost = round(sum(map(judged.part, parts)) * cause.share * LESS * (1 - 1 / cause.factor))
    names = _SET.get(cause.by, ())
    calls = "|".join((*names, re.escape(cause.name.rpartition(".")[2].lstrip("_") or cause.by)))
    pattern = rf"\b({calls})\s*\("
    return _Flag(cause.by, cause.sentence, cost, parts, pattern, cause.place, names, is_least=True)


def _costless(facts: Facts, setup: Settings) -> list[_Flag]:
    """Flags that may cost something, though nothing here shows how much."""
    on_gpu = has_gpu(facts) is not False
    flags = [
        _Flag(name, f"{name}={value} is set", pattern=name, set_by=(name,))
        for name, harmless in _VARIABLES.items()
        for value in [(setup.environment or {}).get(name, "")]
        if value.lower() not in (*_OFF, *harmless) and (on_gpu or name not in _ON_GPU)
    ]
    if setup.modes.deterministic:
        sentence = "Only deterministic algorithms are used, and some are slower"
        name, set_by = "deterministic algorithms", ("use_deterministic_algorithms",)
        flags.append(_Flag(name, sentence, pattern="deterministic", set_by=set_by))
    if setup.cudnn.deterministic and on_gpu:
        sentence = "cuDNN uses only deterministic algorithms, and some are slower"
        name = "cudnn.deterministic"
        flags.append(_Flag(name, sentence, pattern="deterministic", set_by=(name,)))
    return flags


SPOILED = 0.15
"""Share of a window's steps from which the profiler's own time spoils it; nsys-ai."""

_PROFILES = re.compile(
    r"^torch/profiler/\w+\.py:|^torch/autograd/profiler\.py:\d+ (profile|Kineto)\b"
)
"""Innermost frames in a profiler's own code."""

_MADE = r"\b(profile|profiler\.profile|emit_nvtx|emit_itt)\s*\("


@rule(
    when="the script's own profiler takes time, or profiling distorts the trace",
    limits=Limits("nsys-ai calls a window unreliable from 15 %.", info=0.0),
    fixes=("profiler-schedule",),
    answer="remove the profiler, or give it a schedule with few active steps and repeat=1",
)
def profiler_overhead(facts: Facts) -> Lost | None:
    """A torch.profiler around the whole training slows every operator, even more with stacks and
    shapes. Only one profiler can run at a time, so perftui records no windows meanwhile."""
    if not runs_own_profiler(facts):
        return _own_window(facts)
    step = steady_step(facts)
    lines = lines_within(
        facts,
        lambda stacks: at_frames(_PROFILES)(stacks) | (stacks["stage"] == PROFILE),
        FEWEST_SAMPLES // 2,
    )
    lines = lines if lines and lines.samples >= FEWEST_MOMENTS else None
    share = sum(line.held for line in lines.lines) / lines.covered if lines else 0.0
    cost = round(share * step.mean)
    line = matching_line(facts, _MADE) or (lines.lines[0] if lines else None)
    place = facts.at(line) if line and line.file else Place(rank=facts.rank_number)
    takes = f", which takes {step.part_of(cost)}" if cost else ""
    return Lost(
        cost,
        step,
        f"The script runs its own profiler{place.at}{takes}: perftui cannot profile a window "
        "meanwhile.",
        (Figure.share("in the profiler", share, profiler_overhead.limits.warning, place),),
        place=place,
        parts=(OTHER, f"{PYTHON_IN}{OTHER}", GapCause.PROFILER.value, GapCause.PYTHON.value),
    )


def _own_window(facts: Facts) -> Lost | None:
    """perftui's profiler, if it takes so much of its window that the rest is unreliable. It costs
    the training nothing but the window."""
    steps = trace_steps.or_none(facts)
    share = steps.part(GapCause.PROFILER.value) / steps.step_ns if steps else 0.0
    if steps is None or share < SPOILED:
        return None
    return without_cost(
        f"{steps.breakdown.profiler} itself takes {fmt.percent(share)} of the steps that it "
        "recorded: the host times of the trace are less reliable.",
        (Figure.share("profiler", share, SPOILED),),
        fixes=(),
    )
