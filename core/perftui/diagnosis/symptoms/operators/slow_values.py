"""``subnormal-numbers``: values with which the processor computes slowly."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import cache

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.diagnosis.symptoms.operators.work import cpu_work
from perftui.facts.cpu.machine import busy_host, core_wait, has_gpu
from perftui.facts.cpu.operators import work_of
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.gpu.roofline import step_calls
from perftui.facts.question import Evidence, Question
from perftui.facts.script.looks import subnormal_numbers
from perftui.facts.source.operator_lines import line_of
from perftui.facts.step.judged_step import host_parts
from perftui.facts.step.steps import TRAIN, median, steady_rows, steady_step
from perftui.facts.step.uneven_steps import FAR
from perftui.run.table import after_disturbance
from perftui.telemetry.cpu import cpu_name

SUBNORMAL = 0.01
"""Share of subnormal numbers among the values read from which they may slow products: their
neighbours are zeros, or on the way there."""

FEWEST_EITHER = 10
"""Fewest steps before and after they came, to compare."""

SLOWER = 1.25
"""Ratio of steps with them to steps before from which they are the cause: some processors take many
times as long, a Zen 4 took no longer at all."""


@fact
def subnormal_over_time(facts: Facts) -> Lost | None:
    """Steps that became slower when numbers became subnormal."""
    step, seen = steady_step(facts), subnormal_numbers(facts)
    came = next((at for at, share in seen if share >= SUBNORMAL), None)
    if came is None:
        return None
    share = seen[-1][1]
    found = f"{fmt.percent(share)} of the values read in parameters and gradients are subnormal"
    figures = (Figure.share("subnormal numbers", share, SUBNORMAL),)
    free = max((at for at, few in seen if few < SUBNORMAL and at < came), default=-1)
    # A slow rest of a run makes the fast beginning look like a warm-up.
    every, rows = facts.steps, steady_rows(facts)
    every = every.where((every["kind"] == TRAIN) & ~after_disturbance(every["profiled"]))
    before = every["duration"][every["index"] <= free]
    after = rows["duration"][rows["index"] >= came]
    if min(len(before), len(after)) >= FEWEST_EITHER:
        usual, slow = median(before), median(after)
        if slow >= SLOWER * usual:
            lost = (rows["duration"] - usual).clip(min=0) * (rows["index"] > free)
            return Lost(
                round(float(lost.mean())),
                step,
                f"Steps take {fmt.duration(slow)} instead of {fmt.duration(usual)} since numbers "
                f"became subnormal, too small for the processor's fast path: {found}.",
                figures,
                parts=host_parts(facts, (FORWARD, BACKWARD, OPTIMIZER)),
                doubt=busy_host(facts) if slow < (1 + FAR) * usual else "",
                label="above the steps before",
            )
    if share < SUBNORMAL:
        return None
    return without_cost(
        f"{found[0].upper()}{found[1:]} numbers, with which some processors compute many times as "
        "slowly.",
        figures,
        share=0.0,
        worst=Severity.INFO,
    )


_SIMPLE = re.compile(r"aten::(exp|mul|add|sub|div|sqrt|sigmoid|lerp|addcmul|addcdiv)_?$")
"""Operators that take at most 4 ns for each element of large tensors on one core, by measurement;
exp() with subnormal results took 107."""

SLOW_PER_BYTE = 1.2
"""ns per byte read and written from which they are slow: some 10 for each element."""

SLOWER_THAN_OTHERS = 6
"""Ratio to the fastest of them from which some are slow: exp() usually takes three times as
long."""

FEWEST_BYTES = 1 << 16
"""Of a call, so that calling takes little of its time."""


@cache
def subnormal_slowdown() -> float:
    """How many times as long this machine's processor takes with subnormal numbers: 1 if its fast
    path takes them, measured in 30 us by the best of seven products of 16,384 numbers."""
    best = []
    for value in (1.0, 1e-39):
        values, times = np.full(1 << 14, value, np.float32), []
        result = np.empty_like(values)
        for _ in range(7):
            begun = time.perf_counter_ns()
            np.multiply(values, np.float32(0.5), out=result)
            times.append(time.perf_counter_ns() - begun)
        best.append(min(times))
    return best[1] / best[0]


@rule(
    when="numbers become subnormal, with which the CPU computes slowly",
    limits=Limits(info=0.0),
    answer="call torch.set_flush_denormal(True) at the start of the script",
)
def subnormal_numbers_rule(facts: Facts) -> Lost | None:
    """Many processors are slow with numbers below 1e-38: weights that decay to zero, vanishing
    gradients, exp() of less than -87. Some parameters, gradients and optimizer states are read now
    and then; other values show only by the time for each byte."""
    seen = subnormal_over_time(facts)
    if facts.analysis is None or has_gpu(facts) or (seen and seen.cost_ns):
        return seen
    return _by_rate(facts, facts.analysis) or seen


def _by_rate(facts: Facts, analysis: TraceAnalysis) -> Lost | None:
    """Element-wise operators that take many times their usual time for each byte."""
    cpu = cpu_work(facts)
    simple = work_of(cpu.operators, cpu.operators.named(_SIMPLE.match))
    share = cpu.time_of(simple).won / cpu.of.mean
    if share < subnormal_numbers_rule.limits.warning:
        return None
    try:
        calls = step_calls(analysis).calls
    except UnknownError:
        about = "whether values are slow to compute with"
        raise UnknownError(Question(Evidence.SHAPES, about, share)) from None
    each = {
        call: call.shortest * call.calls / call.bytes
        for call in calls
        if _SIMPLE.match(call.operator) and call.bytes >= FEWEST_BYTES * call.calls
    }
    limit = max(SLOW_PER_BYTE, SLOWER_THAN_OTHERS * min(each.values(), default=0.0))
    slow = [call for call, rate in each.items() if rate >= limit]
    if not slow:
        return None
    longest = slow[0]
    is_here = facts.manifest is not None and facts.manifest.cpu_name == cpu_name()
    if is_here and "exp" not in longest.operator and subnormal_slowdown() < SLOWER:
        # It is something else: a call that lost its core, or memory that is mapped anew.
        return None
    work = work_of(
        cpu.operators, cpu.operators.named({call.operator for call in slow}.__contains__)
    )
    name = longest.operator.removeprefix("aten::").rstrip("_")
    loss = cpu.lost(
        work,
        line_of(facts, work.longest_of(FORWARD, OTHER), rf"\b{name}\b"),
        f"{longest.operator}{{at}} takes {{part}}, {each[longest]:.1f} ns for each "
        "byte that it reads or writes. More than 0.5 ns points to subnormal values, which are too "
        "small for the processor's fast path.",
        "slow element-wise operators",
        operator=longest.operator,
        unproven="the values",
    )
    # A single call that lost its core takes long, too.
    doubt = busy_host(facts) if core_wait.or_none(facts) else ""
    clamp = "scale or clamp its argument to more than -87, or call torch.set_flush_denormal(True)"
    return replace(loss, advice=clamp if name == "exp" else "", doubt=doubt)
