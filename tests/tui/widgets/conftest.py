"""Small traces for the timeline."""

import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui_tui.screens.timeline.state import TimelineState
from tests.tui.traces import traced

MS = 1_000_000


@pytest.fixture
def make_trace():
    return traced


@pytest.fixture
def trace(make_trace):
    """Two operators, their launches, and three activities with a gap of 30 ms among them."""
    launch = {"cat": "cuda_runtime"}
    copy = {"cat": "gpu_memcpy", "bytes": 4096}
    return make_trace(
        ("aten::mm", 0, 0, 10 * MS),
        ("cudaLaunchKernel", 0, 2 * MS, MS, launch | {"correlation": 5}),
        ("aten::item", 0, 30 * MS, 60 * MS),
        ("cudaLaunchKernel", 0, 31 * MS, MS, launch | {"correlation": 6}),
        ("cudaStreamSynchronize", 0, 60 * MS, 20 * MS, launch),
        ("gemm", 1, 5 * MS, 15 * MS, {"correlation": 5}),
        ("Memcpy DtoH", 1, 50 * MS, 10 * MS, copy | {"correlation": 6}),
        ("relu", 1, 60 * MS + 100, 5 * MS),
    )  # fmt: skip


@pytest.fixture
def state(trace):
    """All of it in view, on a screen of ten tracks."""
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    state.resized(10)
    return state
