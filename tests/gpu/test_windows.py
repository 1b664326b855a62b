"""What perftui reads out of windows of a real GPU, against plain sums over their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from perftui.analysis.ops.calls import link
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.run.reader import RunReader
from perftui.trace.model import NONE
from tests.gpu.record import RECORDED
from tests.gpu.recorded import LAUNCHING, ON_DEVICE, Recorded, begin, correlation, end

Open = Callable[[str], Recorded]

ON_GPU = (COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES)


def busy_us(run: Recorded, first: float, last: float) -> float:
    """How long anything ran on the GPU between two times, by a sweep over all events."""
    total, until = 0.0, first
    for event in run.of(*ON_DEVICE):
        since = max(begin(event), until)
        done = min(end(event), last)
        if done > since:
            total += done - since
            until = done
    return total


@pytest.mark.parametrize("name", RECORDED)
def test_parts_sum_to_the_step_and_busy_time_to_that_of_the_events(
    name: str, recorded: Open
) -> None:
    run = recorded(name)
    steps = [one for one in run.of("user_annotation") if one["name"].startswith("ProfilerStep#")]

    assert len(run.analysis.step_parts) == len(steps) > 0
    origin = run.analysis.trace.origin
    for budget in run.analysis.step_parts:
        parts = dict(budget.parts)
        assert sum(parts.values()) == budget.step.duration
        busy = sum(parts.get(part, 0) for part in ON_GPU)
        first, last = ((origin + at) / 1e3 for at in (budget.step.start, budget.step.end))
        assert busy / 1e3 == pytest.approx(busy_us(run, first, last), abs=0.5)


@pytest.mark.parametrize("name", RECORDED)
def test_every_event_of_the_gpu_is_there_and_joined_to_its_launch(
    name: str, recorded: Open
) -> None:
    run = recorded(name)
    events = run.of(*ON_DEVICE)
    trace = run.analysis.trace

    found = Counter({kind: int(trace.in_category(kind).sum()) for kind in ON_DEVICE})
    assert +found == Counter(event["cat"] for event in events)
    calls = {correlation(call) for call in run.of(*LAUNCHING)}
    launched = sum(correlation(event) in calls for event in events)
    assert int((link(trace).launch != NONE).sum()) == launched
    # The first ones were launched in the step before.
    assert launched > 0.9 * len(events)


VERDICTS = {
    "starved": "input-bound",
    "item": "layout-conversion",
    "language": "optimizer-single-tensor",
    "compiled": "launch-bound",
    "tiny": "launch-bound",
}


@pytest.mark.parametrize(("name", "rule"), VERDICTS.items())
def test_the_bottleneck_is_named(name: str, rule: str | None, recorded: Open) -> None:
    run = recorded(name)
    found = diagnosis(Facts(RunReader(run.root).poll(), run.analysis)).top
    assert (found.rule if found else None) == rule


def test_the_line_of_the_loader_is_known(recorded: Open) -> None:
    run = recorded("starved")
    found = diagnosis(Facts(RunReader(run.root).poll(), run.analysis)).top
    assert found is not None
    places = [fact.place.source for fact in found.facts if fact.place and fact.place.source]
    assert places == ["/tmp/trainings/pictures.py:33"]  # noqa: S108 - where it was recorded


def test_the_line_that_waits_for_the_gpu_is_known(recorded: Open) -> None:
    run = recorded("item")
    window = run.window_facts
    (call,) = (one for one in window["syncs"]["calls"] if one["call"] == "item")
    assert (call["line"], call["count"]) == (41, window["steps"])
