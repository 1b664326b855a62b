from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.kineto import events


def slow(text: str) -> int:
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


NEAR_US = st.integers(-(2**43) + 1, 2**43 - 1)
THOUSANDTHS = st.integers(0, 999)


@given(st.lists(st.tuples(NEAR_US, THOUSANDTHS), min_size=1))
def test_floats_below_the_limit_keep_every_nanosecond(values: list[tuple[int, int]]) -> None:
    texts = [f"{whole}.{part:03}" for whole, part in values]
    column = events.time_column([float(text) for text in texts])
    assert column is not None
    assert column.tolist() == [slow(text) for text in texts]


@given(st.integers(0, 2**43 - 1), st.integers(0, 9_999_999), st.integers(1, 7))
def test_digits_below_a_nanosecond_are_never_guessed(whole: int, part: int, places: int) -> None:
    text = f"{whole}.{part:07}"[: len(str(whole)) + 1 + places]
    column = events.time_column([float(text)])
    assert column is None or column.tolist() == [slow(text)]


def test_a_half_of_a_nanosecond_is_left_to_the_text() -> None:
    assert events.time_column([20.0005]) is None


@given(st.lists(st.integers(-(2**51), 2**51), min_size=1))
def test_whole_microseconds_are_exact(values: list[int]) -> None:
    column = events.time_column(values)
    assert column is not None
    assert column.tolist() == [1000 * value for value in values]


@pytest.mark.parametrize(
    "values",
    [
        [1712195495502094.565],
        [float("nan")],
        [1.0, float("inf")],
        ["12.5"],
        [None],
        [1, [2]],
        [2**60],
        [2**70],
    ],
)
def test_what_numbers_cannot_say_exactly_is_left_to_the_text(values: list[object]) -> None:
    assert events.time_column(values) is None


@given(st.integers(0, 2**51), THOUSANDTHS)
def test_text_is_read_exactly(whole: int, part: int) -> None:
    assert events.nanoseconds(f"{whole}.{part:03}") == whole * 1000 + part
    assert events.nanoseconds(Decimal(f"{whole}.{part:03}")) == whole * 1000 + part


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1e3", 1_000_000),
        (" 7 ", 7000),
        (True, None),
        ("soon", None),
        (None, None),
        ("nan", None),
        ("Infinity", None),
        ("1e999999", None),
        (2**80, None),
        ("0.0005", 0),
        ("0.0015", 2),
    ],
)
def test_odd_spellings(value: object, expected: int | None) -> None:
    assert events.nanoseconds(value) == expected
