"""How close the kernels of a step come to the card's limits: the roofline.

A call needs at least the time of its arithmetic at the card's rate, and that of its bytes at the
rate of its memory; the longer of the two is its roof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from perftui.analysis.intervals import first_longest, sums, union
from perftui.analysis.kernels.category import EIGHT_BITS, Category, Precision, precision_of
from perftui.analysis.kernels.limits import Card, Work, work_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.cpu.operators import all_operators
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.gpu.cards import TraceCard, trace_card
from perftui.facts.gpu.kernels import CATEGORIES, StepKernels, step_kernels
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, Int64

_MOST_CALLS = 2_000
"""Number of longest calls examined: reading the sizes of each takes 70 us."""

_MOST_WITHOUT = 20
"""Calls without sizes after which the trace has none."""


@dataclass(frozen=True)
class RoofedCall:
    """Calls of an operator with equal input sizes, in one step."""

    operator: str
    sizes: str
    """Sizes of the call's inputs: ``16384x1024 1024x4096``."""
    kernel: str
    """The longest kernel they launched; empty on the CPU."""
    category: Category
    precision: Precision
    calls: int
    time: int
    """ns on the device, overlapping kernels count once; own CPU time on the CPU."""
    flops: int
    """0 for anything but matrix products, convolutions and attention."""
    bytes: int
    """Each input read once, a batch twice for its statistics, and the output written once; 0 if
    the sizes do not show it."""
    roof: int
    """Least time of the calls, ns; 0 if the card's rate in that precision is unknown."""
    is_memory_bound: bool
    """Whether the bytes take longer than the arithmetic."""
    measured_roof: int = 0
    """``roof`` at the rates that ``perftui probe`` measured on such a card; 0 if it did not."""
    row: int = NONE
    """Trace row of the longest call."""
    longest: int = 0
    """ns of the longest call on the device."""
    shortest: int = 0
    """ns of the shortest call: others may have waited for a core."""

    @property
    def reached(self) -> float:
        """Share of the roof that the call reaches, 0 to 1; above 1 if much stays in caches."""
        return self.roof / self.time if self.time else 0.0

    @property
    def reached_of_measured(self) -> float | None:
        """Share of the measured roof, as ``reached``; None if nothing was measured."""
        return self.measured_roof / self.time if self.time and self.measured_roof else None

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None without arithmetic or with unknown bytes."""
        return self.flops / self.bytes if self.flops and self.bytes else None

    @property
    def flop_rate(self) -> float | None:
        """FLOP/s reached; None without arithmetic."""
        return self.flops * 1e9 / self.time if self.flops and self.time else None

    @property
    def byte_rate(self) -> float | None:
        """Bytes per second reached; None if the bytes are unknown."""
        return self.bytes * 1e9 / self.time if self.bytes and self.time else None

    @property
    def bound(self) -> str | None:
        """``memory`` or ``arithmetic``, whichever sets the roof; None if it is unknown."""
        return ("memory" if self.is_memory_bound else "arithmetic") if self.roof else None

    @property
    def saved(self) -> int | None:
        """ns saved per step if the calls reached their roof, measured if possible; None if
        unknown."""
        roof = self.measured_roof or self.roof
        return max(self.time - roof, 0) if roof else None


@dataclass(frozen=True)
class KindReach:
    """What one kind of work reaches of the card's rates."""

    category: Category
    time: int
    """ns a step of its calls with a known roof."""
    saved: int
    """ns that they would take less at their roof."""
    worst: RoofedCall
    """The calls that would save most."""

    @property
    def reached(self) -> float:
        """Share of the roof, 0 to 1: calls faster than memory count as at their roof."""
        return 1 - self.saved / self.time


@dataclass(frozen=True, eq=False)
class Roofline:
    """Calls of the first steady step with the sizes of their inputs."""

    card: TraceCard
    calls: tuple[RoofedCall, ...]
    """Longest first."""
    covered: int
    """ns of device time of ``calls``, overlaps count once; of own CPU time without a GPU."""
    roofed: int
    """The same of those whose roof is known."""
    whole: int
    """The same of all kernels, or operators, of the step."""

    @property
    def peaks(self) -> Card:
        """Peak rates by the data sheet if the card is listed, else as measured. Unknown if it was
        not."""
        return peaks_of(self.card)

    @cached_property
    def kinds(self) -> tuple[KindReach, ...]:
        """Kinds of work, as far as their roofs are known, the largest savings first."""
        groups: dict[Category, list[RoofedCall]] = {}
        for call in self.calls:
            if call.roof:
                groups.setdefault(call.category, []).append(call)
        kinds = [
            KindReach(
                category,
                sum(call.time for call in calls),
                sum(max(call.time - call.roof, 0) for call in calls),
                max(calls, key=lambda call: call.time - call.roof),
            )
            for category, calls in groups.items()
        ]
        return tuple(sorted(kinds, key=lambda kind: -kind.saved))

    @property
    def known(self) -> float:
        """Share of the kernels' time whose roof is known, 0 to 1."""
        return self.roofed / self.whole

    @property
    def reached(self) -> float:
        """Share of the roof in that time, 0 to 1; what runs side by side reaches more together."""
        needed = sum(kind.time - kind.saved for kind in self.kinds)
        return min(needed / self.roofed, 1.0) if self.roofed else 0.0


@trace_fact
def step_calls(analysis: TraceAnalysis) -> Roofline:
    """The longest calls, whatever computes them. Unknown if sizes were not recorded, or no kernel
    has an operator."""
    card, kernels = trace_card(analysis), None
    if analysis.has_gpu:
        step = _of_one_step(step_kernels(analysis))
        kernels, whole = step.where(step.operator != NONE), step.busy
        calls = _longest_calls(kernels)
    else:
        calls, whole = _calls_on_cpu(analysis)
    merged: dict[tuple[str, str, str], RoofedCall] = {}
    rows, roofed, are_recorded = [], [], False
    for number, (row, arguments) in enumerate(arguments_of(analysis.trace, calls.rows)):
        call = _roofed(analysis, calls, row, arguments, card)
        if call is not None:
            key = (call.operator, call.sizes, call.kernel)
            merged[key] = _together(merged[key], call) if key in merged else call
            rows.append(row)
            roofed += [row] if call.roof else []
        are_recorded = are_recorded or not _SIZES.isdisjoint(arguments)
        if number >= _MOST_WITHOUT and not are_recorded:
            break
    if not merged:
        raise UnknownError(NO_SIZES)
    covered, known = (
        int(calls.time[np.isin(calls.rows, of)].sum())
        if kernels is None
        else kernels.where(np.isin(kernels.operator, of)).busy
        for of in (rows, roofed)
    )
    ordered = tuple(sorted(merged.values(), key=lambda call: -call.time))
    return Roofline(card, ordered, covered, known, whole)


@trace_fact
def roofline(analysis: TraceAnalysis) -> Roofline:
    """The roofline of the first steady step. Unknown as ``step_calls``, or if the card is not
    listed; not applicable without kernels."""
    step_kernels(analysis)
    peaks_of(trace_card(analysis))
    return step_calls(analysis)


NO_SIZES = "the sizes of tensors were not recorded (--shapes records them)"


def peaks_of(card: TraceCard) -> Card:
    """The peak rates of ``card``. Unknown if it is not listed and was not measured."""
    if card.peaks is None:
        name = card.name or "the card"
        raise UnknownError(f"the peak rates of {name} are not known (perftui probe measures them)")
    return card.peaks


@dataclass(frozen=True, eq=False)
class _Calls:
    rows: Int64
    time: Int64
    kernel: Int64
    """Row of the longest kernel of each call; NONE on the CPU."""
    category: Int64
    """Index into ``Category`` of that kernel."""


def _of_one_step(kernels: StepKernels) -> StepKernels:
    """Kernels launched in the first step."""
    steps = kernels.analysis.steps
    trace = kernels.analysis.trace
    called = kernels.operator != NONE
    if not called.any():
        raise UnknownError("no kernel of the steps has an operator")
    launched = trace.start[kernels.launch]
    first = int(launched[called].min())
    step = next((step for step in steps if step.start <= first < step.end), None)
    if step is None:
        return kernels
    return kernels.where(
        (launched >= step.start) & (launched < step.end) & (kernels.launch != NONE)
    )


def _calls_on_cpu(analysis: TraceAnalysis) -> tuple[_Calls, int]:
    """The longest operators of the first step by own time, and the own time of all."""
    ops = all_operators(analysis)
    starts = analysis.trace.start[ops.rows]
    step = ops.steps.step_at(int(starts.min()))
    within = (starts < step.end) if step else np.ones(len(starts), dtype=bool)
    rows, own = ops.rows[within].astype(np.int64), ops.own[within]
    chosen = np.sort(np.argsort(-own, kind="stable")[:_MOST_CALLS])
    nothing = np.full(len(chosen), NONE, dtype=np.int64)
    other = np.full(len(chosen), CATEGORIES.index(Category.OTHER), dtype=np.int64)
    return _Calls(rows[chosen], own[chosen], nothing, other), int(own.sum())


def _longest_calls(kernels: StepKernels) -> _Calls:
    rows, of = np.unique(kernels.operator, return_inverse=True)
    longest = first_longest(of, kernels.duration, len(rows))
    order = np.argsort(-sums(of, kernels.duration, len(rows)), kind="stable")
    chosen = np.sort(order[:_MOST_CALLS])
    longest = longest[chosen]
    time = _united(kernels, rows[chosen])
    return _Calls(rows[chosen], time, kernels.rows[longest], kernels.category[longest])


def _united(kernels: StepKernels, calls: Int64) -> Int64:
    """ns of the kernels of each of ``calls`` (sorted operator rows); overlaps count once."""
    kernels = kernels.where(np.isin(kernels.operator, calls))
    start, duration = kernels.analysis.trace.start[kernels.rows], kernels.duration
    # Lay the calls out on one axis, further apart than kernels of a step ever are.
    window = int(np.ptp(start)) + int(duration.max()) + 1
    start = start - start.min() + np.searchsorted(calls, kernels.operator) * window
    begins = np.arange(len(calls), dtype=np.int64) * window
    return union(start, start + duration).within(begins, begins + window)


def _roofed(
    analysis: TraceAnalysis, calls: _Calls, row: int, arguments: Mapping[str, Any], card: TraceCard
) -> RoofedCall | None:
    trace = analysis.trace
    at = int(np.searchsorted(calls.rows, row))
    name = trace.name_of(row)
    work = work_of(name, arguments)
    if work is None:
        return None
    kernel = trace.name_of(int(calls.kernel[at])) if calls.kernel[at] != NONE else ""
    precision = precision_of(kernel)
    kinds = arguments.get("Input type", arguments.get("Input Types", []))
    if precision is Precision.UNKNOWN and work.flops and not _HALVES.isdisjoint(map(str, kinds)):
        precision = Precision.HALF
    # Cards compute with 8 bits faster than with 16, and that rate is not listed.
    rated = Precision.UNKNOWN if EIGHT_BITS.search(kernel) else precision
    roof, is_memory_bound = _roof(work, card.peaks, rated)
    dims = arguments.get("Input Dims", arguments.get("Input dims", []))
    return RoofedCall(
        name,
        " ".join("x".join(map(str, size)) for size in dims if size)[:_LONGEST],
        kernel,
        CATEGORIES[calls.category[at]],
        precision,
        1,
        int(calls.time[at]),
        work.flops,
        work.bytes,
        roof,
        is_memory_bound,
        _roof(work, card.measured, rated)[0],
        row,
        int(calls.time[at]),
        int(calls.time[at]),
    )


def _roof(work: Work, card: Card | None, precision: Precision) -> tuple[int, bool]:
    """Least ns of the call, and whether its bytes set it; 0 if the rate is unknown."""
    if card is None:
        return 0, False
    rate = card.rate(precision)
    computing = round(work.flops / rate / 1e3) if rate else 0
    moving = round(work.bytes / card.bandwidth)
    rate_known = not work.flops or computing > 0
    return max(computing, moving) if rate_known else 0, moving > computing


_SIZES = frozenset({"Input Dims", "Input dims"})
_HALVES = frozenset({"c10::BFloat16", "c10::Half"})


_LONGEST = 80
"""Most characters of sizes shown."""


def _together(call: RoofedCall, other: RoofedCall) -> RoofedCall:
    # If equally long, the first row, so that the order of reading does not matter.
    longest = max(call, other, key=lambda call: (call.longest, -call.row))
    return replace(
        longest,
        calls=call.calls + other.calls,
        time=call.time + other.time,
        shortest=min(call.shortest, other.shortest),
        flops=call.flops + other.flops,
        bytes=call.bytes + other.bytes,
        roof=call.roof + other.roof,
        measured_roof=call.measured_roof + other.measured_roof,
    )
