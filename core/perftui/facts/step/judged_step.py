"""The mean step that a verdict rests on, split into computing and everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import covered
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps import (
    BACKWARD,
    COMPUTE,
    EXPOSED_COMMUNICATION,
    FORWARD,
    INPUT_WAIT,
    OPERATORS,
    OPTIMIZER,
    OTHER,
    find_phases,
)
from perftui.facts.fact import Facts, UnknownError, fact, finite, samples, trace_fact
from perftui.facts.gpu.cards import own_gpus, peak_reserved
from perftui.facts.ranks.collectives import collectives
from perftui.facts.source.lines import is_without_steps, stack_samples
from perftui.facts.step.steps import (
    DEVICE_COLUMNS,
    FEWEST_STEPS,
    LONG_RUN_NS,
    StepBreakdown,
    steady_rows,
    steady_span,
    steady_step,
    step_breakdown,
    timed_steps,
)
from perftui.facts.step.trace_steps import (
    TraceSteps,
    complete,
    drives_device,
    no_kernels,
    trace_steps,
)
from perftui.format import apportioned
from perftui.run.columns import COLLATE, FETCH
from perftui.telemetry.gpu.names import gpu_prefixes

# A window of one step shows the causes of idle time, and may be no typical step. NVML's samples and
# the events around the phases of steps show less of each, but of many steps: 18 launch-bound runs
# that idle 60 to 90 % of a window's step were sampled 13 to 44 % busy.

OTHERS_HOLD = 0.10
"""Share of the card's memory that others may hold while its samples are taken for the training's: a
context and its libraries take up to 2 GB of it."""


@fact
def sampled_busy(facts: Facts) -> float | None:
    """Share of the steady steps in which NVML saw a kernel running, 0 to 1; None if the rank has
    not one card for itself, or fewer than two samples of it."""
    table, during = samples(facts), steady_span(facts)
    if during is None or "time" not in table:
        return None
    known = gpu_prefixes(column.name for column in table.columns)
    gpu, *others = own_gpus.or_none(facts) or known or [""]
    inside = table.where((table["time"] >= during[0]) & (table["time"] <= during[1]))
    busy = finite(inside, f"{gpu}.utilization")
    if others or len(busy) < FEWEST_STEPS or not _alone(facts, gpu):
        return None
    return float(busy.mean()) / 100


def _alone(facts: Facts, gpu: str) -> bool:
    """Whether the memory in use on the card is the training's own."""
    used, total, mine = (
        finite(samples(facts), f"{gpu}.{name}").max(initial=0)
        for name in ("memory_used", "memory_total", "process_memory")
    )
    # In a container no process of the training is listed: what torch holds is.
    own = float(mine) or peak_reserved(facts) or 0
    return bool(total) and bool(own) and used - own <= OTHERS_HOLD * total


@fact
def idle_in_waits(facts: Facts) -> float:
    """Share of the time in the data loader in which the GPU may idle, 0 to 1: it works off what is
    queued while the host waits. By steps timed on the GPU; 1 if there are fewer than two."""
    timed = timed_steps(steady_rows(facts))
    if timed is None or len(timed) < FEWEST_STEPS:
        return 1.0
    working = sum(timed[column].clip(min=0) for column in DEVICE_COLUMNS)
    waits = timed["input_wait"]
    free = np.minimum(waits, np.maximum(timed["duration"] - working, 0))
    return float(free.sum() / waits.sum()) if waits.any() else 1.0


LONG_READ = 100_000
"""ns from which an operator that reads a value waits for a device: on the CPU it takes 1 us."""

_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})


@dataclass(frozen=True)
class PhaseShares:
    """Shares of a phase's time, 0 to 1 each; they do not overlap."""

    computing: float
    """An operator runs that computes."""
    loss: float
    """An operator runs between a forward and the next backward pass; within ``other`` only."""
    communicating: float
    """A collective is under way and nothing is computed."""
    reading: float
    """An operator waits for a device to read a value, and nothing else goes on."""
    time: int
    """ns of the phase in the steady steps of the trace."""


@trace_fact
def phase_shares(analysis: TraceAnalysis) -> Mapping[str, PhaseShares]:
    """What goes on in each phase of the training thread, and in ``other``, the rest of the steady
    steps. Uses the whole trace if its steps are unknown, the first steps of a trace with very many
    operators; leaves out absent phases. Unknown without operators and collectives."""
    steps, trace = trace_steps(analysis), analysis.trace
    operators = kinds.operators(trace)
    if steps is None or not (operators.any() or kinds.host_collectives(trace).any()):
        raise UnknownError("no profiled step shows the operators")
    if (fewer := steps.first(operators)) is not steps:
        steps, operators = fewer, operators & fewer.inside
    # Backward runs on the thread that trains, or on one of the autograd engine's own.
    reads = kinds.named(trace, _READS.__contains__) & (trace.duration >= LONG_READ) & operators
    running = covered(trace, operators & ~reads)
    # A call that begins a collective may wait in it, and backward's operators are around it.
    computing = subtract(running, kinds.busy(trace, kinds.collective_calls(trace)))
    communicating = subtract(collectives(analysis), computing)
    reading = subtract(covered(trace, reads), unite(computing, communicating))
    phases = {name: part for name, part in _phases(steps).items() if part.total}
    reducing = intersect(communicating, phases.get(OTHER, EMPTY)).total
    if not phases.keys() - {INPUT_WAIT, OTHER} and not reducing:
        raise UnknownError("no profiled step shows any phase of the training")
    loss = intersect(_between(phases), phases.get(OTHER, EMPTY))
    return {
        name: PhaseShares(
            intersect(computing, part).total / part.total,
            intersect(computing, loss).total / part.total if name == OTHER else 0.0,
            intersect(communicating, part).total / part.total,
            intersect(reading, part).total / part.total,
            part.total,
        )
        for name, part in phases.items()
    }


def unmarked_operators(shares: Mapping[str, PhaseShares]) -> float:
    """Share of the script's own code that is a forward pass nobody marked, as of a training without
    modules; 0 to 1."""
    operators, other = shares.get(OPERATORS), shares.get(OTHER)
    if operators is None:
        return 0.0
    return operators.time / max(operators.time + (other.time if other else 0), 1)


def _between(phases: Mapping[str, Intervals]) -> Intervals:
    """From the end of each forward pass to the next backward pass, if no forward is between."""
    forward, backward = phases.get(FORWARD, EMPTY), phases.get(BACKWARD, EMPTY)
    if not len(forward) or not len(backward):
        return EMPTY
    following = np.searchsorted(backward.start, forward.end)
    has_next = following < len(backward)
    begins = forward.end[has_next]
    ends = backward.start[following[has_next]]
    later = np.searchsorted(forward.start, begins)
    valid = (ends > begins) & (np.append(forward.start, np.iinfo(np.int64).max)[later] >= ends)
    return union(begins[valid], ends[valid])


@trace_fact
def host_phases(analysis: TraceAnalysis) -> Mapping[str, int]:
    """Mean time, ns, of each phase of the training thread, and ``other``, over the steady steps.
    Unknown if the trace has no steps or no phases marked by our agent."""
    steps = trace_steps(analysis)
    if steps is None or not steps.steps or not kinds.marked(analysis.trace, FORWARD).any():
        raise UnknownError("no profiled step has its phases marked")
    return {name: part.total // steps.steps for name, part in _phases(steps).items()}


def _phases(steps: TraceSteps) -> Mapping[str, Intervals]:
    trace, within = steps.analysis.trace, steps.on_host
    marked = find_phases(trace)
    phases = {name: intersect(part, within) for name, part in marked.items()}
    phases[OTHER] = subtract(within, unite(EMPTY, *phases.values()))
    return phases


# The profiler slows only the host: the device's work takes as long as without it. So if the run's
# step is shorter than the window's, idle time is what the device's work leaves. If it is longer,
# the run's own phases show what the window missed.

MOST_SLOWED = 0.5
"""Share of launch time that the profiler may have added: it up to doubles an operator's time."""

DISAGREES = 0.05
"""Relative difference of a window's step from the run's mean from which it is noted."""

_WAIT, _LAUNCH = GapCause.INPUT_WAIT.value, GapCause.LAUNCH.value
IDLE_PARTS = tuple(cause.value for cause in GapCause)
"""Parts of a step in which the device idles, by cause."""


def unprofiled(
    window: StepBreakdown, of_run: StepBreakdown, host: Mapping[str, int] | None
) -> dict[str, int]:
    """Parts of the run's mean step, ns, that sum to it exactly.

    ``host`` maps each phase of the training thread to its ns in the window's mean step, if phases
    are marked; extra time of a phase in the run is work the window missed."""
    work = {name: ns for name, ns in window.parts if name not in IDLE_PARTS}
    idle = {name: ns for name, ns in window.parts if name in IDLE_PARTS}
    work = _split(work, min(sum(work.values()), of_run.mean))
    left = of_run.mean - sum(work.values())
    idle[GapCause.PROFILER.value] = 0
    if host is not None:
        # The host waits no longer than it did in the run.
        idle[_WAIT] = min(idle.get(_WAIT, 0), of_run.part("input_wait"))
    missing = left - sum(idle.values())
    if missing < 0:
        idle[_LAUNCH] = idle.get(_LAUNCH, 0)
        idle[_LAUNCH] -= min(-missing, round(MOST_SLOWED * idle[_LAUNCH]))
        return work | _split(idle, left)
    host_parts: dict[str, int] = {}
    if host is not None:
        # Give what the window lacks to the phases in which the run's thread spends more.
        waits = min(max(of_run.part("input_wait") - host.get("input_wait", 0), 0), missing)
        others = min(max(of_run.part(OTHER) - host.get(OTHER, 0), 0), missing - waits)
        host_parts = {_WAIT: idle.pop(_WAIT) + waits, OTHER: others}
    # Whatever else makes steps longer than the window's is spread over the rest.
    rest = work | idle
    if not sum(rest.values()):
        rest[GapCause.UNEXPLAINED.value] = 1
    parts = _split(rest, of_run.mean - sum(host_parts.values()))
    return parts | {name: parts.get(name, 0) + ns for name, ns in host_parts.items()}


def _split(weights: Mapping[str, int], units: int) -> dict[str, int]:
    """Split ``units`` in proportion to ``weights``, which have a positive value or are empty."""
    return dict(zip(weights, apportioned(list(weights.values()), units), strict=True))


UNSEEN_IDLE = 0.05
"""Share of the step that a GPU may idle in short gaps between samples of NVML that all show it
busy: windows with 3 to 6 % of idle time were sampled at 97 to 100 %."""

MUCH_IDLE = 0.1
"""Share of the step from which idle time matters and must be known."""

PYTHON_IN = "python in "
"""Prefix of a phase's name: its time outside operators."""

STAGES = {
    "input_wait": (FETCH, COLLATE),
    "forward": (FORWARD,),
    "backward": (BACKWARD,),
    "optimizer": (OPTIMIZER,),
}
"""Stages of stack samples by phase."""

READING = "reading values"
"""Part of CPU operators that wait for a device without recorded activity."""

LOSS = "loss"
"""Part of operators that the script calls between forward and backward."""

HOST_AT_WORK = (
    GapCause.PYTHON.value,
    GapCause.CPU_OPERATORS.value,
    GapCause.COMPILATION.value,
    GapCause.INITIALISATION.value,
    GapCause.LAUNCH.value,
    GapCause.UNEXPLAINED.value,
    OTHER,
)
"""Parts in which the device idles while the host does any work of its own; a pause of the host may
show in any of them."""

PYTHON_AT_WORK = (OTHER, *(f"{PYTHON_IN}{phase}" for phase in ("forward", "backward", "optimizer")))
"""The same without a GPU: parts in which the training thread runs Python."""

_COMPUTING = ("forward", "backward", "optimizer", OPERATORS)
"""Phases of the training thread whose operators are the training's own work."""


@dataclass(frozen=True)
class Part:
    """An exclusive part of the mean step, ns; ``computes`` marks the training's own work."""

    name: str
    ns: int
    computes: bool


@dataclass(frozen=True)
class JudgedStep:
    """Parts that sum to ``of.mean`` exactly."""

    of: StepBreakdown
    """The run's mean step if known, else the trace's."""
    parts: tuple[Part, ...]
    on_device: bool
    """Whether parts are of the GPU's time, else of the training thread's."""
    sees_operators: bool
    """Whether computing and waiting are told apart: by kernels, or by CPU operators."""
    disagree: str = ""
    """How readings of the device's idle time disagree, as a clause; empty if they agree."""

    @property
    def computing(self) -> int:
        """Time of the parts that compute, ns."""
        return sum(part.ns for part in self.parts if part.computes)

    @property
    def hides_forward(self) -> bool:
        """Whether the forward pass hides in the script's own code: no module is called, and no
        window shows operators."""
        of = self.of
        return not self.sees_operators and bool(of.part(BACKWARD)) and not of.part(FORWARD)

    def part(self, name: str) -> int:
        """Time of the part ``name``, ns; 0 if absent."""
        return next((part.ns for part in self.parts if part.name == name), 0)

    def names(self, *, computes: bool) -> tuple[str, ...]:
        """Names of the parts that compute, or of those that do not."""
        return tuple(part.name for part in self.parts if part.computes == computes)


def host_parts(facts: Facts, phases: Sequence[str], *more: str) -> tuple[str, ...]:
    """Parts of the step that hold the training thread's ``phases``; on a GPU, those in which it
    idles while the host works, and ``more``."""
    judged = judged_step.or_none(facts)
    if judged is not None and judged.on_device:
        return (*HOST_AT_WORK, *more)
    return (*phases, *(f"{PYTHON_IN}{phase}" for phase in phases))


@fact
def judged_step(facts: Facts) -> JudgedStep:
    """The run's step, split as in its newest window; for a trace alone, the trace's step.
    Unknown if there are too few steps, nothing shows where their time goes, or device activity
    is missing."""
    trace = trace_steps.or_none(facts)
    if trace is not None and trace.has_gpu:
        idle = sum(ns for name, ns in trace.breakdown.parts if name in IDLE_PARTS)
        if idle >= MUCH_IDLE * trace.step_ns:
            complete(trace.analysis)
        return _of_device(facts, trace)
    if facts.run is None:
        if trace is None:
            raise UnknownError("nothing has been recorded")
        if drives_device(trace.analysis):
            raise UnknownError(no_kernels(trace.analysis))
        if trace.breakdown.part(OTHER) == trace.step_ns and phase_shares.or_none(facts) is None:
            raise UnknownError("the trace shows neither operators nor phases of a training")
        return _of_thread(facts, trace.breakdown)
    try:
        step = steady_step(facts)
    except UnknownError:
        sampled = _of_samples(facts)
        if sampled is None:
            raise
        return sampled
    return _of_thread(facts, step)


def _of_samples(facts: Facts) -> JudgedStep | None:
    """An ended run without steps as one step, split by the stages of its stack samples."""
    outside, _ = stack_samples(facts)
    if not len(outside) or "stage" not in outside or not is_without_steps(facts):
        return None
    times, stage = outside["held"], outside["stage"]
    whole = int(times.sum())
    if whole < LONG_RUN_NS:
        return None
    parts = {name: int(times[np.isin(stage, names)].sum()) for name, names in STAGES.items()}
    parts["other"] = whole - sum(parts.values())
    split = tuple((name, ns) for name, ns in parts.items() if ns)
    step = StepBreakdown(0, whole, split, whole, whole, whole, usual=whole, of_run=False)
    return _of_thread(facts, step)


def _of_device(facts: Facts, trace: TraceSteps) -> JudgedStep:
    of_run = step_breakdown(facts) if facts.run else None
    if of_run is None or not of_run.mean:
        breakdown, parts, disagree = trace.breakdown, dict(trace.breakdown.parts), ""
    else:
        breakdown = of_run
        parts = unprofiled(trace.breakdown, of_run, host_phases.or_none(facts))
        disagree = _bound(parts, of_run, trace, facts)
    ordered = tuple(Part(name, ns, name == COMPUTE) for name, ns in parts.items())
    return JudgedStep(breakdown, ordered, True, True, disagree)


def _bound(parts: dict[str, int], of: StepBreakdown, trace: TraceSteps, facts: Facts) -> str:
    """Take from the idle ``parts`` what other readings rule out; the device computes instead. How
    the readings disagree, if by much."""
    most = min(parts.get(_WAIT, 0), round(of.part(INPUT_WAIT) * idle_in_waits(facts)))
    parts[COMPUTE] = parts.get(COMPUTE, 0) + parts.get(_WAIT, 0) - most
    parts[_WAIT] = most
    busy = sampled_busy(facts)
    idle = {name: ns for name, ns in parts.items() if name in (*IDLE_PARTS, OTHER)}
    whole = sum(idle.values())
    if busy is None or whole <= (1 - busy) * of.mean:
        return ""
    left = min(round((1 - busy + UNSEEN_IDLE) * of.mean), whole)
    parts |= _split(idle, left)
    parts[COMPUTE] += whole - left
    if whole - (1 - busy) * of.mean < MUCH_IDLE * of.mean:
        return ""
    return (
        f"by {fmt.several(trace.steps, 'profiled step')} it would idle "
        f"{fmt.percent(whole / of.mean)} of the time, by NVML's samples {fmt.percent(1 - busy)}"
    )


def _of_thread(facts: Facts, step: StepBreakdown) -> JudgedStep:
    """Split each phase into computing and the rest; collectives of all phases become one part."""
    shares = phase_shares.or_none(facts)
    parts: list[Part] = []
    waiting = reading = 0
    for name, whole in step.parts:
        ns = whole
        if shares is not None and name == OTHER and step.of_run:
            unmarked = round(ns * unmarked_operators(shares))
            parts.append(Part(OPERATORS, unmarked, True))
            ns -= unmarked
        share = shares.get(name) if shares is not None else None
        if share is None:
            parts.append(Part(name, ns, name in _COMPUTING))
            continue
        in_collectives = round(ns * share.communicating)
        in_reads = min(round(ns * share.reading), ns - in_collectives)
        waiting, reading = waiting + in_collectives, reading + in_reads
        ns -= in_reads
        if name not in _COMPUTING:
            loss = min(round((ns + in_reads) * share.loss), ns - in_collectives)
            parts += [Part(LOSS, loss, True), Part(name, ns - in_collectives - loss, False)]
            continue
        computing = min(round((ns + in_reads) * share.computing), ns - in_collectives)
        rest = ns - in_collectives - computing
        parts += [Part(name, computing, True), Part(f"{PYTHON_IN}{name}", rest, False)]
    parts.append(Part(EXPOSED_COMMUNICATION, waiting, computes=False))
    parts.append(Part(READING, reading, computes=False))
    chosen = tuple(part for part in parts if part.ns)
    return JudgedStep(step, chosen, on_device=False, sees_operators=shares is not None)
