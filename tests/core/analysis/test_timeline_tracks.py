from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.track import WHOLE
from perftui.analysis.timeline.tracks import timeline_tracks
from tests.traces.events import cpu, gpu, mark, trace_of


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
