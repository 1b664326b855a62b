"""What holds for every rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.rules import RULES

TESTS = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("rule", sorted({row.id for row in (*RULES, *LADDER)}))
def test_each_rule_has_cases_that_name_it(rule: str) -> None:
    """One in which it fires and one in which it is silent, at least: that they do so is for their
    authors to see to."""
    assert TESTS.count(f'"{rule}"') >= 2
