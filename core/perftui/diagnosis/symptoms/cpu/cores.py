"""A training on the CPU does not get, or does not use, the cores that are there."""

from __future__ import annotations

import re
from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.cpu_operators import cpu_operators, older_convolutions
from perftui.facts.cpu.cpu_share import THREAD_VARIABLES, CpuShare, cpu_share
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import JudgedStep, judged_step

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
