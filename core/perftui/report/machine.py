"""What doctor and probe found of a machine, as text and as JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from perftui import format as fmt
from perftui.doctor.row import Row, State
from perftui.probe.ceilings import Ceilings, NotMeasured, Rate
from perftui.report.output_text import SCHEMA, Schema, filled, said, wrapped
from perftui.trace.text import printable


class DoctorRow(TypedDict):
    """The result of one check."""

    topic: str
    state: Annotated[State, said("fails: profiling does not work; warn: part of it does not work.")]
    found: str
    advice: Annotated[
        str | None, said("What to do, as a sentence; null if there is nothing to do.")
    ]


class DoctorOutput(TypedDict):
    """`perftui doctor`: what keeps profiling from working here."""

    schema: Schema
    python: Annotated[str, said("The interpreter that trainings would run in.")]
    fails: Annotated[int, said("Rows that fail; the exit code is 1 if there are any.")]
    rows: Annotated[list[DoctorRow], said("Worst first.")]


_STATE, _TOPIC = 9, 17
"""Columns of the word and of the topic."""


def doctor_text(rows: Sequence[Row]) -> str:
    """The rows in the order given, in 80 columns, and how many there are of each state."""
    counts = Counter(row.state for row in rows)
    whole = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
    return "\n".join([*(line for row in rows for line in _lines(row)), whole]) + "\n"


def doctor_object(rows: Sequence[Row], python: str) -> DoctorOutput:
    """The rows as JSON, in the order given."""
    plain: Any = [{**msgspec.to_builtins(row), "advice": row.advice or None} for row in rows]
    fails = sum(row.state is State.FAILS for row in rows)
    return {"schema": SCHEMA, "python": python, "fails": fails, "rows": plain}


def _lines(row: Row) -> Iterator[str]:
    first = f"{row.state.value:<{_STATE}}{row.topic:<{_TOPIC}}"
    indent = " " * len(first)
    yield from wrapped(printable(row.found), indent, first) or [first.rstrip()]
    yield from wrapped(printable(row.advice), indent)


class ProbeOutput(TypedDict):
    """`perftui probe`: the peak rates of this machine."""

    schema: Schema
    host: str
    gpu: Annotated[str | None, said("Null if the CPU was measured.")]
    driver: str | None
    torch: str | None
    measured_ns: Annotated[int, said("When, nanoseconds since 1970.")]
    path: Annotated[str, said("The directory whose disk was read.")]
    rates: list[Rate]
    not_measured: list[NotMeasured]
    other_programs_cores: Annotated[
        float, said("Mean number of cores that other programs used meanwhile.")
    ]
    disturbed: Annotated[bool, said("Whether that is enough to lower the measured values.")]
    kept: Annotated[str | None, said("The file that keeps the result; null if it is not kept.")]


RATE_HEAD = f"{'rate':<26}{'at most':>13}{'spread':>9}"


def rate_cells(rate: Rate) -> tuple[str, str, str]:
    """The cells of a rate, as wide as those of ``RATE_HEAD``; how it was measured follows."""
    value, spread = fmt.rate(rate.value, rate.unit), fmt.percent(rate.spread)
    return f"{rate.name.value:<26}", f"{value:>13}", f"{spread:>9}"


def probe_text(peaks: Ceilings, file: Path | None) -> str:
    """The machine, its ceilings in a table of 80 columns, and what is missing, with the reason."""
    lines = [*wrapped(printable(_machine(peaks))), "", f"{RATE_HEAD}  how"]
    for rate in peaks.rates:
        lines += _row(rate)
    for missing in peaks.not_measured:
        lines += wrapped(missing_text(missing))
    if peaks.is_disturbed:
        lines += wrapped(
            f"Other programs used {peaks.others:.1f} of {peaks.cores} cores meanwhile: measure "
            "again on an idle machine."
        )
    lines.append(kept_text(file))
    return "\n".join(lines) + "\n"


def missing_text(missing: NotMeasured) -> str:
    """What could not be measured, and why."""
    return printable(f"{missing.name.value}: not measured: {missing.reason}")


def kept_text(file: Path | None) -> str:
    """Where the rates are kept."""
    if file is None:
        return "not kept: PERFTUI_CACHE is off, or others can write there"
    return printable(f"kept in {file}")


def probe_object(peaks: Ceilings, file: Path | None) -> ProbeOutput:
    """The ceilings as JSON; rates are bytes or floating point operations per second."""
    return filled(
        ProbeOutput,
        peaks,
        schema=SCHEMA,
        other_programs_cores=peaks.others,
        disturbed=peaks.is_disturbed,
        kept=str(file) if file else None,
    )


def _machine(peaks: Ceilings) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(peaks.measured_ns / 1e9))
    card = peaks.gpu or "no GPU"
    driver = f", driver {peaks.driver}" if peaks.driver else ""
    return f"{peaks.host}: {card}{driver}, torch {peaks.torch}, measured {day}"


def _row(rate: Rate) -> list[str]:
    first = f"{''.join(rate_cells(rate))}  "
    times = "once" if rate.repeats == 1 else f"{rate.repeats} times"
    return wrapped(printable(f"{rate.how}; {times}"), " " * len(first), first)
