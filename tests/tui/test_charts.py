"""Rows of styled text, and charts as text: areas, bars, intervals and axes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftui.trace.text import printable
from perftui_tui.charts.cells import (
    DOTS,
    LOWER_EIGHTHS,
    apportion,
    braille_area,
    charted,
    column_steps,
    exact_ns,
    filled_steps,
    interval_rows,
    nice_step,
    resample,
    ruler,
    sparkline,
    steady_bins,
    time_ticks,
    usual_top,
)
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
from tests.tui.driving import in_ascii

VALUES = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=60)


def test_a_line_begins_at_the_right_and_shows_what_is_missing():
    assert sparkline([0, math.nan, 8], width=3, high=8) == "▁ █"
    assert sparkline([8, 4], width=5, high=8) == "   █▄"
    assert resample([1, 9, 1, 1, 2, 1], 3) == [9, 1, 2]


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 40))
def test_what_is_over_fills_all_columns_in_order(values, columns):
    shown = charted(values, len(values), columns, live=False)
    assert len(shown) == (columns if values else 0)
    assert max(shown, default=0) == max(values, default=0)
    if 0 < len(values) <= columns:
        assert [shown[-(-at * columns // len(values))] for at in range(len(values))] == values


@given(VALUES, st.integers(1, 40))
def test_the_highest_value_is_never_lost(values, width):
    present = [v for v in values if not math.isnan(v)]
    drawn = [v for v in resample(values, width) if not math.isnan(v)]
    assert max(drawn, default=None) == max(present, default=None)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 64))
def test_more_never_fills_less(one, other, steps):
    low, high = sorted((one, other))
    assert filled_steps(low, steps) <= filled_steps(high, steps)


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(2, 64))
def test_a_part_is_neither_nothing_nor_all(fraction, steps):
    assert 0 < filled_steps(fraction, steps) < steps


def test_ramp_ends_are_empty_and_full():
    assert (LOWER_EIGHTHS[0], LOWER_EIGHTHS[-1]) == (" ", "█")


def heights(rows: list[str]) -> list[int]:
    """Dots of each column, left to right, counted by the bits of the characters."""
    left, right = 0x47, 0xB8
    patterns = [[0 if cell == " " else ord(cell) - 0x2800 for cell in line] for line in rows]
    columns = zip(*patterns, strict=True)
    return [
        sum((cell & side).bit_count() for cell in column)
        for column in columns
        for side in (left, right)
    ]


def test_rows_of_braille_hold_two_values_in_a_cell() -> None:
    assert braille_area([1, 2, 3, 4], width=2, height=1, high=4) == ["⣠⣾"]
    assert braille_area([4, 8], width=1, height=2, high=8) == ["⢸", "⣿"]
    assert braille_area([8, 4], width=3, height=1, high=8) == ["  ⣧"]


@given(VALUES, st.integers(1, 30), st.integers(1, 8))
def test_every_row_is_as_wide_as_asked(values: list[float], width: int, height: int) -> None:
    assert len(sparkline(values, width, 10)) == width
    rows = braille_area(values, width, height, 10)
    assert [len(row) for row in rows] == [width] * height


@given(st.lists(st.floats(0, 10) | st.just(math.nan), max_size=20), st.integers(1, 6))
def test_every_column_is_as_high_as_its_value(values: list[float], height: int) -> None:
    rows = braille_area(values, 10, height, 10)
    padded = [math.nan] * (20 - len(values)) + values
    assert heights(rows) == [column_steps(value, 10, height * DOTS) for value in padded]


PARTS = st.lists(st.integers(0, 10**12), min_size=1, max_size=10)


def test_parts_share_the_bar_in_proportion_and_small_ones_keep_a_cell():
    assert apportion([50, 25, 25], 8) == [4, 2, 2]
    assert apportion([99_990, 10], 10) == [9, 1]
    assert apportion([5, 1, 9], 2) == [1, 0, 1]
    assert apportion([0, 0], 10) == [0, 0]


@given(PARTS, st.integers(0, 200))
def test_cells_sum_to_the_width(values, width):
    assert sum(apportion(values, width)) == (width if any(values) else 0)


@given(PARTS, st.integers(0, 200))
def test_no_part_vanishes_while_there_is_room(values, width):
    shares = apportion(values, width)
    non_zero = sum(value > 0 for value in values)
    assert sum(share > 0 for share in shares) == min(non_zero, width)
    assert all(share == 0 for share, value in zip(shares, values, strict=True) if value == 0)


@given(PARTS, st.integers(1, 200))
def test_a_larger_part_is_never_drawn_smaller(values, width):
    pairs = sorted(zip(values, apportion(values, width), strict=True))
    for (low, small), (high, large) in itertools.pairwise(pairs):
        assert low == high or small <= large


RATIOS = st.lists(st.floats(1e-6, 1e6, allow_nan=False), max_size=14)


def interval(ratios: list[float], interval: tuple[float, float, float] | None, cells: int = 44):
    return [plain(line) for line in interval_rows(ratios, interval, cells)]


def test_an_interval_lies_between_its_ends_and_away_from_1() -> None:
    dots, axis, scale = interval([2.0, 2.2], (2.0, 2.1, 2.2))
    assert dots.count("·") == 2
    assert axis.index("┼") < axis.index("├") < axis.index("●") < axis.index("┤")
    assert (dots.index("·"), dots.rindex("·")) == (axis.index("├"), axis.index("┤"))
    assert scale.index("1x") == axis.index("┼")
    assert scale.endswith("2.20x")
    assert in_ascii(*interval([2.0, 2.1], (2.0, 2.05, 2.1)))
    # Twice as fast is as far from 1 as half as fast.
    _, axis, scale = interval([0.5, 2.0], (0.5, 1.0, 2.0), 45)
    assert axis.index("├") + axis.index("┤") == 2 * axis.index("●") == 44
    assert (scale[:5], scale[-5:]) == ("0.50x", "2.00x")
    # 1 stays to be seen in an interval that holds it.
    _, axis, _ = interval([0.9, 1.2], (0.9, 1.1, 1.2))
    assert axis.index("├") < axis.index("┼") < axis.index("●")
    rows = interval_rows([0.5], (0.45, 0.5, 0.55), 44)
    assert plain(rows[1]).index("┤") < plain(rows[1]).index("┼")
    assert ("├", "bad") in {(text[:1], style) for text, style in rows[1]}


@given(RATIOS, st.integers(8, 60))
def test_every_row_of_an_interval_is_as_wide_as_asked(ratios: list[float], cells: int) -> None:
    ends = (min(ratios), sorted(ratios)[len(ratios) // 2], max(ratios)) if ratios else None
    for line in interval_rows(ratios, ends, cells):
        assert width(line) == cells


def test_ticks_of_times_are_round_and_exact_times_lose_no_digit():
    assert [time for _, time in time_ticks(0, 103, 60)] == [0, 50, 100]
    assert [time for _, time in time_ticks(130, 390, 36)] == [200, 300]
    assert ruler(0, 100_000_000, 40) == "╷0 ns               ╷50 ms              "
    assert ruler(71_585_000, 71_586_200, 60) == (
        "╷71.585 ms               ╷+500 ns                 ╷+1 µs    "
    )
    assert exact_ns(71_585_000) == "71.585 ms"
    assert exact_ns(1_234_567_891) == "1.234567891 s"
    assert exact_ns(0) == "0 ns"
    assert exact_ns(-20_000) == "-20 µs"


@given(st.integers(0, 10**13), st.integers(1, 10**12), st.integers(1, 300))
def test_ruler_fits_and_ticks_are_inside(start, span, width):
    assert len(ruler(start, start + span, width)) == width
    for column, time in time_ticks(start, start + span, width):
        assert 0 <= column < width
        assert start <= time < start + span


@given(st.floats(1e-6, 1e15), st.integers(1, 50))
def test_steps_are_one_two_or_five(span, count):
    step = nice_step(span, count)
    assert f"{step:e}"[0] in "125"
    assert span / step <= count * 1.001


@given(st.integers(-(10**15), 10**15))
def test_exact_times_read_back(ns):
    figure, unit = exact_ns(ns).split(" ")
    assert Fraction(figure) * {"s": 10**9, "ms": 10**6, "µs": 10**3, "ns": 1}[unit] == ns


def test_a_slow_first_step_does_not_set_the_scale():
    assert usual_top([900.0, *[10.0] * 99]) == 11.0
    assert usual_top([0.0, 0.0]) == 1.0


numbers = st.lists(st.floats(0, 1000), min_size=1, max_size=200)


@given(numbers, st.integers(0, 5000), st.integers(1, 60))
def test_no_peak_is_lost_and_the_width_is_exact(
    values: list[float], first: int, columns: int
) -> None:
    bins = steady_bins(values, first, columns)
    assert len(bins) == columns
    assert max(one for one in bins if not math.isnan(one)) == max(values)


@given(numbers, st.integers(2, 60))
def test_one_more_value_changes_one_column_or_doubles_the_bins(
    values: list[float], columns: int
) -> None:
    before, after = steady_bins(values[:-1], 0, columns), steady_bins(values, 0, columns)
    changed = sum(
        a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(before, after, strict=True)
    )
    full = not math.isnan(before[-1])
    assert changed <= 1 or full


def test_missing_values_leave_holes() -> None:
    bins = steady_bins([1.0, math.nan, 3.0], 0, 4)
    assert bins[0] == 1.0
    assert math.isnan(bins[1])
    assert bins[2] == 3.0
    assert math.isnan(bins[3])
    assert all(math.isnan(one) for one in steady_bins([], 0, 5))


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


def test_a_long_text_is_cut_behind_a_word_and_no_figure_loses_its_unit() -> None:
    text = (("The training spends 44 ms of each 95 ms step", ""),)
    cut = {plain(crop(text, cells)) for cells in range(35, 40)}
    assert cut == {"The training spends 44 ms of each…"}


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
