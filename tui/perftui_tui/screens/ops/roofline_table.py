"""The calls of a step against the roofs of the card, as a table and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perftui.analysis.kernels.limits import Card
from perftui.facts.gpu.roofline import RoofedCall, Roofline
from perftui.trace.text import printable
from perftui_tui.look.units import MISSING, format_percent, significant
from perftui_tui.tables.columns import (
    MARK,
    count_column,
    name_column,
    percent_column,
    text_column,
    time_column,
)
from perftui_tui.tables.rows import Column, TableData

LETTERS = "abcdefghijklmnopqrstuvwxyz"

BEYOND = (
    "above 100 %: data was still in caches, or inputs were expanded and their strides not recorded"
)
"""Why a call can be faster than its roof."""

NOT_MEASURED = "perftui probe measures what this card reaches"


def roofline_table(found: Roofline) -> TableData:
    """A row for each operator with its sizes, those first that would save most at their roof."""
    calls = found.calls
    names = [printable(f"{one.operator} {one.sizes}") for one in calls]
    of_chart = letters(calls)
    marks = [of_chart.get(row, "") for row in range(len(calls))]
    is_beside = found.measured is not None and not found.is_measured
    columns = [
        name_column("op and sizes of its inputs", names, "groups"),
        text_column("chart", marks, 5, 5),
        text_column("precision", [_precision(one) for one in calls], 14, 8),
        replace(count_column("calls", _whole([one.calls for one in calls])), optional=9),
        _rate_column("FLOP/byte", [one.intensity for one in calls], 1.0, 6),
        _rate_column("TFLOP/s", [one.flop_rate for one in calls], 1e12, 3),
        _rate_column("GB/s", [one.byte_rate for one in calls], 1e9, 4),
        text_column("bound by", [bound_by(one) for one in calls], 10, 2),
        percent_column(
            "of measured" if found.is_measured else "of roof",
            [100 * one.reached if one.roof else None for one in calls],
            1,
        ),
        *([_measured_column(calls)] if is_beside else []),
        time_column("time", _whole([one.time for one in calls])),
        _saved_column(calls),
    ]
    ids = [(one.operator, one.sizes, one.kernel) for one in calls]
    full = [f"{name}   {printable(one.kernel)}" for name, one in zip(names, calls, strict=True)]
    return TableData(full, tuple(columns), sort_column=len(columns) - 1, ids=ids)


def letters(calls: Sequence[RoofedCall]) -> dict[int, str]:
    """The letters by which the chart names some calls: those with arithmetic that would save most
    at their roof, as far as the letters reach."""
    drawn = [row for row, one in enumerate(calls) if one.intensity is not None]
    drawn.sort(key=lambda row: -(calls[row].saved or 0))
    return dict(zip(drawn, LETTERS, strict=False))


def bound_by(one: RoofedCall) -> str:
    """What its roof is made of, in a word; a dash without one."""
    if not one.roof:
        return MISSING
    return "memory" if one.is_memory_bound else "arithmetic"


def _precision(one: RoofedCall) -> str:
    """That of its arithmetic; a dash without any."""
    return one.precision.value if one.flops else MISSING


def about(found: Roofline) -> str:
    """What the table is about: which part of the step, which roofs, and what its figures mean."""
    share = format_percent(found.covered / found.whole if found.whole else 0.0)
    saved = "the measured roof" if found.measured else "the data sheet's roof"
    parts = [f"{share} of a step's GPU time   could save: at {saved}"]
    name = printable(found.card)
    if found.is_measured:
        parts.append(f"{name}, measured by perftui probe: {_peaks(found.peaks)}")
    else:
        parts.append(f"{name}, data sheet: {_peaks(found.peaks)}")
        beside = found.measured
        parts.append(NOT_MEASURED if beside is None else f"measured: {_peaks(beside)}")
    if any(one.reached > 1 for one in found.calls):
        parts.append(BEYOND)
    return "\n".join(parts)


def _peaks(card: Card) -> str:
    rates = (("float32", card.float32), ("TF32", card.tf32), ("16 bit", card.half))
    known = ", ".join(f"{name} {significant(rate)}" for name, rate in rates if rate)
    return f"{known} TFLOP/s, memory {significant(card.bandwidth / 1e3)} TB/s"


def _whole(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def _rate_column(title: str, values: Sequence[float | None], unit: float, optional: int) -> Column:
    """Three digits; a dash where nothing is known."""

    def text(row: int) -> str:
        value = values[row]
        return MISSING if value is None else significant(value / unit)

    keys = np.array([-1.0 if value is None else value for value in values])
    width = max(7, len(title) + MARK)
    return Column(title, keys, text, width, optional=optional, exact=lambda row: values[row])


def _measured_column(calls: Sequence[RoofedCall]) -> Column:
    shares = [one.reached_of_measured for one in calls]
    return percent_column("of measured", [None if s is None else 100 * s for s in shares], 2)


def _saved_column(calls: Sequence[RoofedCall]) -> Column:
    saved = [one.saved for one in calls]
    column = time_column("could save", _whole([-1 if ns is None else ns for ns in saved]))
    text = column.text
    return replace(
        column,
        text=lambda row: MISSING if saved[row] is None else text(row),
        exact=lambda row: saved[row],
    )
