import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.look.format import format_bytes, format_count, format_ns, format_percent

UNIT_NS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (531, "531 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (24_200_000, "24.2 ms"),
        (1_250_000_000, "1.25 s"),
        (99_940_000_000, "99.9 s"),
        (99_960_000_000, "1m 40s"),
        (125_000_000_000, "2m 05s"),
        (3_720_000_000_000, "1h 02m"),
        (-24_200_000, "-24.2 ms"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_duration_reads_in_its_own_unit(value, text):
    assert format_ns(value) == text


@given(st.integers(min_value=1, max_value=99 * 10**9))
def test_duration_is_right_to_three_digits(ns):
    figure, unit = format_ns(ns).split(" ")
    assert math.isclose(float(figure) * UNIT_NS[unit], ns, rel_tol=0.00501)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536 * 1024, "1.50 MiB"),
        (80 * 1024**3, "80.0 GiB"),
        (5000 * 1024**3, "5000 GiB"),
        (None, "–"),
    ],
)
def test_sizes_count_in_powers_of_1024(value, text):
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (12_345_678, "12.3 M"), (None, "–")],
)
def test_counts_are_exact_while_they_can_be_read(value, text):
    assert format_count(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.123, "12.3 %"),
        (0.9996, ">99.9 %"),
        (1, "100 %"),
        (1.12, "112.0 %"),
        (None, "–"),
    ],
)
def test_percentages(fraction, text):
    assert format_percent(fraction) == text


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_only_all_is_all_and_only_nothing_is_nothing(fraction):
    assert format_percent(fraction) not in ("0 %", "0.0 %", "100 %", "100.0 %")
