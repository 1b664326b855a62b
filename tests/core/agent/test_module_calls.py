"""What a training calls of its modules, before a window of it and within."""

from __future__ import annotations

import pytest

from perftui.agent.windows.plan import CALL_NS, REMEMBERED, ModuleCalls


def after(*steps: int) -> ModuleCalls:
    calls = ModuleCalls()
    for modules in steps:
        if modules:
            calls.count(modules)
        calls.end_step(1, is_sought=True)
    return calls


@pytest.mark.parametrize(
    ("before", "steps", "most"),
    [
        ((1_000,) * 3, 1, 2_000),
        ((1_000,) * 3, 2, 4_000),
        ((40, 900, 40), 1, 1_800),
        ((9,), 1, 1_500),
    ],
)
def test_a_window_may_hold_twice_what_the_steps_before_have_called(
    before: tuple[int, ...], steps: int, most: int
) -> None:
    calls = after(*before)
    calls.open(steps, is_limited=True)
    calls.count(most)
    assert not calls.are_too_many
    calls.count(1)
    assert calls.are_too_many


def test_what_was_asked_for_may_hold_any_number() -> None:
    calls = after(1_000)
    calls.open(1, is_limited=False)
    calls.count(10**9)

    assert not calls.are_too_many


def test_the_dearest_of_the_last_steps_is_expected_again() -> None:
    assert after().price(2) == 0
    assert after(40, 5_000, 40).price(2) == 2 * 5_000 * CALL_NS
    assert after(5_000, *[40] * REMEMBERED).price(1) == 40 * CALL_NS
    assert after(5_000, *[0] * REMEMBERED).price(1) == 5_000 * CALL_NS


def test_calls_on_the_fast_path_are_taken_to_hold_as_many_modules() -> None:
    calls = after(40)
    calls.end_step(300, is_sought=True)
    assert calls.price(1) == 300 * 40 * CALL_NS

    for _ in range(50):
        calls.count(10)
    calls.end_step(400, is_sought=True)
    calls.end_step(2_000, is_sought=True)
    assert calls.price(1) == 2_000 * 10 * CALL_NS


def test_steps_that_windows_are_not_for_are_not_expected() -> None:
    calls = after(40)
    calls.count(5_000)
    calls.end_step(1, is_sought=False)

    assert calls.price(1) == 40 * CALL_NS


def test_a_step_whose_end_showed_late_does_not_count_with_the_calls_of_the_next() -> None:
    calls = after(40)
    for _ in range(200):
        calls.count(40)
    calls.end_step(1, is_sought=True)

    assert calls.price(1) == 40 * CALL_NS
