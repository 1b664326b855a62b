"""The figures of two runs as rows: what is judged, and what is too small to be."""

from perftui_tui.look.format import milliseconds, per_second
from perftui_tui.look.rows import plain
from perftui_tui.look.units import format_ns
from perftui_tui.screens.compare.figures import Line, _line
from tests.tui.recorded import MS


def drawn(line: Line) -> str:
    return plain(_line(line, 100))


def test_a_part_too_small_to_matter_shows_its_change_and_no_bar() -> None:
    text = drawn(Line("loader start", 30_000, 700_000, format_ns, matters=False))
    assert text.split() == ["loader", "start", "30.0", "µs", "700", "µs", "+670", "µs"]


def test_a_part_that_matters_is_judged_with_a_bar() -> None:
    text = drawn(Line("data loader wait", 100 * MS, 50 * MS, format_ns))
    assert "-50 %" in text
    assert "better" in text
    assert "█" in text


def test_many_times_more_is_said_in_its_own_unit() -> None:
    text = drawn(Line("loader start", MS, 24 * MS, format_ns))
    assert "%" not in text
    assert "+23.0 ms" in text
    assert "worse" in text


def test_no_change_at_all_is_left_blank() -> None:
    assert drawn(Line("other", MS, MS, format_ns, matters=False)).endswith("1.00 ms         ")


def test_quick_steps_have_no_exponent() -> None:
    text = drawn(Line("steps/s", 999.4, 1234.0, per_second, lower_is_better=False))
    assert text.split()[1:3] == ["999", "1,234"]


def test_a_short_part_is_not_said_to_take_no_time() -> None:
    assert [milliseconds(ns) for ns in (0, 4_999, 5_000, 30_000)] == [
        "0.00",
        "<0.01",
        "0.01",
        "0.03",
    ]
