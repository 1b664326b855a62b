"""Small traces for the timeline."""

from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.lanes import build_lanes
from perftui.trace.model import NONE, Trace, Track
from perftui_tui.screens.timeline.model.state import TimelineState

MS = 1_000_000


def _column(events, key, default, kind=np.int64):
    return np.asarray([event.get(key, default) for event in events], kind)


@pytest.fixture
def make_trace():
    """A trace from (name, track, start, duration) and keywords for the other columns.

    Track 0 is a thread, track 1 a stream of GPU 0. Events are to be given in the trace's order.
    """

    def make(*events):
        events = [
            dict(zip(("name", "track", "start", "duration"), event[:4], strict=True))
            | (event[4] if len(event) > 4 else {})
            for event in events
        ]
        names = tuple(dict.fromkeys(event["name"] for event in events))
        for event in events:
            event.setdefault("category", "kernel" if event["track"] else "cpu_op")
        categories = tuple(dict.fromkeys(event["category"] for event in events))
        small = np.int32
        return Trace(
            path=Path("trace.json"),
            start=_column(events, "start", 0),
            duration=_column(events, "duration", 0),
            name=np.asarray([names.index(event["name"]) for event in events], small),
            category=np.asarray([categories.index(e["category"]) for e in events], small),
            track=_column(events, "track", 0, small),
            correlation=_column(events, "correlation", NONE),
            external_id=_column(events, "external_id", NONE),
            bytes=_column(events, "bytes", NONE),
            parent=_column(events, "parent", NONE, small),
            depth=_column(events, "depth", 0, small),
            names=names,
            categories=categories,
            tracks=(Track("1", "7", "", "main"), Track("0", "7", "", "", device=0, stream=7)),
            origin=0,
            wall_origin=None,
            read_arguments=lambda row: {"Input Dims": [[row, 8]]},
        )

    return make


@pytest.fixture
def trace(make_trace):
    """Two operators, their launches, and three activities with a gap of 30 ms among them."""
    launch = {"category": "cuda_runtime", "depth": 1, "parent": 0}
    copy = {"category": "gpu_memcpy", "bytes": 4096}
    return make_trace(
        ("aten::mm", 0, 0, 10 * MS),
        ("cudaLaunchKernel", 0, 2 * MS, MS, launch | {"correlation": 5}),
        ("aten::item", 0, 30 * MS, 60 * MS),
        ("cudaLaunchKernel", 0, 31 * MS, MS, launch | {"correlation": 6, "parent": 2}),
        ("cudaStreamSynchronize", 0, 60 * MS, 20 * MS, launch | {"parent": 2}),
        ("gemm", 1, 5 * MS, 15 * MS, {"correlation": 5}),
        ("Memcpy DtoH", 1, 50 * MS, 10 * MS, copy | {"correlation": 6}),
        ("relu", 1, 60 * MS + 100, 5 * MS),
    )  # fmt: skip


@pytest.fixture
def state(trace):
    """All of it in view, on a screen of ten tracks."""
    state = TimelineState(analyse(trace), build_lanes(trace))
    state.resized(10)
    return state
