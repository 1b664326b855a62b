"""Cores that a CPU training does not get, or does not use: threads, affinity, other programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.data_loader.input_wait import waits_for_workers
from perftui.facts.cpu.machine import (
    BUSY_SHARE,
    THREAD_VARIABLES,
    CpuShare,
    MachineFacts,
    busy_host,
    core_wait,
    cpu_share,
    machine_use,
    wait_for,
    wait_for_own_processes,
)
from perftui.facts.cpu.operators import operators
from perftui.facts.data_loader.batch_place import batch_lines, batch_place
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, noted_of_host, trace_fact
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import at, line_place, line_with
from perftui.facts.source.source_calls import matching_line
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.format import middle
from perftui.run.manifest import OTHER_PROGRAMS
from perftui.trace.text import printable

LONG_NS = 100_000
"""Own time of a call from which splitting it among threads pays off: waking them and waiting for
the last takes some ten microseconds."""

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
"""torch's convolutions on the CPU without oneDNN."""


@trace_fact
def cpu_operators(analysis: TraceAnalysis) -> tuple[float, float]:
    """Shares of the time of the steady steps, 0 to 1: in calls that torch splits and that are long
    enough to be split among threads; in convolutions and recurrent layers. Unknown if no profiled
    step shows the operators."""
    ops = operators(analysis)
    trace, whole = ops.trace, ops.steps.step_ns * ops.steps.steps
    splits = (ops.own >= LONG_NS) & ~ops.named(_SERIAL.match)
    onednn = kinds.busy(trace, ops.rows[ops.named(_ONEDNN.match)]).total
    return min(float(ops.own[splits].sum()) / whole, 1.0), min(onednn / whole, 1.0)


@trace_fact
def older_convolutions(analysis: TraceAnalysis) -> float:
    """Share of the steps (or the whole trace without steps) in convolutions that oneDNN could do, 0
    to 1; 0 if it does any of them. Unknown if the trace takes no time."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("nothing has been recorded")
    chosen = kinds.operators(trace) & steps.inside
    rows = np.flatnonzero(chosen & kinds.named(trace, _OLDER_CONVOLUTION.match))
    if (chosen & kinds.named(trace, "aten::mkldnn_convolution".__eq__)).any():
        return 0.0
    whole = steps.step_ns * max(steps.steps, 1)
    return min(kinds.busy(trace, rows).total / whole, 1.0)


EFFICIENCY = 0.8
"""Share of their possible saving that more threads achieve: the last of them is waited for, and
memory is shared."""

LEAST_IDLE = 0.5
"""Fewest idle cores for more threads to help."""

MUCH_CONVOLVING = 0.25
"""Share of the step in other convolutions from which a trace alone shows that oneDNN is not used:
small ones are faster without it."""


def _on_cpu(facts: Facts) -> JudgedStep:
    """The judged step of a training that computes on the CPU; raises otherwise."""
    judged = judged_step(facts)
    if facts.run is None or judged.on_device:
        raise NotApplicableError
    return judged


def _lost_to_cores(
    judged: JudgedStep, cost: int, cores: CpuShare, sentence: str, place: Place | None
) -> Lost:
    return Lost(
        cost,
        judged.of,
        f"{sentence} up to {judged.of.part_of(cost)}.",
        (
            Figure("threads of an operator", cores.threads, "count"),
            Figure("cores it may use", cores.allowed, "count"),
            Figure("cores of the machine", cores.installed, "count"),
            Figure("idle cores", round(cores.idle, 1)),
        ),
        place,
        judged.names(computes=True),
    )


def _place(facts: Facts, *names: str) -> Place | None:
    """Where one of ``names`` is set, by the run's notes or the script's text."""
    if place := settings(facts).place(*names):
        return replace(place, rank=facts.rank_number)
    return line_place(facts, matching_line(facts, "|".join(map(re.escape, names))))


@rule(
    when="CPU operators leave cores idle, or use more threads than there are cores",
    is_caution=True,
    limits=Limits("An estimate by Amdahl's law, at 80 % efficiency.", 0.10, 0.30),
    fixes=("threads",),
    answer="set torch.set_num_threads or OMP_NUM_THREADS to the cores divided by the processes",
)
def cpu_threads(facts: Facts) -> Lost | None:
    """torch splits long operators across threads, and only those are counted. With too few threads,
    cores idle; with too many, threads wait for each other. Threads limited by a variable at the
    start are taken as a choice: they claim no time."""
    judged, cores = _on_cpu(facts), cpu_share(facts)
    more = min(cores.idle, cores.allowed - cores.asked - cores.for_workers) / cores.ranks
    if not cores.is_crowded and (
        cores.is_bound or cores.threads >= cores.allowed or more < LEAST_IDLE
    ):
        return None
    lost, _ = cpu_operators(facts)
    threads, allowed = fmt.several(cores.threads, "thread"), fmt.several(cores.allowed, "core")
    if cores.is_crowded:
        lost *= 1 - cores.allowed / cores.asked
        per = f" in each of {cores.ranks} processes" if cores.ranks > 1 else ""
        sentence = f"{threads}{per}{_why(facts)}, on {allowed}: they wait for each other, for"
    else:
        lost = lost * (1 - cores.threads / (cores.threads + more)) * EFFICIENCY
        idle = f"{cores.idle:.1f} of {allowed} idle"
        sentence = f"{threads}{_why(facts)} while {idle}: more threads could save"
    cost = min(round(lost * judged.of.mean), judged.computing)
    place = _place(facts, "set_num_threads", *THREAD_VARIABLES)
    lost_to_cores = _lost_to_cores(judged, cost, cores, f"Operators run on {sentence}", place)
    if cores.is_crowded or cores.ranks > 1 or not _why(facts):
        return lost_to_cores
    # Whoever starts a single process with the variable chose it, unlike torchrun, which sets it to
    # 1 for several: a caution, without a part of the step.
    share, worst = cost / judged.of.mean, Severity.INFO
    return replace(lost_to_cores, cost_ns=0, share=share, worst=worst, parts=())


def _why(facts: Facts) -> str:
    """The variable that sets the number of threads, if no line of the user's does."""
    setup = settings(facts)
    if setup.place("set_num_threads", *THREAD_VARIABLES):
        return ""
    for name in THREAD_VARIABLES:
        value = (setup.environment or {}).get(name)
        if value:
            return f" ({name}={value} in the environment)"
    return ""


@rule(
    when="the training is restricted to fewer cores than it can use, while others idle",
    limits=Limits("An estimate by Amdahl's law, at 80 % efficiency.", 0.10, 0.30),
    fixes=("affinity-off",),
    answer="change the line or launch command that sets the mask or the quota",
)
def cpu_affinity(facts: Facts) -> Lost | None:
    """An affinity mask (taskset, srun, docker --cpuset-cpus) or a container's quota keeps the
    training on few cores, which it fills. The cost is the time saved in waits for workers and in
    operators long enough to be split."""
    judged, cores = _on_cpu(facts), cpu_share(facts)
    if cores.is_crowded or not cores.is_bound:
        return None
    waits = judged.part("input_wait") / judged.of.mean if cores.has_workers else 0.0
    splittable, _ = cpu_operators(facts)
    lost = (splittable + waits) * cores.gain * EFFICIENCY
    cost = min(round(lost * judged.of.mean), judged.computing + judged.part("input_wait"))
    sentence = (
        f"The training may run on {cores.allowed} of {fmt.several(cores.installed, 'core')} and "
        f"uses {cores.used:.1f} of them, while {cores.idle_outside:.1f} others idle: with those "
        "it could save"
    )
    place = _place(facts, "sched_setaffinity", "cpu_affinity")
    loss = _lost_to_cores(judged, cost, cores, sentence, place)
    return replace(loss, parts=(*loss.parts, "input_wait")) if cores.has_workers else loss


@rule(
    when="oneDNN is disabled while convolutions or recurrent layers run on the CPU",
    limits=Limits(),
    fixes=("onednn-on",),
    answer="remove the line that disables torch.backends.mkldnn",
)
def onednn_off(facts: Facts) -> Lost | None:
    """Convolutions and recurrent layers on the CPU then take 1.5 to 5 times as long. The cost is
    half of their time. A trace alone shows it only if that code takes a quarter of the step."""
    return _onednn_noted(facts) if facts.run else _onednn_unused(facts)


def _onednn_unused(facts: Facts) -> Lost | None:
    """For a trace alone with long convolutions, none of them by oneDNN."""
    judged = judged_step(facts)
    if judged.on_device or facts.analysis is None:
        raise NotApplicableError
    share, step = older_convolutions(facts.analysis), judged.of
    if share < MUCH_CONVOLVING:
        return None
    return Lost(
        min(round(share * step.mean / 2), judged.computing),
        step,
        f"Convolutions take {step.part_of(round(share * step.mean))}, none of them in "
        "oneDNN: it is disabled, this build of torch lacks it, or the data is float64.",
        (Figure.share("convolutions", share, MUCH_CONVOLVING),),
        parts=judged.names(computes=True),
        unproven="why oneDNN is not used",
    )


def _onednn_noted(facts: Facts) -> Lost | None:
    judged, mkldnn = _on_cpu(facts), settings(facts).mkldnn
    if mkldnn.enabled is not False or mkldnn.available is False:
        return None
    _, share = cpu_operators(facts)
    step = judged.of
    cost = min(round(share * step.mean / 2), judged.computing)
    return Lost(
        cost,
        step,
        "oneDNN is disabled (torch.backends.mkldnn.enabled), and convolutions and recurrent "
        f"layers take {step.part_of(round(share * step.mean))}.",
        (Figure.share("convolutions and recurrent layers", share),),
        place=_place(facts, "mkldnn.enabled"),
        parts=judged.names(computes=True),
    )


_NAME_CELLS = 28


def other_programs(facts: Facts) -> list[tuple[str, float, list[int]]]:
    """The busiest programs beside the run on the rank's host: the name of each with its script,
    safe to show, the mean cores that it took, and its first processes alive at the last sample, the
    busiest first. Empty if none was seen, as in a container."""
    host = noted_of_host(facts, OTHER_PROGRAMS) if facts.rank else None
    cores = host.get("cores") if isinstance(host, dict) else None
    pids = host.get("pids") if isinstance(host, dict) else None
    # Older recordings have no process ids.
    by_name = pids if isinstance(pids, dict) else {}
    return [
        (middle(printable(name), _NAME_CELLS), taken, list(by_name.get(name, ())))
        for name, taken in (cores.items() if isinstance(cores, dict) else ())
    ]


def _label(name: str, pids: Sequence[int]) -> str:
    """``pid 4123 python other.py``; several as ``pids 4123, 4124 python other.py``."""
    numbers = ", ".join(map(str, pids))
    return f"{'pid' if len(pids) == 1 else 'pids'} {numbers} {name}" if pids else name


TOO_LONG = "times too long, at most"
"""Label of how much longer times are because other programs take cores."""

WORTH_NAMING = 0.05
"""Cores taken by a program from which it is named."""


@rule(
    when="other programs take cores from the training",
    is_caution=True,
    limits=Limits("It is not the training's fault.", 0.30, 1.0, info=0.10),
    answer="stop the other programs, or train elsewhere or later",
)
def busy_host_rule(facts: Facts) -> Lost | None:
    """Programs outside the run keep at least a fifth of the cores busy while threads of the
    training wait for one. All findings were measured on that busy machine; this one claims no
    time."""
    # The time in which a runnable thread of the training waited for a core because of other
    # programs, not because of more threads of its own than cores.
    if facts.run is None:
        raise NotApplicableError
    use = machine_use(facts)
    if not busy_host(facts) or use.other_cores is None or not use.cores:
        return None
    waited, judged, others = core_wait(facts), judged_step(facts), use.other_cores
    seen = other_programs(facts)
    programs = [(name, taken, pids) for name, taken, pids in seen if taken >= WORTH_NAMING]
    # The first three, each with its busiest process.
    first = ", ".join(_label(name, pids[:1]) for name, _, pids in programs[:3])
    names = f" ({first})" if first else ""
    lost = _waiting_for_cores(
        judged,
        waited,
        use,
        f"Other programs take {others:.1f} of {fmt.several(use.cores, 'core')}{names}",
        Figure("other programs, cores", round(others, 1), threshold=BUSY_SHARE * use.cores),
        *(
            Figure.share(f"{_label(name, pids)}, of a core", taken)
            for name, taken, pids in programs
        ),
    )
    share, free = lost.cost_ns / judged.of.mean, max(int(use.cores - others), 1)
    longer = Figure.share(TOO_LONG, share / max(1 - share, 0.01))
    return replace(
        lost,
        # All times hold it: a caution beside what they say.
        cost_ns=0,
        sentence=f"{lost.sentence.removesuffix('.')}, so all times are up to "
        f"{longer.value:.0f} % too long.",
        figures=(*lost.figures, longer),
        parts=(),
        share=share,
        unproven="" if seen else "the names of those programs, which are outside the container",
        # Threads of one operator wait for the one that has no core.
        advice=f"{busy_host_rule.answer}; where others stay, leave them their cores: start with "
        f"OMP_NUM_THREADS={free}"
        if (settings(facts).threads.intra_op or 1) > free and not judged.on_device
        else "",
    )


def _waiting_for_cores(
    judged: JudgedStep, waited: float, use: MachineFacts, who: str, taken: Figure, *more: Figure
) -> Lost:
    """The ``waited`` share of time as a cost; with a GPU, of the rest of the step."""
    cost, step = round(waited * judged.of.mean), judged.of
    if judged.on_device:
        cost = min(cost, step.mean - judged.computing)
    return Lost(
        cost,
        step,
        f"{who}: the training waits for a core {step.part_of(cost)}.",
        (
            taken,
            Figure("cores", use.cores or 0, "count"),
            Figure.share("waiting for a core", use.delayed or 0.0),
            *more,
        ),
        parts=judged.names(computes=not judged.on_device),
    )


_STARTING = frozenset({"Process", "Popen", "Pool", "ProcessPoolExecutor"})
"""Calls of scripts that start processes."""


@rule(
    when="a process that the script started, or a worker, takes cores from the training",
    limits=Limits("As for loader workers.", 0.10, 0.30),
    answer="let the process block in queue.get() instead of polling, or move the process elsewhere",
)
def own_process(facts: Facts) -> Lost | None:
    """A process that the script started, or the workers of the data loader even though their
    batches come in time, keep at least a fifth of the cores busy while threads of the training wait
    for one. The cost is the longest wait of a thread."""
    if facts.run is None:
        raise NotApplicableError
    losses = [lost for lost in (_to_processes(facts), _to_workers(facts)) if lost]
    return max(losses, key=lambda lost: lost.cost_ns, default=None)


def _to_processes(facts: Facts) -> Lost | None:
    use, waited = machine_use(facts), wait_for_own_processes(facts)
    if not waited:
        return None
    line, rest, cores = line_with(facts, _STARTING), use.rest_cores or 0.0, use.cores or 0
    started = f"{at(line)}," if line else ""
    lost = _waiting_for_cores(
        judged_step(facts),
        waited,
        use,
        f"Other processes that the script started{started} take {rest:.1f} of "
        f"{fmt.several(cores, 'core')}",
        Figure("those processes, cores", round(rest, 1), threshold=BUSY_SHARE * cores),
    )
    return replace(lost, place=line_place(facts, line))


def _to_workers(facts: Facts) -> Lost | None:
    """Of workers that keep up; those that do not are told by the rules about waits for data. What
    they do may be needed, and the machine small."""
    use, judged = machine_use(facts), judged_step(facts)
    taken, cores = use.workers_cores or 0.0, use.cores or 0
    waited = wait_for(facts, taken)
    if not waited or judged.on_device or waits_for_workers(facts):
        return None
    lines = batch_lines(facts)
    lost = _waiting_for_cores(
        judged,
        waited,
        use,
        f"The workers of the data loader take {taken:.1f} of {fmt.several(cores, 'core')}"
        f"{f', {lines.named}' if lines and lines.named else ''}",
        Figure("workers, cores", round(taken, 1), threshold=BUSY_SHARE * cores),
    )
    advice = "make what the workers do cheaper, or do it once before the training"
    return replace(lost, place=batch_place(facts), advice=advice, worst=Severity.INFO)
