"""The parts of a step that nobody profiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.facts.step.judged_step import unprofiled
from perftui.facts.step.steps import StepBreakdown
from perftui.run.columns import PHASES

TIME = st.integers(0, 50) | st.integers(0, 10**9)
PARTS = (COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES, *(cause.value for cause in GapCause))


def breakdown(parts: dict[str, int]) -> StepBreakdown:
    mean = sum(parts.values())
    return StepBreakdown(30, mean, tuple(parts.items()), mean, mean, mean, mean)


def parts(window: dict[str, int], run: dict[str, int], host: dict[str, int] | None = None):
    """Those that are not 0."""
    found = unprofiled(breakdown(window), breakdown(run), host)
    return {name: ns for name, ns in found.items() if ns}


@given(
    st.dictionaries(st.sampled_from(PARTS), TIME),
    st.dictionaries(st.sampled_from(PHASES), TIME, min_size=1),
    st.none() | st.dictionaries(st.sampled_from(PHASES), TIME),
)
def test_parts_sum_to_the_step_of_the_run(
    window: dict[str, int], run: dict[str, int], host: dict[str, int] | None
) -> None:
    found = unprofiled(breakdown(window), breakdown(run), host)
    assert sum(found.values()) == sum(run.values())
    assert all(ns >= 0 for ns in found.values())
    assert not found[GapCause.PROFILER.value]


def test_a_shorter_step_idles_less_and_first_of_all_launches_less() -> None:
    window = {COMPUTE: 300, "launch-bound": 200, "python": 100, "profiler": 50}
    run = {"forward": 500}
    assert parts(window, run) == {COMPUTE: 300, "launch-bound": 100, "python": 100}
    assert parts(window, {"forward": 400}) == {COMPUTE: 300, "launch-bound": 50, "python": 50}
    assert parts(window, {"forward": 200}) == {COMPUTE: 200}


def test_a_longer_step_waits_where_the_training_thread_does() -> None:
    window = {COMPUTE: 300, "data loader wait": 10, "launch-bound": 90}
    run = {"input_wait": 200, "forward": 100, "other": 300}
    host = {"input_wait": 10, "forward": 290, "other": 100}
    assert parts(window, run, host) == {
        COMPUTE: 300,
        "launch-bound": 90,
        "data loader wait": 200,
        "other": 10,
    }


def test_the_host_waits_no_longer_than_the_run_says() -> None:
    window = {COMPUTE: 200, "data loader wait": 300, "python": 100}
    run = {"input_wait": 50, "forward": 250}
    assert parts(window, run, {"input_wait": 300, "forward": 300}) == {
        COMPUTE: 200,
        "data loader wait": 33,
        "python": 67,
    }


def test_what_nothing_explains_is_in_all_of_the_step() -> None:
    assert parts({COMPUTE: 90, "python": 10}, {"forward": 200}) == {COMPUTE: 180, "python": 20}
