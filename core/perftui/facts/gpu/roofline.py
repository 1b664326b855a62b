"""How near the kernels of a step come to what the card can do: the roofline.

A call needs at least the time of its arithmetic at the card's rate, and that of its bytes at the
rate of its memory; the longer of the two is its roof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perftui.analysis.intervals import first_longest, sums, union
from perftui.analysis.kernels.category import (
    ON_TENSOR_CORES,
    Category,
    Precision,
    category_of,
    is_8_bit,
    precision_of,
)
from perftui.analysis.kernels.limits import Card, Work, work_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.gpu.cards import TraceCard, trace_card
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, Int64

_MOST_CALLS = 400
"""Calls that are looked at, the longest ones: reading the sizes of each takes 5 us and more."""


@dataclass(frozen=True)
class RoofedCall:
    """Calls of an operator with inputs of the same sizes, in one step."""

    operator: str
    sizes: str
    """Sizes of the call's inputs: ``16384x1024 1024x4096``."""
    kernel: str
    """The longest that they launched."""
    category: Category
    precision: Precision
    calls: int
    time: int
    """ns on the device, united where its kernels run at once."""
    flops: int
    """0 for what is no matrix product, convolution or attention."""
    bytes: int
    """Each input read once and the output written once; 0 where the sizes do not show it."""
    roof: int
    """ns that they would take at least; 0 where the card's rate in that precision is not known."""
    is_memory_bound: bool
    """Whether the bytes take longer than the arithmetic."""
    measured_roof: int = 0
    """``roof`` at the rates that ``perftui probe`` measured on such a card; 0 where it did not."""
    row: int = NONE
    """Row of the trace of the longest of the calls."""
    longest: int = 0
    """ns of that one on the device."""

    @property
    def reached(self) -> float:
        """Share of the roof that the call reaches, 0 to 1; above 1 if much stays in caches."""
        return self.roof / self.time if self.time else 0.0

    @property
    def reached_of_measured(self) -> float | None:
        """Share of the measured roof, as ``reached``; None where nothing was measured."""
        return self.measured_roof / self.time if self.time and self.measured_roof else None

    @property
    def intensity(self) -> float | None:
        """FLOP for each byte; None without arithmetic, or where the bytes are not known."""
        return self.flops / self.bytes if self.flops and self.bytes else None

    @property
    def flop_rate(self) -> float | None:
        """FLOP/s that are reached; None without arithmetic."""
        return self.flops * 1e9 / self.time if self.flops and self.time else None

    @property
    def byte_rate(self) -> float | None:
        """Bytes per second that are reached; None where the bytes are not known."""
        return self.bytes * 1e9 / self.time if self.bytes and self.time else None

    @property
    def saved(self) -> int | None:
        """ns that a step would be shorter if the calls reached their roof, the measured one where
        there is one; None where no roof is known."""
        roof = self.measured_roof or self.roof
        return max(self.time - roof, 0) if roof else None


@dataclass(frozen=True)
class Roofline:
    """The longest calls of a step, and its arithmetic as a whole."""

    card: str
    calls: tuple[RoofedCall, ...]
    """Longest first."""
    flops: int
    """Floating point operations of ``calls``."""
    peak: float
    """TFLOP/s of the card in the lowest precision that any of them computes in."""
    covered: int
    """ns of device time that those calls take, united."""
    whole: int
    """ns of device time that all kernels of the step take, united."""
    peaks: Card
    """By the data sheet where the card is listed, else as they were measured."""
    measured: Card | None = None
    """As ``perftui probe`` measured them on a card of that name; None where it did not."""
    is_measured: bool = False
    """Whether roofs and peak are those that ``perftui probe`` measured: the card is not listed."""


@trace_fact
def longest_call(analysis: TraceAnalysis) -> RoofedCall:
    """The longest call of a matrix product, convolution or attention in the first steady step: one
    look into the file, where the whole roofline takes hundreds. Unknown as ``roofline`` does, or
    there is no such call."""
    card, _ = _peaks_of(analysis)
    products = _of_one_step(step_kernels(analysis).of(*ON_TENSOR_CORES))
    calls = _longest_calls(products.where(products.operator != NONE))
    longest = calls.rows[[int(np.argmax(calls.time))]]
    for row, arguments in arguments_of(analysis.trace, longest):
        found = _roofed(analysis, calls, row, arguments, card)
        if found is not None and found.roof:
            return found
    raise UnknownError(_NO_SIZES)


@trace_fact
def roofline(analysis: TraceAnalysis) -> Roofline:
    """The roofline of the first steady step. Unknown if the card is not listed, sizes were not
    recorded, or no kernel has an operator."""
    step = _of_one_step(step_kernels(analysis))
    card, peaks = _peaks_of(analysis)
    kernels = step.where(step.operator != NONE)
    calls = _longest_calls(kernels)
    found: dict[tuple[str, str, str], RoofedCall] = {}
    known = []
    for row, arguments in arguments_of(analysis.trace, calls.rows):
        one = _roofed(analysis, calls, row, arguments, card)
        if one is not None:
            key = (one.operator, one.sizes, one.kernel)
            found[key] = _together(found[key], one) if key in found else one
            known.append(row)
    if not found:
        raise UnknownError(_NO_SIZES)
    ordered = tuple(sorted(found.values(), key=lambda one: -one.time))
    used = [peaks.rate(one.precision) for one in ordered if one.flops]
    return Roofline(
        card.name,
        ordered,
        sum(one.flops for one in ordered),
        max(used, default=0.0),
        kernels.where(np.isin(kernels.operator, known)).busy,
        step.busy,
        peaks,
        card.measured,
        card.is_measured,
    )


_NO_SIZES = "the sizes of tensors were not recorded (--shapes records them)"


def _peaks_of(analysis: TraceAnalysis) -> tuple[TraceCard, Card]:
    card = trace_card(analysis)
    if card.peaks is None:
        name = card.name or "the card"
        raise UnknownError(f"the peak rates of {name} are not known (perftui probe measures them)")
    return card, card.peaks


@dataclass(frozen=True, eq=False)
class _Calls:
    rows: Int64
    time: Int64
    kernel: Int64
    """Row of the longest kernel of each."""


def _of_one_step(kernels: StepKernels) -> StepKernels:
    """The kernels that were launched in the first step."""
    steps = kernels.analysis.steps
    trace = kernels.analysis.trace
    known = kernels.operator != NONE
    if not known.any():
        raise UnknownError("no kernel of the steps has an operator")
    launched = trace.start[kernels.launch]
    first = int(launched[known].min())
    step = next((step for step in steps if step.start <= first < step.end), None)
    if step is None:
        return kernels
    return kernels.where(
        (launched >= step.start) & (launched < step.end) & (kernels.launch != NONE)
    )


def _longest_calls(kernels: StepKernels) -> _Calls:
    rows, of = np.unique(kernels.operator, return_inverse=True)
    longest = kernels.rows[first_longest(of, kernels.duration, len(rows))]
    order = np.argsort(-sums(of, kernels.duration, len(rows)), kind="stable")
    chosen = np.sort(order[:_MOST_CALLS])
    return _Calls(rows[chosen], _united(kernels, rows[chosen]), longest[chosen])


def _united(kernels: StepKernels, calls: Int64) -> Int64:
    """ns that the kernels of each of ``calls``, sorted rows of operators, take: united."""
    kernels = kernels.where(np.isin(kernels.operator, calls))
    start, duration = kernels.analysis.trace.start[kernels.rows], kernels.duration
    # The calls one behind the other on one axis, further apart than kernels of a step ever are.
    window = int(np.ptp(start)) + int(duration.max()) + 1
    start = start - start.min() + np.searchsorted(calls, kernels.operator) * window
    begins = np.arange(len(calls), dtype=np.int64) * window
    return union(start, start + duration).within(begins, begins + window)


def _roofed(
    analysis: TraceAnalysis, calls: _Calls, row: int, arguments: Mapping[str, Any], card: TraceCard
) -> RoofedCall | None:
    trace = analysis.trace
    at = int(np.searchsorted(calls.rows, row))
    work = work_of(trace.name_of(row), arguments)
    if work is None:
        return None
    kernel = trace.name_of(int(calls.kernel[at]))
    precision = precision_of(kernel)
    # Cards compute with 8 bits faster than with 16, and that rate is not known here.
    rated = Precision.UNKNOWN if is_8_bit(kernel) else precision
    roof, is_memory_bound = _roof(work, card.peaks, rated)
    return RoofedCall(
        trace.name_of(row),
        _sizes(arguments),
        kernel,
        category_of(kernel),
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
    )


def _roof(work: Work, card: Card | None, precision: Precision) -> tuple[int, bool]:
    """ns that the call takes at least, and whether for its bytes; 0 where the rate is not known."""
    if card is None:
        return 0, False
    rate = card.rate(precision)
    computing = round(work.flops / rate / 1e3) if rate else 0
    moving = round(work.bytes / card.bandwidth)
    rate_known = not work.flops or computing > 0
    return max(computing, moving) if rate_known else 0, moving > computing


def _sizes(arguments: Mapping[str, Any]) -> str:
    found = arguments.get("Input Dims", arguments.get("Input dims", []))
    return " ".join("x".join(map(str, size)) for size in found if size)[:_LONGEST]


_LONGEST = 80
"""Characters of sizes."""


def _together(one: RoofedCall, other: RoofedCall) -> RoofedCall:
    # Of equals the first, so that the order in which a file is read does not matter.
    longest = max(one, other, key=lambda each: (each.longest, -each.row))
    return replace(
        longest,
        calls=one.calls + other.calls,
        time=one.time + other.time,
        flops=one.flops + other.flops,
        bytes=one.bytes + other.bytes,
        roof=one.roof + other.roof,
        measured_roof=one.measured_roof + other.measured_roof,
    )
