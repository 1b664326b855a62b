"""What a range of time holds, and the chain that a trace's length rests on."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Host
from perftui.analysis.timeline.measure import Measure, measure
from perftui.facts.gpu.streams import CriticalPath, Link, Segment
from perftui.trace.model import NONE, Trace
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import cpu, gpu, trace_of


def covered(spans: list[tuple[int, int]]) -> int:
    """Nanoseconds in any span, by asking each."""
    return len({moment for start, end in spans for moment in range(start, end)})


def slowly(trace: Trace, start: int, end: int) -> dict[str, Any]:
    """The same figures, row by row."""
    devices: dict[int, list[tuple[int, int]]] = {t.device: [] for t in trace.tracks if t.is_device}
    threads: dict[int, list[tuple[int, int]]] = {}
    names: dict[tuple[str, bool], list[int]] = {}
    activity = kinds.device_activity(trace)
    inside = {}
    for row in range(len(trace)):
        begin, stop = int(trace.start[row]), int(trace.start[row] + trace.duration[row])
        if begin < end and (stop > start or begin >= start):
            inside[row] = (max(begin, start), min(stop, end))
    for row, span in inside.items():
        track = trace.tracks[int(trace.track[row])]
        if track.is_device and not activity[row]:
            continue
        if track.is_device:
            devices[track.device].append(span)
        elif trace.categories[int(trace.category[row])] == "cpu_op":
            threads.setdefault(int(trace.track[row]), []).append(span)
        time = span[1] - span[0]
        called = sum(
            e - b
            for child, (b, e) in inside.items()
            if int(trace.parent[child]) == row and not track.is_device
        )
        known = names.setdefault((trace.name_of(row), track.is_device), [0, 0, 0])
        for index, value in enumerate((1, time, time - called)):
            known[index] += value
    return {
        "devices": {key: (covered(spans), len(spans)) for key, spans in devices.items()},
        "threads": {key: (covered(spans), len(spans)) for key, spans in threads.items()},
        "names": {key: tuple(value) for key, value in names.items()},
    }


def told(found: Measure) -> dict[str, Any]:
    return {
        "devices": {one.device: (one.time, one.events) for one in found.devices},
        "threads": {one.track: (one.time, one.events) for one in found.threads},
        "names": {
            (one.name, one.on_device): (one.calls, one.total, one.own) for one in found.names
        },
    }


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["cpu", "other", "mark", "python", "gpu", "copy", "range"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 60).map(lambda tick: tick / 1000),
        st.integers(0, 25).map(lambda tick: tick / 1000),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(EVENTS, st.integers(-5, 60), st.integers(0, 60))
def test_the_same_as_row_by_row(
    events: list[tuple[str, str, float, float]], start: int, length: int
) -> None:
    make = {
        "cpu": cpu,
        "other": lambda *about: cpu(*about, tid=2),
        "mark": lambda *about: cpu(*about, "user_annotation"),
        "python": lambda *about: cpu(*about, "python_function"),
        "gpu": gpu,
        "copy": lambda *about: gpu(*about, cat="gpu_memcpy", stream=20),
        "range": lambda *about: gpu(*about, cat="gpu_user_annotation"),
    }
    trace = trace_of(*(make[kind](*about) for kind, *about in events))
    assert told(measure(trace, start, start + length)) == slowly(trace, start, start + length)


def test_parts_of_events_count_and_overlaps_count_once() -> None:
    trace = trace_of(
        cpu("step", 0, 100),
        cpu("mm", 10, 40),
        gpu("gemm", 20, 40),
        gpu("copy", 50, 30, cat="gpu_memcpy", stream=20),
    )
    found = measure(trace, 30_000, 70_000)
    assert found.duration == 40_000
    assert [(one.device, one.track, one.time, one.events) for one in found.devices] == [
        (0, NONE, 40_000, 2)
    ]
    assert [one.time for one in found.threads] == [40_000]
    assert [(one.name, one.calls, one.total, one.own) for one in found.names] == [
        ("gemm", 1, 30_000, 30_000),
        ("copy", 1, 20_000, 20_000),
        ("mm", 1, 20_000, 20_000),
        ("step", 1, 40_000, 20_000),
    ]


def test_own_times_of_a_thread_sum_to_what_it_was_busy() -> None:
    trace = trace_of(cpu("a", 0, 100), cpu("b", 10, 30), cpu("a", 15, 5), cpu("c", 200, 10))
    found = measure(trace, 12_000, 205_000)
    assert [(one.time, one.events) for one in found.threads] == [(88_000 + 5_000, 4)]
    assert sum(one.own for one in found.names) == found.threads[0].time


def test_a_device_that_was_idle_is_there_and_a_range_backwards_is_refused() -> None:
    trace = trace_of(gpu("a", 0, 10), gpu("b", 0, 10, device=1))
    assert [one.time for one in measure(trace, 20_000, 30_000).devices] == [0, 0]
    with pytest.raises(ValueError, match="from 2 to 1"):
        measure(trace, 2, 1)


def chain_of(story: TraceBuilder) -> tuple[Segment, ...]:
    trace = story.trace()
    return CriticalPath(trace, Host(trace)).chain()


def sums(story: TraceBuilder) -> dict[Link, int]:
    chain = chain_of(story)
    return {kind: sum(one.duration for one in chain if one.kind is kind) for kind in Link}


def test_the_path_is_that_of_a_busy_device_a_late_host_or_a_wait() -> None:
    story = TraceBuilder().step()
    for _ in range(10):
        story.launch("gemm", ms(1))
    found = sums(story.end())
    assert found[Link.COMPUTE] == ms(10)
    assert found[Link.HOST] == 0
    story = TraceBuilder().step()
    for _ in range(10):
        story.op("aten::add", us(90)).launch("add", us(5), call=us(10))
    found = sums(story.end())
    # Of the kernels only the last one is on it: the others are over before the next is launched.
    assert found[Link.COMPUTE] == us(5)
    assert found[Link.HOST] == us(90) + 9 * us(100)
    assert found[Link.LAUNCH] == us(10)
    story = TraceBuilder().step()
    for _ in range(3):
        story.launch("gemm", ms(2)).sync().pause(ms(1))
    found = sums(story.end())
    assert found[Link.COMPUTE] == ms(6)
    assert found[Link.HOST] == ms(3)


def test_collectives_and_copies_are_distinguished() -> None:
    story = TraceBuilder().step().launch("gemm", ms(2))
    at = story.now
    story.all_reduce(ms(3), starts=ms(2) + us(5)).copy("DtoH", ms(1), 4, starts=ms(5) + us(5))
    found = sums(story.at(at).end())
    assert (found[Link.COMPUTE], found[Link.COMMUNICATION]) == (ms(2), ms(3))
    assert found[Link.COPY] == ms(1)


def test_a_trace_of_the_host_alone_has_none() -> None:
    assert chain_of(TraceBuilder().step().op("aten::mm", ms(1)).end()) == ()


works = st.lists(
    st.tuples(
        st.sampled_from(["launch", "other stream", "pause", "sync", "op", "collective"]),
        st.integers(1, 500),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@given(works)
def test_it_is_unbroken_from_the_first_event_to_the_last(works: list[tuple[str, int]]) -> None:
    story = TraceBuilder().step().launch("first", us(3))
    for kind, length in works:
        if kind == "launch":
            story.launch("gemm", us(length))
        elif kind == "other stream":
            story.launch("side", us(length), stream=9)
        elif kind == "pause":
            story.pause(us(length))
        elif kind == "sync":
            story.sync()
        elif kind == "op":
            story.op("aten::add", us(length))
        else:
            story.all_reduce(us(length))
    story.end()
    trace, chain = story.trace(), chain_of(story)
    assert chain[0].start == int(trace.start.min())
    assert chain[-1].end == int(trace.end.max())
    assert all(one.end == after.start for one, after in itertools.pairwise(chain))
    assert all(one.duration > 0 for one in chain)
