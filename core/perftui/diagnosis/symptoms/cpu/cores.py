"""A training on the CPU does not get, or does not use, the cores that are there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.cpu_share import THREAD_VARIABLES, CpuShare, cpu_share
from perftui.facts.cpu.operators import operators
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.facts.step.trace_steps import trace_steps

LONG_NS = 100_000
"""Own time of a call from which on torch can split it among threads with a gain: waking them and
waiting for the last takes some ten microseconds."""

_SERIAL = re.compile(
    r"aten::(normal|uniform|random|bernoulli|exponential|randperm|multinomial|dropout"
    r"|_local_scalar_dense|item|empty|set_data|record_stream)|c10d::|gloo:"
)
"""Operators that run on one thread, such as those that draw random numbers."""

_ONEDNN = re.compile(
    r"aten::(convolution|convolution_backward|_convolution|conv\w+|lstm|gru|rnn_\w+)$"
    r"|.*(Convolution|MkldnnRnnLayer)Backward\d*$"
)
"""Operators that oneDNN computes in float32, the outermost ones."""

_OLDER_CONVOLUTION = re.compile(r"aten::(_slow_conv2d_\w+|slow_conv\w*|thnn_conv2d\w*)$")
"""What torch convolves with on the CPU where oneDNN does not."""


@dataclass(frozen=True)
class CpuOperators:
    """Shares of the time of the steady steps, 0 to 1."""

    splittable: float
    """Share in calls long enough to be split among threads, of operators that torch splits."""
    onednn: float
    """Share in convolutions and recurrent layers."""


@trace_fact
def cpu_operators(analysis: TraceAnalysis) -> CpuOperators:
    """Where the steady steps of a trace compute on the CPU.

    Raises:
        UnknownError: no profiled step shows the operators.
    """
    found = operators(analysis)
    trace, whole = found.trace, found.steps.step_ns * found.steps.steps
    splits = (found.own >= LONG_NS) & ~found.named(_SERIAL.match)
    convolving = found.rows[found.named(_ONEDNN.match)]
    onednn = union(trace.start[convolving], trace.ends_of(convolving)).total
    return CpuOperators(
        min(float(found.own[splits].sum()) / whole, 1.0),
        min(onednn / whole, 1.0),
    )


@trace_fact
def older_convolutions(analysis: TraceAnalysis) -> float:
    """Share of the steps (or of all of a trace without) in convolutions that oneDNN could do, 0 to
    1; 0 where it does any of them.

    Raises:
        UnknownError: the trace takes no time.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("nothing has been recorded")
    chosen = kinds.operators(trace) & steps.inside
    rows = np.flatnonzero(chosen & kinds.named(trace, _OLDER_CONVOLUTION.match))
    if (chosen & kinds.named(trace, "aten::mkldnn_convolution".__eq__)).any():
        return 0.0
    whole = steps.step_ns * max(steps.steps, 1)
    return min(union(trace.start[rows], trace.ends_of(rows)).total / whole, 1.0)


EFFICIENCY = 0.8
"""Share that more threads do save of the time that they could: the last of them is waited for,
and memory is shared."""

LEAST_IDLE = 0.5
"""Cores that have to idle for more threads to help."""

MUCH_CONVOLVING = 0.25
"""Share of the step in convolutions of other code from which on a trace alone shows that oneDNN is
not used: small ones are quicker without it."""


def _on_cpu(facts: Facts) -> JudgedStep:
    """The judged step of a training that computes on the CPU; raises otherwise."""
    judged = judged_step(facts)
    if facts.run is None or judged.on_device:
        raise NotApplicableError
    return judged


def _computing(judged: JudgedStep) -> tuple[str, ...]:
    return tuple(part.name for part in judged.parts if part.computes)


def _found(judged: JudgedStep, lost: float, cores: CpuShare) -> Lost:
    """``lost`` of the step, a share, without a sentence yet."""
    step = judged.of
    cost = min(round(lost * step.mean), judged.computing)
    figures = (
        Figure("threads of an operator", cores.threads, "count"),
        Figure("cores it may use", cores.allowed, "count"),
        Figure("cores of the machine", cores.installed, "count"),
        Figure("idle cores", round(cores.idle, 1)),
        Figure("mean step", step.mean, "ns"),
        Figure("steady steps", step.count, "count"),
    )
    return Lost(cost, step, "", figures, parts=_computing(judged))


def _place(facts: Facts, *names: str) -> Place | None:
    """Where one of ``names`` is set, as the run has noted or by the script's text."""
    known = settings(facts)
    place = known.place(*names) if known else None
    if place is not None:
        return replace(place, rank=facts.rank_number)
    found = matching_line(facts, "|".join(map(re.escape, names)))
    return Place(facts.rank_number, file=found[0], line=found[1]) if found else None


def _threads(facts: Facts) -> Lost | None:
    judged, cores = _on_cpu(facts), cpu_share(facts)
    if cores.is_crowded:
        return _too_many(facts, judged, cores)
    if cores.is_bound:
        return None
    more = min(cores.idle, cores.allowed - cores.asked) / cores.ranks
    if cores.threads >= cores.allowed or more < LEAST_IDLE:
        return None
    splittable = cpu_operators(facts).splittable
    lost = splittable * (1 - cores.threads / (cores.threads + more)) * EFFICIENCY
    found = _found(judged, lost, cores)
    return replace(
        found,
        sentence=f"Operators run on {fmt.several(cores.threads, 'thread')}{_why(facts)} while "
        f"{cores.idle:.1f} of {fmt.several(cores.allowed, 'core')} idle: more threads could save "
        f"up to {fmt.part_of_step(found.cost_ns, judged.of.mean)}.",
        place=_place(facts, "set_num_threads", *THREAD_VARIABLES),
    )


def _too_many(facts: Facts, judged: JudgedStep, cores: CpuShare) -> Lost:
    lost = cpu_operators(facts).splittable * (1 - cores.allowed / cores.asked)
    found = _found(judged, lost, cores)
    each = f" in each of {cores.ranks} processes" if cores.ranks > 1 else ""
    return replace(
        found,
        sentence=(
            f"Operators run on {fmt.several(cores.threads, 'thread')}{each}{_why(facts)}, on "
            f"{fmt.several(cores.allowed, 'core')}: they wait for each other, for up to "
            f"{fmt.part_of_step(found.cost_ns, judged.of.mean)}."
        ),
        place=_place(facts, "set_num_threads", *THREAD_VARIABLES),
    )


def _why(facts: Facts) -> str:
    """The variable that sets the number of threads, where no line of the user's does."""
    known = settings(facts)
    if known is None or known.place("set_num_threads", *THREAD_VARIABLES):
        return ""
    for name in THREAD_VARIABLES:
        value = (known.environment or {}).get(name)
        if value:
            return f" ({name}={value} in the environment)"
    return ""


def _affinity(facts: Facts) -> Lost | None:
    judged, cores = _on_cpu(facts), cpu_share(facts)
    if cores.is_crowded or not cores.is_bound:
        return None
    waits = judged.part("input_wait") / judged.of.mean if cores.has_workers else 0.0
    lost = (cpu_operators(facts).splittable + waits) * cores.gain * EFFICIENCY
    found = _found(judged, 0, cores)
    cost = min(round(lost * judged.of.mean), judged.computing + judged.part("input_wait"))
    names = (*found.parts, "input_wait") if cores.has_workers else found.parts
    return replace(
        found,
        cost_ns=cost,
        parts=names,
        sentence=f"The training may run on {cores.allowed} of "
        f"{fmt.several(cores.installed, 'core')} and uses {cores.used:.1f} of them, while "
        f"{cores.idle_outside:.1f} others idle: with those it could save up to "
        f"{fmt.part_of_step(cost, judged.of.mean)}.",
        place=_place(facts, "sched_setaffinity", "cpu_affinity"),
    )


def _onednn(facts: Facts) -> Lost | None:
    return _onednn_noted(facts) if facts.run else _onednn_unused(facts)


def _onednn_unused(facts: Facts) -> Lost | None:
    """By a trace alone, in which convolutions take long and oneDNN does none of them."""
    judged = judged_step(facts)
    if judged.on_device or facts.analysis is None:
        raise NotApplicableError
    share, step = older_convolutions(facts.analysis), judged.of
    if share < MUCH_CONVOLVING:
        return None
    describe = fmt.part_of_step if step.count else fmt.part_of_trace
    return Lost(
        min(round(share * step.mean / 2), judged.computing),
        step,
        f"Convolutions take {describe(round(share * step.mean), step.mean)}, none of them in "
        "oneDNN: it is disabled, this build of torch lacks it, or the data is float64.",
        (
            Figure.share("convolutions", share, MUCH_CONVOLVING),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        parts=_computing(judged),
        unproven="why oneDNN is not used",
    )


def _onednn_noted(facts: Facts) -> Lost | None:
    judged, known = _on_cpu(facts), settings(facts)
    off = known is not None and known.mkldnn is not None and known.mkldnn.enabled is False
    if known is None or not off or (known.mkldnn and known.mkldnn.available is False):
        return None
    share = cpu_operators(facts).onednn
    step = judged.of
    cost = min(round(share * step.mean / 2), judged.computing)
    return Lost(
        cost,
        step,
        "oneDNN is disabled (torch.backends.mkldnn.enabled), and convolutions and recurrent "
        f"layers take {fmt.part_of_step(round(share * step.mean), step.mean)}.",
        (
            Figure.share("convolutions and recurrent layers", share),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=_place(facts, "mkldnn.enabled"),
        parts=_computing(judged),
    )


AFFINITY = Rule(
    id="cpu-affinity",
    when="the training is restricted to fewer cores than it can use, while others idle",
    explanation=(
        "An affinity mask (taskset, os.sched_setaffinity, srun, docker --cpuset-cpus) or a quota "
        "of the container leaves the training fewer cores than the machine has. It keeps those "
        "cores busy and has threads or data loader workers for more, while other cores idle. The "
        "cost is the time saved in operators long enough to be split, and in waits for workers."
    ),
    lost=_affinity,
    limits=Limits(0.10, 0.30, "The gain is an estimate by Amdahl's law, at 80 % efficiency."),
    fixes=("affinity-off",),
    answer="change the line or launch command that sets the mask or the quota",
)

THREADS = Rule(
    id="cpu-threads",
    when="CPU operators leave cores idle, or use more threads than there are cores",
    explanation=(
        "torch splits long operators across threads. Each process uses as many as "
        "torch.set_num_threads or OMP_NUM_THREADS set, or one per core by default. With too few, "
        "cores idle. With more threads than cores over all processes, threads wait for each other "
        "at the end of each operator. The cost counts only operators long enough to be split."
    ),
    lost=_threads,
    limits=Limits(0.10, 0.30, "The gain is an estimate by Amdahl's law, at 80 % efficiency."),
    fixes=("threads",),
    answer="torch.set_num_threads or OMP_NUM_THREADS: cores divided by processes",
)

ONEDNN = Rule(
    id="onednn-off",
    when="oneDNN is disabled while convolutions or recurrent layers run on the CPU",
    explanation=(
        "With torch.backends.mkldnn.enabled = False, convolutions and recurrent layers on the CPU "
        "use older code, measured to be 1.5 to 5 times slower. The cost is estimated as half of "
        "their time. A trace alone shows it when that code takes a quarter of the step and oneDNN "
        "takes none: torch.backends.mkldnn.is_available() shows whether the build has it."
    ),
    lost=_onednn,
    limits=Limits(0.05, 0.20, "Disabling it gains nothing."),
    fixes=("onednn-on",),
    answer="leave torch.backends.mkldnn.enabled as it is",
)
