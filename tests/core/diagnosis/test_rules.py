"""The list of rules, their words, their order, and the file of findings."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui import format as fmt
from perftui.diagnosis.diagnose import diagnosis, ranked
from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.model import Diagnosis, Finding, Severity, write_findings
from perftui.diagnosis.rules import RULES
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from tests.core.diagnosis.runs import make_run

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


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (12, "12 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (512 << 20, "512 MiB"),
        ((1 << 30) - 1, "1.0 GiB"),
        (round(78.14 * (1 << 30)), "78.1 GiB"),
        (round(99.96 * (1 << 30)), "100 GiB"),
    ],
)
def test_a_size_is_said_with_three_digits(count, said) -> None:
    assert fmt.size(count) == said


@given(st.integers(0, 1 << 49))
def test_a_size_is_said_within_half_of_its_last_digit_and_never_as_1024(count) -> None:
    number, unit = fmt.size(count).split()
    assert float(number) < 1024
    digit = 0.1 if "." in number else 1.0
    assert abs(float(number) * UNITS[unit] - count) <= 0.501 * digit * UNITS[unit]


STEP = 10_000_000


def costing(rule: str, share: float, *parts: str) -> Finding:
    cost = round(share * STEP)
    return Finding(rule, Severity.CRITICAL, rule, (), cost, step_ns=STEP, steps=100, parts=parts)


def test_what_slows_every_operator_is_told_before_operators_that_it_slows() -> None:
    flag = costing("debug-flags", 0.36, "forward", "backward")
    loop = costing("loop-of-indexing", 0.37, "forward")
    update = costing("optimizer-single-tensor", 0.365, "optimizer")
    assert ranked([loop, flag, update]) == (update, flag, loop)
    # All their times are wrong until it is off, unless it is little beside them.
    large = costing("loop-of-indexing", 0.6, "forward")
    assert ranked([large, flag]) == (flag, large)
    little = costing("debug-flags", 0.1, "forward")
    assert ranked([little, large]) == (large, little)


LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3}


@pytest.mark.parametrize(
    "diagnosis",
    [
        Diagnosis(),
        diagnosis(Facts(make_run(), None)),
        diagnosis(Facts(make_run(phases={"input_wait": 5, "forward": 5}, loaders=(LOADER,)), None)),
    ],
)
def test_all_of_a_diagnosis_can_be_read_from_its_file(tmp_path, diagnosis) -> None:
    path = tmp_path / "findings.json"
    path.write_text("an older one")
    write_findings(path, diagnosis)
    written = msgspec.json.decode(path.read_bytes())
    assert written["schema"] == 1
    assert msgspec.convert(written["diagnosis"], Diagnosis) == diagnosis
