"""What holds for every rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.rules import RULES
from perftui.facts.place import Place

TESTS = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("rule", sorted({row.id for row in (*RULES, *LADDER)}))
def test_each_rule_has_cases_that_name_it(rule: str) -> None:
    """One in which it fires and one in which it is silent, at least: that they do so is for their
    authors to see to."""
    assert TESTS.count(f'"{rule}"') >= 2


@pytest.mark.parametrize(
    ("sentence", "place", "headline"),
    [
        ("It waits.", Place(file="/a/train.py", line=3), "It waits, at train.py:3."),
        ("It waits at train.py:3.", Place(file="/a/train.py", line=3), "It waits at train.py:3."),
        ("It waits.", Place(operator="aten::mm"), "It waits."),
        ("It waits.", None, "It waits."),
    ],
)
def test_a_headline_names_the_line(sentence: str, place: Place | None, headline: str) -> None:
    assert Finding("rule", Severity.WARNING, sentence, place=place).headline == headline
