"""Rows of styled text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftui.trace.text import printable
from perftui_tui.look.format import format_bytes, format_count, format_ns, format_percent
from perftui_tui.look.rows import (
    CONTINUED,
    Row,
    crop,
    fit,
    fold,
    plain,
    row,
    safe,
    spread,
    width,
    wrap,
)

spans = st.tuples(st.text(st.sampled_from("ab █日"), max_size=8), st.sampled_from(["", "dim"]))
rows = st.lists(spans, max_size=5).map(tuple)


@given(rows, st.integers(0, 30))
def test_fit_is_exactly_as_wide_as_asked(line: Row, cells: int) -> None:
    assert width(fit(line, cells)) == cells


@given(rows, st.integers(1, 30))
def test_a_cut_is_marked_and_what_fits_is_whole(line: Row, cells: int) -> None:
    cut = crop(line, cells)
    assert width(cut) <= cells
    assert cut == line or plain(cut).endswith("…")


@given(rows, rows, st.integers(0, 40))
def test_spread_fills_the_width_and_keeps_the_right(left: Row, right: Row, cells: int) -> None:
    line = spread(left, right, cells)
    assert width(line) == cells
    assert plain(line).endswith(plain(crop(right, cells)))


@given(st.text(st.sampled_from("abc \t\x1b日"), max_size=60), st.integers(8, 40))
def test_wrapping_loses_nothing_and_fits(text: str, cells: int) -> None:
    wrapped = [plain(line) for line in wrap(text, cells, indent="  ")]
    letters = "".join(printable(word) for word in text.split())
    assert "".join(line[2:].replace(" ", "") for line in wrapped) == letters
    assert all(cell_len(line) <= cells for line in wrapped)


@given(st.lists(st.text("abc", min_size=1, max_size=8)))
def test_wrapping_parts_no_word_that_fits(words: list[str]) -> None:
    wrapped = " ".join(plain(line) for line in wrap(" ".join(words), 8))
    assert wrapped.split() == words


def test_wrapped_rows_are_indented_and_part_no_figure_from_its_unit() -> None:
    lines = wrap("a sentence of several words", 14, indent="  ")
    assert [plain(line) for line in lines] == ["  a sentence", "  of several", "  words"]
    assert all(cell_len(plain(line)) <= 14 for line in lines)
    wrapped = [plain(line) for line in wrap("all 2 samples of it", 6)]
    assert wrapped == ["all 2", "sample", "s of", "it"]


@pytest.mark.parametrize(
    "figure", ["93 %", "(63 %)", "40.8 ms/step,", "1.5 µs", "12 s.", "3.54 GiB", "8 MB/s", "2 B"]
)
def test_a_figure_is_not_parted_from_its_unit(figure: str) -> None:
    for cells in range(len(figure), 2 * len(figure) + 12):
        wrapped = [plain(line) for line in wrap(f"about {figure} of it", cells)]
        assert any(figure in line for line in wrapped), wrapped


def test_folding_counts_the_cells_of_what_is_drawn() -> None:
    folded = fold(row("\x1b" * 5), 10)
    assert [plain(line) for line in folded] == [
        "\\x1b\\x1b\\x",
        f"{CONTINUED}1b\\x1b\\x",
        f"{CONTINUED}1b",
    ]
    assert [safe(line) for line in folded] == folded
    assert plain(safe(row("a\x1b[2Jb\x9b\u202ec"))) == "a\\x1b[2Jb\\x9b\\u202ec"


@given(rows, st.integers(4, 30))
def test_folding_loses_nothing_and_fits(line: Row, cells: int) -> None:
    first, *rest = fold(line, cells)
    assert all(plain(one).startswith(CONTINUED) for one in rest)
    unmarked = [plain(one).removeprefix(CONTINUED) for one in rest]
    assert plain(first) + "".join(unmarked) == plain(line)
    assert all(width(one) <= cells for one in (first, *rest))


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
    ("value", "text"), [(0, "0"), (1234567, "1,234,567"), (12_345_678, "12.3 M"), (None, "–")]
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
