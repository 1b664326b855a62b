"""What became of an expected value: met, explained, or about something that we do not show."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import pytest

from tests.verify.corpus.collection import expected


class Outcome(str, Enum):
    """How an expected value is accounted for."""

    MET = "met"
    EXPLAINED = "explained"
    NOT_SHOWN = "not shown"


class Differs(IntEnum):
    """Where another tool differs from us, by the numbers of the collection's INDEX.md."""

    STREAM_ROWS = 1
    """Every row that has a stream counts as busy, not only kernels, copies and sets."""
    UNLINKED = 2
    """Device activity without a launch is dropped (by HTA only where there are two steps)."""
    LAST_STEP = 3
    """The last step is dropped where there are two, with what it launched."""
    ROUNDED = 4
    """Times are rounded to whole microseconds, inwards."""
    NAMES = 5
    """Kernels are told apart by name alone, and those of HIP count as communication."""
    DOUBLES = 7
    """Absolute times are held as doubles: in recent files that is 0.25 us exactly. Not among the
    numbers, but among the quirks of times."""


REASONS = {
    Differs.STREAM_ROWS: "1. rows of a stream that are no activity",
    Differs.UNLINKED: "2. activity without a launch",
    Differs.LAST_STEP: "3. the last step",
    Differs.ROUNDED: "4. whole microseconds",
    Differs.NAMES: "5. communication by other names",
    Differs.DOUBLES: "quirk of times: doubles lose digits",
}


@dataclass(frozen=True)
class Verdict:
    """An outcome and, unless the value is met as a whole, why."""

    outcome: Outcome
    reason: str = ""


MET = Verdict(Outcome.MET)

OURS_TO_MEET = ("oracle", "sql")
"""Kinds of sources that are right by definition: no reason excuses another value."""

PROPERTY = "expected value"
"""What a test's report calls a verdict."""

Account = Callable[[Mapping[str, Any], Verdict], None]
"""Takes an expected value and the verdict on it: the fixture of that name."""


def explained(tool: str, *differs: Differs) -> Verdict:
    """The value follows from our columns exactly, once these disagreements are taken over."""
    assert differs
    return Verdict(
        Outcome.EXPLAINED, f"{tool}: " + ", ".join(REASONS[each] for each in sorted(differs))
    )


def not_shown(what: str) -> Verdict:
    """The value is about something that no table of ours holds."""
    return Verdict(Outcome.NOT_SHOWN, what)


def recomputed(what: str) -> Verdict:
    """No table of ours holds it, but the tool's own definition gives it from our columns."""
    return not_shown(f"{what} (yet our columns give it)")


def tell_expected_values(
    terminalreporter: pytest.TerminalReporter, noted: Iterable[tuple[str, Any]]
) -> None:
    """A line for each kind of source, then one for each reason; nothing where none was judged."""
    verdicts = Counter(tuple(value) for name, value in noted if name == PROPERTY)
    if not verdicts:
        return
    terminalreporter.section("expected values")
    there = Counter(entry["kind"] for entry in expected())
    outcomes = [outcome.value for outcome in Outcome]
    terminalreporter.write_line(_line("source", "there", *outcomes, "not judged"))
    table = []
    for kind in sorted(there, key=lambda kind: -there[kind]):
        found: Counter[str] = Counter()
        for (source, outcome, _), number in verdicts.items():
            found[outcome] += number * (source == kind)
        figures = [there[kind], *(found[each] for each in outcomes)]
        table.append((kind, [*figures, there[kind] - found.total()]))
    table.append(("all", [sum(column) for column in zip(*(row for _, row in table), strict=True)]))
    for kind, row in table:
        terminalreporter.write_line(_line(kind, *(f"{figure:,}" for figure in row)))
    reasons: Counter[tuple[str, str]] = Counter()
    for (_, outcome, reason), number in verdicts.items():
        reasons[outcome, reason] += number
    for (outcome, reason), number in sorted(reasons.items()):
        if reason:
            terminalreporter.write_line(f"{number:6,} {outcome}: {reason}")


def _line(name: str, *figures: str) -> str:
    return f"{name:<17}" + "".join(f"{figure:>12}" for figure in figures)
