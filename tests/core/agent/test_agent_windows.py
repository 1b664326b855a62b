"""When a window opens and how long it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.windows.plan import MOST_STALL_NS, window_steps
from perftui.agent.windows.triggers import MOST_STEPS, WarmUp

MS = 1_000_000


def warm_after(durations: list[int]) -> int | None:
    """The number of steps after which the loop counts as warm."""
    warm_up = WarmUp()
    for count, duration in enumerate(durations, 1):
        warm_up.step(duration)
        if warm_up.is_over:
            return count
    return None


def test_a_fast_steady_loop_is_warm_after_ten_steps() -> None:
    assert warm_after([MS] * 40) == 10


def test_long_steps_need_a_second_and_three_of_a_kind() -> None:
    assert warm_after([900 * MS] * 10) == 3
    assert warm_after([5000 * MS, 400 * MS, 400 * MS, 400 * MS, 400 * MS]) == 4


def test_while_steps_still_get_shorter_the_loop_is_not_warm() -> None:
    falling = [2 ** (20 - n) * MS // 1000 for n in range(12)]

    assert warm_after([*falling, MS, MS, MS]) == 15


def test_a_loop_that_never_settles_is_looked_at_in_the_end() -> None:
    assert warm_after([MS, 100 * MS] * 100) == MOST_STEPS


def test_a_training_of_minutes_a_step_does_not_wait_for_fifty() -> None:
    assert warm_after([20_000 * MS, 60_000 * MS]) == 2


@given(st.lists(st.integers(0, 10**11), max_size=80))
def test_once_warm_always_warm(durations: list[int]) -> None:
    warm_up = WarmUp()
    seen = []
    for duration in durations:
        warm_up.step(duration)
        seen.append(warm_up.is_over)

    assert seen == sorted(seen)


def test_a_window_of_usual_steps_has_two_once_their_cost_is_known() -> None:
    assert window_steps(30 * MS, 3 * MS, in_detail=False) == 2


def test_very_short_steps_get_more_of_them() -> None:
    assert window_steps(1 * MS, MS // 10, in_detail=False) == 10
    assert window_steps(4 * MS, MS // 10, in_detail=False) == 5


def test_a_first_window_is_short_enough_for_the_busiest_loop() -> None:
    assert window_steps(30 * MS, None, in_detail=False) == 1
    assert window_steps(1 * MS, None, in_detail=False) == 8
    assert window_steps(1 * MS, None, in_detail=True) == 2


@given(st.integers(0, 10**11), st.integers(1, 10**9), st.booleans())
def test_a_later_window_is_not_expected_to_stall_for_long(
    step: int, stall: int, in_detail: bool
) -> None:
    steps = window_steps(step, stall, in_detail)

    assert 1 <= steps <= 10
    assert steps == 1 or steps * stall <= MOST_STALL_NS
