"""One line of `perftui doctor`, and the files below /proc, /sys and /dev that it is read from."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


class State(str, enum.Enum):
    """Worst first, as they are listed."""

    FAILS = "fails"
    """Profiling does not work."""
    WARN = "warn"
    """Something is missing, or costs more."""
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
    """What to do about it, as a sentence; empty where nothing has to be done."""


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


def unknown(topic: str, found: str) -> Row:
    """A row about what cannot be known, and why."""
    return Row(topic, State.UNKNOWN, found)


ROOT = Path("/")

SYS_PTRACE, SYS_ADMIN, PERFMON = 19, 21, 38
"""Bits of the capabilities in ``/proc/self/status``: capability.h of Linux."""


def read(root: Path, name: str) -> str | None:
    """The text of ``root/name`` without white space around it; None where it cannot be read."""
    try:
        return (root / name).read_text(errors="replace").strip()
    except OSError:
        return None


def has_capability(root: Path, bit: int) -> bool:
    """Whether this process is known to have it, among its effective capabilities."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", read(root, "proc/self/status") or "", re.M)
    return match is not None and bool(int(match[1], 16) >> bit & 1)


def processes(root: Path) -> Iterator[tuple[int, str]]:
    """Number and short name (15 characters at most) of each process that can be seen."""
    for path in sorted((root / "proc").glob("[0-9]*")):
        name = read(path, "comm")
        if name and path.name.isdecimal():
            yield int(path.name), name
