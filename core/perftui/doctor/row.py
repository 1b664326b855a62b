"""One line of `perftui doctor`."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class State(str, enum.Enum):
    """Worst first, as they are listed."""

    FAILS = "fails"
    """Profiling does not work with it."""
    WARN = "warn"
    """Something of it is missing, or costs more."""
    UNKNOWN = "unknown"
    """It cannot be known here."""
    OK = "ok"


@dataclass(frozen=True)
class Row:
    """The result of one check."""

    topic: str
    state: State
    found: str
    advice: str = ""
    """What to do about it, a sentence; empty where nothing has to be done."""


def worst_first(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows by state, those of one state in the order given."""
    order = list(State)
    return tuple(sorted(rows, key=lambda row: order.index(row.state)))


def ok(topic: str, found: str) -> Row:
    """A row that asks for nothing."""
    return Row(topic, State.OK, found)


def warn(topic: str, found: str, advice: str) -> Row:
    """Something is missing, or costs more."""
    return Row(topic, State.WARN, found, advice)


def fails(topic: str, found: str, advice: str) -> Row:
    """Profiling does not work."""
    return Row(topic, State.FAILS, found, advice)


def unknown(topic: str, found: str, advice: str = "") -> Row:
    """What cannot be known, and why."""
    return Row(topic, State.UNKNOWN, found, advice)
