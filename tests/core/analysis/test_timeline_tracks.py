"""Which tracks a timeline has, and how threads are called: by what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.track import WHOLE
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui.trace.model import Trace
from tests.traces.events import cpu, frame, gpu, mark, named, trace_of


def test_devices_come_first_then_the_main_thread() -> None:
    trace = trace_of(
        cpu("early", 0, 5, tid=3),
        mark("ProfilerStep#1", 10, 90, tid=1),
        cpu("aten::linear", 20, 10, tid=1),
        cpu("aten::mm", 22, 5, tid=1),
        gpu("k", 30, 5, stream=20, device=1),
        gpu("k", 30, 5, stream=7),
        gpu("range", 30, 50, cat="gpu_user_annotation", stream=7),
        {"ph": "M", "name": "thread_name", "pid": 500, "tid": 1, "args": {"name": "main"}},
    )
    tracks = [(track.label, track.kind, track.depth) for track in timeline_tracks(trace)]
    assert tracks == [
        ("GPU 0 stream 7", "device", 0),
        ("GPU 0 stream 7", "marks", 0),
        ("GPU 1 stream 20", "device", 0),
        ("main", "thread", 0),
        ("main", "thread", 1),
        ("main", "thread", 2),
        ("thread 3", "thread", 0),
    ]


def test_what_names_no_stream_is_not_called_like_its_device() -> None:
    unknown = gpu("k", 60, 5)
    del unknown["args"]["stream"], unknown["tid"]
    several = trace_of(gpu("k", 10, 5, stream=7), gpu("k", 30, 5, stream=8), unknown)
    assert [track.label for track in timeline_tracks(several)] == [
        "GPU 0", "GPU 0 no stream", "GPU 0 stream 7", "GPU 0 stream 8"
    ]  # fmt: skip
    assert [track.label for track in timeline_tracks(trace_of(unknown))] == ["GPU 0"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=20))
def test_overlaps_on_a_stream_are_spread_over_as_few_tracks_as_they_need(
    spans: list[tuple[int, int]],
) -> None:
    trace = trace_of(*(gpu("k", start, length) for start, length in spans))
    tracks = timeline_tracks(trace)
    rows = np.concatenate([track.index.rows for track in tracks])
    assert sorted(rows.tolist()) == list(range(len(spans)))
    for track in tracks:
        assert np.all(track.index.start[1:] >= track.index.end[:-1])
    deepest = max(
        sum(start <= moment < start + length for start, length in spans) for moment in range(80)
    )
    assert len(tracks) >= max(1, deepest)
    if all(length for _, length in spans):
        assert len(tracks) == deepest


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 20)),
        min_size=1,
        max_size=20,
    )
)
def test_a_device_of_several_streams_is_busy_while_any_of_them_is(
    spans: list[tuple[int, int, int]],
) -> None:
    trace = trace_of(*(gpu("k", start, length, stream=s) for s, start, length in spans))
    tracks = timeline_tracks(trace)
    whole = [track for track in tracks if track.kind == WHOLE]
    assert len(whole) == (len({stream for stream, _, length in spans if length}) > 1)
    first = min(start for _, start, _ in spans)
    for track in whole:
        index = track.index
        assert track is tracks[0]
        assert track.label == "GPU 0"
        assert np.all(index.start[1:] >= index.end[:-1])
        assert np.all(index.start >= trace.start[index.rows])
        assert np.all(index.end == trace.ends_of(index.rows))
        busy = {at - first for _, start, length in spans for at in range(start, start + length)}
        assert index.busy(0, 80_000, 80).tolist() == [1000 * (at in busy) for at in range(80)]


def labels(trace: Trace) -> list[str]:
    return list(dict.fromkeys(one.label for one in timeline_tracks(trace) if one.kind == "thread"))


def test_threads_are_called_by_what_they_run() -> None:
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100),
        cpu("aten::mm", 10, 20),
        cpu("autograd::engine::evaluate_function: MmBackward0", 40, 20, tid=2),
        cpu("aten::pin_memory", 50, 5, tid=3),
        cpu("torch/utils/data/_utils/worker.py(213): _worker_loop", 51, 9, "python_function", 4),
        cpu("aten::mul", 60, 5, tid=5),
        gpu("k", 20, 5),
        named(1, "thread 1 (python3)"),
        named(2, "thread 2 (python3)"),
    )
    assert labels(trace) == [
        *("main thread", "autograd", "pin memory thread", "data loader worker", "thread 5")
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("thread 9 (pt_autograd_0)", "autograd"),
        ("thread 9 (pt_data_pin)", "pin memory thread"),
        ("thread 9 (pt_data_worker)", "data loader worker"),
        ("pt_nccl_watchdg", "NCCL watchdog"),
        ("thread 9 (pt_gloo_runloop)", "thread 9 (pt_gloo_runloop)"),
        ("my prefetcher", "my prefetcher"),
        ("thread 9 (python)", "thread 9 (python)"),
    ],
)
def test_threads_are_called_by_the_names_that_torch_gives_them(name: str, label: str) -> None:
    trace = trace_of(mark("ProfilerStep#1", 0, 100), cpu("aten::mul", 60, 5, tid=9), named(9, name))
    assert labels(trace) == ["main thread", label]


def test_several_of_one_role_are_numbered() -> None:
    backward = "autograd::engine::evaluate_function: MmBackward0"
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100), cpu(backward, 40, 20, tid=7), cpu(backward, 30, 20, tid=8)
    )
    assert labels(trace) == ["main thread", "autograd 1", "autograd 2"]


def test_a_thread_with_a_name_of_its_own_keeps_it() -> None:
    trace = trace_of(mark("ProfilerStep#1", 0, 100), frame("train.py(1): f", 5, 5), named(1, "go"))
    assert labels(trace) == ["go"]


SPAN = 2_000
"""ns of the main thread, of which a hundredth is 20."""


def threads(*spans):
    """A trace whose main thread works all the time, and one more thread for each list of spans."""
    events = [cpu("aten::mm", 0, SPAN / 1000, tid=1)]
    for thread, own in enumerate(spans, 2):
        events += [cpu("aten::add", at / 1000, length / 1000, tid=thread) for at, length in own]
    return trace_of(*(named(1, "main"),), *events)


def found_in(trace):
    return helper_threads(trace, timeline_tracks(trace))


EVENT = st.tuples(st.integers(0, SPAN - 30), st.integers(1, 29))


@pytest.mark.slow
@given(st.lists(st.lists(EVENT, min_size=1, max_size=4), min_size=1, max_size=5))
def test_those_whose_events_cover_less_than_a_hundredth(spans):
    trace = threads(*spans)
    covered = [{t for at, length in own for t in range(at, at + length)} for own in spans]
    few = [number for number, each in enumerate(covered, 2) if len(each) < SPAN / 100]
    found = found_in(trace)
    if len(few) < 2:
        assert found == ()
        return
    (helpers,) = found
    assert {int(trace.tracks[thread].thread) for thread in helpers.threads} == set(few)
    # What any of them does, each moment once.
    every = set().union(*(covered[number - 2] for number in few))
    shift = int(trace.start.min())
    index = helpers.track.index
    assert int(index.busy(shift, shift + SPAN, 1)[0]) == len(every)
    assert (index.start[1:] >= index.end[:-1]).all()
    assert helpers.track.label == f"{len(few)} threads under 1 %"


def test_the_thread_that_trains_is_never_one():
    quiet = [cpu("aten::mm", 0, 0.001, tid=1)]
    long = [cpu("aten::add", 0, 2.0, tid=2)]
    others = [cpu("aten::add", 1, 0.002, tid=thread) for thread in (3, 4)]
    trace = trace_of(named(1, "python"), *quiet, *long, *others)
    roles = {int(trace.tracks[t].thread) for one in found_in(trace) for t in one.threads}
    assert 2 not in roles


def test_a_single_one_keeps_its_own_track():
    assert found_in(threads([(5, 3)], [(0, 500)])) == ()
