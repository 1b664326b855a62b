"""When a window opens and how long it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.warmup import MOST_STEPS, WarmUp
from perftui.agent.window_length import MOST_BYTES, window_steps

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


def test_a_window_is_as_long_as_was_asked_for() -> None:
    assert window_steps(2, 30 * MS, None) == 2


def test_very_short_steps_get_more_of_them() -> None:
    assert window_steps(2, 1 * MS, None) == 10
    assert window_steps(2, 4 * MS, None) == 5


def test_a_first_window_of_seconds_is_cut_to_one_step() -> None:
    assert window_steps(2, 800 * MS, None) == 1


@given(st.integers(-1, 50), st.integers(0, 10**11), st.integers(1, 10**9))
def test_a_later_window_never_outgrows_the_bytes_it_may_have(
    wanted: int, step: int, size: int
) -> None:
    steps = window_steps(wanted, step, size)

    assert steps >= 1
    assert steps == 1 or steps * size <= MOST_BYTES
