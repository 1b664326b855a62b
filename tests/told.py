"""What the end of a run tells beside failures: expected values accounted for, files opened."""

import pytest

from tests.verify.corpus.outcome import tell_expected_values

DAMAGED_FILES = "damaged files"
"""What a test's report calls the number of damaged files that it has opened."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A hook of pytest: tells what the tests that passed have noted."""
    noted = [
        each
        for report in terminalreporter.stats.get("passed", [])
        for each in report.user_properties
    ]
    tell_expected_values(terminalreporter, noted)
    files = sum(number for name, number in noted if name == DAMAGED_FILES)
    if files:
        terminalreporter.section("damaged files")
        terminalreporter.write_line(f"{files:,} opened")
