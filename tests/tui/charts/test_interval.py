"""The interval of a trial as a bar: what lies where, and that nothing leaves it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.bars import interval_rows
from perftui_tui.look.rows import plain, width
from tests.tui.driving import in_ascii

RATIOS = st.lists(st.floats(1e-6, 1e6, allow_nan=False), max_size=14)


def drawn(ratios: list[float], interval: tuple[float, float, float] | None, cells: int = 44):
    return [plain(line) for line in interval_rows(ratios, interval, cells)]


def test_the_interval_lies_between_its_ends_and_away_from_1() -> None:
    dots, axis, scale = drawn([2.0, 2.2], (2.0, 2.1, 2.2))
    assert dots.count("·") == 2
    assert axis.index("┼") < axis.index("├") < axis.index("●") < axis.index("┤")
    assert (dots.index("·"), dots.rindex("·")) == (axis.index("├"), axis.index("┤"))
    assert scale.index("1x") == axis.index("┼")
    assert scale.endswith("2.20x")


def test_twice_as_fast_is_as_far_from_1_as_half_as_fast() -> None:
    _, axis, scale = drawn([0.5, 2.0], (0.5, 1.0, 2.0), 45)
    assert axis.index("├") + axis.index("┤") == 2 * axis.index("●") == 44
    assert (scale[:5], scale[-5:]) == ("0.50x", "2.00x")


def test_1_stays_to_be_seen_in_an_interval_that_holds_it() -> None:
    _, axis, _ = drawn([0.9, 1.2], (0.9, 1.1, 1.2))
    assert axis.index("├") < axis.index("┼") < axis.index("●")


def test_a_slower_change_lies_at_the_left() -> None:
    rows = interval_rows([0.5], (0.45, 0.5, 0.55), 44)
    assert plain(rows[1]).index("┤") < plain(rows[1]).index("┼")
    assert ("├", "bad") in {(text[:1], style) for text, style in rows[1]}


def test_it_is_drawn_in_ascii_too() -> None:
    assert in_ascii(*drawn([2.0, 2.1], (2.0, 2.05, 2.1)))


@given(RATIOS, st.integers(8, 60))
def test_every_row_is_as_wide_as_asked(ratios: list[float], cells: int) -> None:
    ends = (min(ratios), sorted(ratios)[len(ratios) // 2], max(ratios)) if ratios else None
    for line in interval_rows(ratios, ends, cells):
        assert width(line) == cells
