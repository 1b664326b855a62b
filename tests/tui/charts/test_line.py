from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.line import NO_SERIES, line_chart

SERIES = st.lists(st.lists(st.floats(-50, 50), max_size=60), max_size=4)


def text(rows):
    return ["".join(run for run, _ in row) for row in rows]


def test_a_rising_line_climbs():
    assert text(line_chart([[0, 1, 2, 3, 4, 5, 6, 7]], width=4, height=2, low=0, high=7)) == [
        "  ⡠⠊",
        "⡠⠊  ",
    ]


def test_series_differ_without_colour():
    rows = text(line_chart([[3] * 8, [0] * 8], width=4, height=1, low=0, high=3))
    assert rows == ["⣉⠉⣉⠉"]


def test_runs_name_their_series():
    rows = line_chart([[4, 4], [0, 0]], 2, 2, 0, 4, ascii_only=True)
    assert rows == [[("**", 0)], [("oo", 1)]]
    assert line_chart([[4]], 2, 1, 0, 4, ascii_only=True) == [[(" ", NO_SERIES), ("*", 0)]]


@given(SERIES, st.integers(1, 30), st.integers(1, 6), st.booleans())
def test_rows_are_as_wide_as_asked(series, width, height, ascii_only):
    rows = text(line_chart(series, width, height, -10, 10, ascii_only))
    assert [len(row) for row in rows] == [width] * height
