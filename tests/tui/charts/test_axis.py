from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.axis import exact_ns, nice_step, round_ticks, ruler, time_ticks, usual_top


def test_ticks_are_round():
    assert [time for _, time in time_ticks(0, 103, 60)] == [0, 50, 100]
    assert [time for _, time in time_ticks(130, 390, 36)] == [200, 300]


def test_exact_times_lose_no_digit():
    assert exact_ns(71_585_000) == "71.585 ms"
    assert exact_ns(1_234_567_891) == "1.234567891 s"
    assert exact_ns(0) == "0 ns"
    assert exact_ns(-20_000) == "-20 µs"


def test_ruler_marks_round_times():
    assert ruler(0, 100_000_000, 40) == "╷0 ns               ╷50 ms              "


def test_ruler_says_offsets_when_zoomed():
    assert ruler(71_585_000, 71_586_200, 60) == (
        "╷71.585 ms               ╷+500 ns                 ╷+1 µs    "
    )


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


def test_ticks_of_a_plot_are_round():
    assert round_ticks(55.9, 7) == [0, 10, 20, 30, 40, 50]
    assert round_ticks(60, 6) == [0, 10, 20, 30, 40, 50, 60]


@given(st.floats(1e-3, 1e9), st.integers(1, 40))
def test_ticks_of_a_plot_are_in_it(top, count):
    ticks = round_ticks(top, count)
    assert ticks[0] == 0
    assert ticks[-1] <= top * (1 + 1e-6)
    assert len(ticks) <= count + 1


def test_a_slow_first_step_does_not_set_the_scale():
    assert usual_top([900.0, *[10.0] * 99]) == 11.0
    assert usual_top([0.0, 0.0]) == 1.0
