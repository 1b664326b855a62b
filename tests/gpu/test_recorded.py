"""What the runs recorded on a GPU show: windows, phases, and the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from perftui.analysis.ops.calls import link
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.report.text import render as text_of
from perftui.run.reader import RunReader
from perftui.trace.model import NONE
from tests.core.report.html.pages import cells, of, section
from tests.gpu.record import RECORDED
from tests.gpu.recorded import LAUNCHING, ON_DEVICE, Event, Recorded, begin, correlation, end

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
def test_parts_sum_to_the_step_and_every_event_is_joined_to_its_launch(
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


def test_the_lines_of_the_loader_and_of_what_waits_for_the_gpu_are_known(recorded: Open) -> None:
    run = recorded("starved")
    found = diagnosis(Facts(RunReader(run.root).poll(), run.analysis)).top
    places = [fact.place.source for fact in found.facts if fact.place and fact.place.source]
    assert places == ["/tmp/trainings/pictures.py:33"]  # noqa: S108 - where it was recorded
    run = recorded("item")
    window = run.window_facts
    (call,) = (one for one in window["syncs"]["calls"] if one["call"] == "item")
    assert (call["line"], call["count"]) == (41, window["steps"])


PHASES = ("forward", "backward", "optimizer")

TOLERANCE = 0.02


def phases_by_kernels(run: Recorded) -> dict[int, dict[str, float]]:
    """Microseconds of each phase of each step.

    From when the GPU reached the event at the beginning of the phase, which is when the host
    recorded it or when all work before it was done, until it had done the work of the phase."""
    launched_at = {correlation(call): begin(call) for call in run.of(*LAUNCHING)}
    work = [
        (launched_at[correlation(event)], end(event))
        for event in run.of(*ON_DEVICE)
        if correlation(event) in launched_at
    ]
    marks = [
        begin(call) for call in run.of("cuda_runtime") if call["name"].startswith("cudaEventRecord")
    ]
    found: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for step, range_ in ranges(run):
        inside = [mark for mark in marks if begin(range_) <= mark <= end(range_)]
        first, last = inside[0], inside[-1]
        before = max((done for launch, done in work if launch < first), default=first)
        done = max(done for launch, done in work if first <= launch <= last)
        phase = range_["name"].removeprefix("perftui::")
        found[step][phase] += max(done, last) - max(before, first)
    return found


def ranges(run: Recorded) -> list[tuple[int, Event]]:
    """The ranges of phases, each with the step that it is of."""
    annotations = run.of("user_annotation")
    steps = [one for one in annotations if one["name"].startswith("ProfilerStep#")]
    return [
        (int(step["name"].partition("#")[2]), one)
        for one in annotations
        for step in steps
        if one["name"].removeprefix("perftui::") in PHASES
        if begin(step) <= begin(one) < end(step)
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_phases_take_as_long_as_their_kernels(
    name: str, recorded: Callable[[str], Recorded]
) -> None:
    run = recorded(name)
    by_kernels = phases_by_kernels(run)

    window = run.window_facts
    first, steps = window["first_step"], window["steps"]
    assert sorted(by_kernels) == list(range(first, first + steps))
    for step, phases in by_kernels.items():
        assert sorted(phases) == sorted(PHASES)
        for phase, us in phases.items():
            by_events = run.rank.steps[f"device_{phase}"][step] / 1e3
            assert by_events == pytest.approx(us, rel=TOLERANCE), (step, phase)


@pytest.mark.parametrize("name", RECORDED)
def test_memory_is_told_of_steps_and_never_exceeds_what_is_reserved(
    name: str, recorded: Callable[[str], Recorded]
) -> None:
    steps = recorded(name).rank.steps
    known = steps["allocated"] >= 0

    assert known.sum() >= 5
    assert (steps["allocated"][known] <= steps["reserved"][known]).all()
    assert (steps["allocated"][known] <= steps["peak_allocated"][known]).all()
    peaks = steps["peak_allocated"][known]
    assert (peaks[1:] >= peaks[:-1]).all()


RUNS = ("item", "starved", "language")
Unpack = Callable[[str], Recorded]


def block(text: str, title: str) -> list[str]:
    """The lines of the block that begins so, without the title."""
    (found,) = (one for one in text.split("\n\n") if one.startswith(title))
    return found.rstrip().splitlines()[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_phases_and_memory_of_the_gpu_and_the_recording_are_those_of_the_text(
    name: str, recorded: Unpack
) -> None:
    report, page = of(recorded(name).root)
    text = text_of(report)
    phases = cells(section(page, "Phases on the GPU").only("table"))
    written = [line.split() for line in block(text, "Phases on the GPU")]
    assert [name for name, _ in phases] == [words[0] for words in written]
    memory = cells(section(page, "GPU memory, by torch").only("table"))
    assert [f"  {name:<30} {value:>12}" for name, value in memory] == block(text, "GPU memory, by")
    items = [item.text for item in section(page, "Recording").every("li")]
    assert items == [line.strip() for line in block(text, "Recording")]


def test_calls_that_wait_stand_with_their_lines(recorded: Unpack) -> None:
    report, page = of(recorded("item").root)
    rows = cells(section(page, "Calls that wait for the GPU").only("table"))
    written = [line.split() for line in block(text_of(report), "Calls that wait for the GPU")[1:]]
    assert len(rows) == len(written) > 0
    for (call, each, time, longest), words in zip(rows, written, strict=True):
        assert [each, *time.split(), *longest.split()] == words[:5]
        assert call.split(" at ")[0] == words[5]
