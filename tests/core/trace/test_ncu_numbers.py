from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.ncu import Unit, decimal_mark, number, unit_of

GROUPS = {"english": (",", "."), "german": (".", ","), "swiss": ("'", "."), "none": ("", ".")}
GROUPS |= {"french": ("\u202f", ","), "spaced": ("\u00a0", "."), "typeset swiss": ("\u2019", ".")}


def spelled(value: int, fraction: str, grouping: str, mark: str) -> str:
    whole = f"{value:,}".replace(",", grouping)
    return f"{whole}{mark}{fraction}" if fraction else whole


@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.sampled_from(["", "5", "25", "123456"]))),
    st.sampled_from(sorted(GROUPS)),
)
def test_numbers_of_any_locale_are_read_as_they_were_meant(
    values: list[tuple[int, str]], locale: str
) -> None:
    grouping, mark = GROUPS[locale]
    # Two digits behind the mark, as on the details page: one such cell tells the locale.
    cells = [spelled(value, fraction, grouping, mark) for value, fraction in [*values, (7, "25")]]
    found = decimal_mark(cells)
    assert found == mark
    wanted = [float(f"{value}.{fraction}") for value, fraction in values]
    assert [number(cell, found) for cell in cells[:-1]] == wanted


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        ([], "."),
        (["1,234"], "."),
        (["1.234"], "."),
        (["1,234", "64.86"], "."),
        (["1.234", "64,86"], ","),
        (["1,234.567"], "."),
        (["1.234,567"], ","),
        (["1,234,567"], "."),
        (["1.234.567"], ","),
        (["0.125"], "."),
        (["0,125"], ","),
        (["12.5", "12,5"], "."),
        (["12,5", "12.5"], "."),
        (["CachePreferNone", "n/a", "(64, 1, 1)"], "."),
        (["5,5 (1,5; 4,0)"], ","),
    ],
)
def test_the_mark_is_what_the_file_can_only_mean(cells: list[str], mark: str) -> None:
    assert decimal_mark(cells) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "n/a",
        "(!) n/a",
        "N/A",
        "CachePreferNone",
        "1_000",
        "0x10",
        "1e999",
        "1,2",
        "1,2345",
        "12,34",
        "1.2.3",
        "٣",
        "(1; 2)",
        "--1",
        "1 e",
        "True",
    ],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12 (1; 5; 6)", 12.0),
        ("1,234.5 (1,000.5; 234)", 1234.5),
        ("1,23,45,678.5", 12345678.5),
        ("-0.5", -0.5),
        (".5", 0.5),
        ("1.5e3", 1500.0),
        ("+7", 7.0),
    ],
)
def test_spellings_of_one_number(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("second", Unit(10**9, "ns")),
        ("msecond", Unit(10**6, "ns")),
        ("usecond", Unit(10**3, "ns")),
        ("us", Unit(10**3, "ns")),
        ("nsecond", Unit(1, "ns")),
        ("byte", Unit(1, "byte")),
        ("Kbyte", Unit(1000, "byte")),
        ("Gbyte", Unit(10**9, "byte")),
        ("Kbyte/block", Unit(1000, "byte/block")),
        ("Gbyte/second", Unit(10**9, "byte/s")),
        ("Gbyte/s", Unit(10**9, "byte/s")),
        ("byte/nsecond", Unit(10**9, "byte/s")),
        ("cycle/nsecond", Unit(10**9, "Hz")),
        ("cycle/usecond", Unit(10**6, "Hz")),
        ("cycle/second", Unit(1, "Hz")),
        ("Ghz", Unit(10**9, "Hz")),
        ("Mhz", Unit(10**6, "Hz")),
        ("hz", Unit(1, "Hz")),
        ("Kinst", Unit(1000, "inst")),
        ("inst/cycle", Unit(1, "inst/cycle")),
        ("%", Unit(1, "%")),
        ("", Unit(1, "")),
        ("register/thread", Unit(1, "register/thread")),
        ("warp", Unit(1, "warp")),
        ("furlong", Unit(1, "furlong")),
    ],
)
def test_units_lose_their_prefix(text: str, unit: Unit) -> None:
    assert unit_of(text) == unit


def test_scaling_is_exact() -> None:
    assert number("1.006528", unit=unit_of("msecond")) == 1_006_528
    assert number("0.1", unit=unit_of("Gbyte")) == 100_000_000
