from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.screens.timeline.navigation import SHORTEST_VIEW, Viewport

TIMES = st.integers(0, 10**12)


@st.composite
def viewports(draw):
    first, length = draw(st.integers(-(10**12), 10**12)), draw(st.integers(1, 10**12))
    whole = Viewport.whole(first, first + length)
    start = draw(st.integers(first, first + length))
    return whole.showing(start, start + draw(st.integers(0, length)))


def sound(view):
    assert view.first <= view.start < view.end <= view.last
    assert view.span >= min(SHORTEST_VIEW, view.last - view.first)


@given(viewports(), st.floats(0.001, 1000), TIMES, st.integers(-(10**13), 10**13))
def test_every_move_stays_inside_the_trace(view, factor, anchor, amount):
    for moved in (
        view,
        view.zoomed(factor, anchor),
        view.panned(amount),
        view.fitted(anchor, anchor),
    ):
        sound(moved)


@given(viewports(), st.integers(-(10**13), 10**13))
def test_a_pan_keeps_the_zoom(view, amount):
    assert view.panned(amount).span == view.span


@given(viewports(), TIMES, st.integers(0, 10**9))
def test_what_is_revealed_is_in_view(view, start, length):
    start = min(max(start, view.first), view.last)
    end = min(start + length, view.last)
    moved = view.revealing(start, end)
    assert moved.start <= start
    assert end <= moved.end
    sound(moved)


def test_the_anchor_keeps_its_column():
    view = Viewport.whole(0, 1_000_000_000)
    anchor = view.time(30, 100)
    assert view.zoomed(0.01, anchor).column(anchor, 100) == 30


@given(viewports(), st.integers(1, 300))
def test_the_middle_of_a_column_is_in_it(view, columns):
    for column in (0, columns // 2, columns - 1):
        if view.span >= 2 * columns:
            assert view.column(view.time(column, columns), columns) == column
