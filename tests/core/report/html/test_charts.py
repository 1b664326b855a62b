"""Charts of a page: the timeline of a trace, and the steps of a run."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.report.html.page import HEIGHT, MOST_DOTS, MOST_SLOW, StepTimes, environment
from perftui.report.html.timeline import LONGEST_NAME, MOST_BOXES, Events, boxes_of, timeline
from tests.core.report.html.pages import Node, gpu_trace, many_events, of, read, section


def steps_of(report: object) -> TraceSteps:
    steps = trace_steps.or_none(report.facts)  # type: ignore[attr-defined]
    assert steps is not None
    return steps


def tracks(page: Node) -> dict[str, Node]:
    """By label the drawing of each row."""
    found = section(page, "Timeline").every("div", "track")
    return {
        one.only("svg").attributes["aria-label"].removeprefix("timeline of "): one for one in found
    }


def test_rows_of_phases_threads_streams_and_idle_time_say_what_they_are(tmp_path: Path) -> None:
    _, page = of(gpu_trace(tmp_path / "trace.json"))
    assert list(tracks(page)) == [
        "phases",
        "main thread",
        "GPU 0 stream 7",
        "GPU 0 stream 20",
        "GPU 0 idle",
    ]
    rows = tracks(page)
    assert "data loader wait, 5.0 ms" in [one.text for one in rows["phases"].every("rect")]
    gaps = [one.text for one in rows["GPU 0 idle"].every("rect")]
    assert any(text.startswith("data loader wait") for text in gaps)


def test_a_rectangle_stands_where_its_event_was(tmp_path: Path) -> None:
    report, page = of(gpu_trace(tmp_path / "trace.json"))
    found, trace = timeline(steps_of(report)), steps_of(report).analysis.trace
    step = found.step
    (row,) = (
        row
        for row in range(len(trace))
        if trace.name_of(row) == "gemm" and step.start <= trace.start[row] < step.end
    )
    (drawn,) = tracks(page)["GPU 0 stream 7"].every("rect")
    scale = 10_000 / step.duration
    left, width = (float(drawn.attributes[name]) for name in ("x", "width"))
    assert left == pytest.approx((trace.start[row] - step.start) * scale, abs=0.01)
    assert width == pytest.approx(trace.duration[row] * scale, abs=0.01)
    assert drawn.text == "gemm, 3.0 ms"


def test_events_fill_the_step_in_few_boxes_and_a_small_file(tmp_path: Path) -> None:
    report, _ = of(many_events(tmp_path / "trace.json"))
    found = timeline(steps_of(report))
    covered = {row.label: row.covered for row, _ in found.drawn}
    unlisted = found.step.duration - covered["GPU 0 stream 7"] - covered["GPU 0 idle"]
    # Gaps below 1 us are not listed.
    assert 0 <= unlisted < 4_001 * 1_000
    report, page = of(many_events(tmp_path / "trace.json"))
    rows = [row for row, _ in timeline(steps_of(report)).drawn]
    assert sum(len(row.start) for row in rows) > 8_000
    assert sum(map(len, boxes_of(rows, 1))) <= MOST_BOXES
    assert len(list(section(page, "Timeline").every("rect"))) <= MOST_BOXES


def test_a_long_name_loses_its_middle(tmp_path: Path) -> None:
    report, _ = of(gpu_trace(tmp_path / "trace.json", "k" * 1_000))
    for row in [row for row, _ in timeline(steps_of(report)).drawn]:
        for at in range(len(row.start)):
            assert len(row.describe(at)[0]) <= LONGEST_NAME + len("synchronisation in ")


def test_a_trace_without_steps_is_shown_as_a_whole(tmp_path: Path) -> None:
    from tests.traces.events import cpu, gpu, write

    _, page = of(write(tmp_path / "a.json", [cpu("aten::mm", 0, 9), gpu("gemm", 20, 5)]))
    assert "All of the trace, which marks no steps." in section(page, "Timeline").text


LENGTHS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=60)


def events(lengths: list[tuple[int, int]]) -> Events:
    """Events of which each begins so long behind the one before, and lasts so long."""
    edges = np.cumsum(np.array(lengths, dtype=np.int64).ravel())
    return Events("row", edges[::2], edges[1::2], lambda at: (f"event {at}", "kernels"), "kernels")


@given(LENGTHS, st.integers(1, 40))
def test_every_event_lies_in_one_box(lengths: list[tuple[int, int]], least: int) -> None:
    row = events(lengths)
    (boxes,) = boxes_of([row], least)
    assert all(one.end <= two.start for one, two in pairwise(boxes))
    for begin, end in zip(row.start.tolist(), row.end.tolist(), strict=True):
        (around,) = (box for box in boxes if box.start <= begin and end <= box.end)
        if end - begin >= least:
            assert (around.start, around.end, around.name != "") == (begin, end, True)
    assert boxes[0].start == row.start[0]
    assert boxes[-1].end == row.end[-1]


@given(LENGTHS, st.integers(1, 40))
def test_what_is_united_is_too_narrow_to_be_seen(
    lengths: list[tuple[int, int]], least: int
) -> None:
    row = events(lengths)
    (boxes,) = boxes_of([row], least)
    for box in boxes:
        inside = (row.start >= box.start) & (row.end <= box.end)
        if inside.sum() > 1:
            start, end = row.start[inside], row.end[inside]
            assert (end - start).max() < least
            assert (start[1:] - end[:-1]).max() < least


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.integers(4, 30))
def test_there_are_never_more_boxes_than_asked_for(
    rows: list[list[tuple[int, int]]], most: int
) -> None:
    found = boxes_of([events(one) for one in rows], 1, most)
    assert sum(map(len, found)) <= most


def test_a_box_says_what_is_in_it() -> None:
    row = events([(0, 1_000), (10, 2_000), (10_000, 50_000)])
    (boxes,) = boxes_of([row], 5_000)
    assert boxes[0].text == "2 kernels, 3.0 µs in all; the longest is event 1, 2.0 µs"
    assert boxes[1].text == "event 2, 50 µs"
    assert [box.name for box in boxes] == ["", "event 2"]


MS = 1_000_000


def times(*milliseconds: float, aside: int = 0) -> StepTimes:
    """Steps that took so long; the first ``aside`` of them are warm-up."""
    duration = np.array([round(one * MS) for one in milliseconds], dtype=np.int64)
    index = np.arange(len(duration))
    return StepTimes(index, duration, index >= aside)


def chart(found: StepTimes) -> Node:
    return read(environment().get_template("parts.html").module.step_chart(found))


def test_a_first_step_of_a_hundred_times_the_usual_flattens_nothing() -> None:
    found = times(2000, *([20] * 30), aside=1)
    assert found.top < 40 * MS
    page = chart(found)
    assert "1 step lies above the chart; the longest is step 0 with 2.0 s." in page.text
    (first,) = page.every("path", "aside")
    assert first.text == "step 0, 2.0 s, warm-up or profiled"
    assert down(first) == 0


def test_slow_steps_are_marked_with_their_times_also_among_many() -> None:
    page = chart(times(*([20] * 15), 45, *([20] * 15)))
    (slow,) = page.every("path", "slow")
    assert slow.text == "step 15, 45 ms, slow"
    assert "31 steady steps, median 20 ms, 1 slow (over 30 ms)." in page.text
    assert len(list(page.every("path", "steady"))) == 30
    page = chart(times(*([20] * 30)))
    assert not list(page.every("path", "slow"))
    assert "none slow" in page.text
    page = chart(times(*([20] * 5_000), *([90] * 3), *([20] * 5_000)))
    assert len(list(page.every("path", "slow"))) == 3
    assert len(list(page.every("path"))) < 10
    assert page.only("path", "range").attributes["d"].count("M") == MOST_DOTS


@given(st.lists(st.integers(1, 10**12), min_size=3, max_size=400))
def test_any_steps_stay_within_the_chart(durations: list[int]) -> None:
    column = np.array(durations, dtype=np.int64)
    index = np.arange(len(column))
    found = StepTimes(index, column, index >= 0)
    page = chart(found)
    assert int(found.slow.sum()) == sum(one > found.limit for one in durations)
    marked = list(page.every("path", "slow"))
    assert len(marked) == min(int(found.slow.sum()), MOST_SLOW)
    for dot in (*marked, *page.every("path", "steady")):
        assert 0 <= down(dot) <= HEIGHT


def down(dot: Node) -> float:
    return float(dot.attributes["d"].removeprefix("M").removesuffix("h0").split()[1])
