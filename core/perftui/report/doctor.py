"""What `perftui doctor` found, as text and as plain values."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.doctor.row import Row, State
from perftui.report.encode import Schema
from perftui.trace.text import printable


class DoctorRow(TypedDict):
    """The result of one check."""

    topic: str
    state: Annotated[
        State,
        Meta(description="fails: profiling does not work; warn: part of it does not work."),
    ]
    found: str
    advice: Annotated[
        str | None, Meta(description="What to do, as a sentence; null if there is nothing to do.")
    ]


class DoctorOutput(TypedDict):
    """`perftui doctor`: what keeps profiling from working here."""

    schema: Schema
    python: Annotated[str, Meta(description="The interpreter that trainings would run in.")]
    fails: Annotated[int, Meta(description="Rows that fail; the exit code is 1 if there are any.")]
    rows: Annotated[list[DoctorRow], Meta(description="Worst first.")]


SCHEMA = 1

_WIDTH = 79
_STATE, _TOPIC = 9, 17
"""Columns of the word and of the topic."""


def text(rows: Sequence[Row]) -> str:
    """The rows in the order given, in 80 columns, and how many there are of each state."""
    return "\n".join([*(line for row in rows for line in _lines(row)), _summary(rows)]) + "\n"


def as_object(rows: Sequence[Row], python: str) -> DoctorOutput:
    """The rows as JSON, in the order given."""
    return {
        "schema": SCHEMA,
        "python": python,
        "fails": sum(row.state is State.FAILS for row in rows),
        "rows": [
            {
                "topic": row.topic,
                "state": row.state,
                "found": row.found,
                "advice": row.advice or None,
            }
            for row in rows
        ],
    }


def _lines(row: Row) -> Iterator[str]:
    first = f"{row.state.value:<{_STATE}}{row.topic:<{_TOPIC}}"
    indent = " " * len(first)
    yield from _wrapped(row.found, first, indent) or [first.rstrip()]
    yield from _wrapped(row.advice, indent, indent)


def _wrapped(words: str, first: str, indent: str) -> list[str]:
    """Names of files longer than a line are broken, so that nothing is wider."""
    return textwrap.wrap(
        printable(words),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _summary(rows: Sequence[Row]) -> str:
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
