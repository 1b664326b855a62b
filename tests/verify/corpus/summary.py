"""Tells how many expected values are met, explained and not shown, after the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.verify.corpus.collection import expected
from tests.verify.corpus.outcome import PROPERTY, Outcome


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
