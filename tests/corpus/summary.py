"""Prints how many expected values are met, explained and not shown, after the tests."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corpus.outcome import PROPERTY, Outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A hook of pytest: counts what passed tests have noted."""
    passed = terminalreporter.stats.get("passed", [])
    verdicts = Counter(
        tuple(value)
        for report in passed
        for name, value in report.user_properties
        if name == PROPERTY
    )
    if not verdicts:
        return
    totals: Counter[str] = Counter()
    for (outcome, _), number in verdicts.items():
        totals[outcome] += number
    counts = ", ".join(f"{totals[each.value]:,} {each.value}" for each in Outcome)
    terminalreporter.section("expected values")
    terminalreporter.write_line(f"{sum(totals.values()):,} accounted for: {counts}")
    for (outcome, reason), number in sorted(verdicts.items()):
        if reason:
            terminalreporter.write_line(f"{number:6,} {outcome}: {reason}")
