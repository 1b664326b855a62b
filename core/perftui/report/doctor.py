"""What `perftui doctor` found, as text and as plain values."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from perftui.doctor.row import Row, State
from perftui.report.outputs.doctor import DoctorOutput
from perftui.trace.text import printable

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
