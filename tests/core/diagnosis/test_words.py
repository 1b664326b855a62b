from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui import format as fmt

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
