import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftui.trace.memory_pickle import is_memory_snapshot, load_memory_snapshot
from perftui.trace.memory_snapshot import Action, BlockState, Frame, MemorySnapshot
from perftui.trace.model import NONE, LoadCancelled, LoadWarning, TraceError
from tests.core.trace.memory_files import Allocator, frames, snapshot
from tests.core.trace.specimens import wounded

Load = Callable[..., MemorySnapshot]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Pickles a tree (or writes bytes as they are) and loads it."""

    def write_and_load(content: Any, protocol: int = 4) -> MemorySnapshot:
        path = tmp_path / "snapshot.pickle"
        raw = content if isinstance(content, bytes) else pickle.dumps(content, protocol)
        path.write_bytes(raw)
        return load_memory_snapshot(path)

    return write_and_load


def small() -> Allocator:
    allocator = Allocator()
    first = allocator.alloc(1000, line=10)
    allocator.alloc(512, line=20)
    allocator.free(first)
    return allocator


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_segments_blocks_and_events_become_columns(load: Load, protocol: int) -> None:
    loaded = load(snapshot(small()), protocol)
    assert (
        int(loaded.segments.reserved.sum()),
        int(loaded.segments.allocated.sum()),
        int(loaded.segments.active.sum()),
    ) == (1536, 512, 512)
    assert loaded.devices == (0,)
    assert loaded.blocks.size.tolist() == [1024, 512]
    assert loaded.blocks.requested.tolist() == [0, 512]
    assert loaded.blocks.state.tolist() == [BlockState.INACTIVE, BlockState.ACTIVE]
    assert loaded.blocks.address.tolist() == [1 << 40, (1 << 40) + 1024]
    trace = loaded.traces[0]
    assert [Action(each).name for each in trace.action] == [
        "ALLOC",
        "ALLOC",
        "FREE_REQUESTED",
        "FREE_COMPLETED",
    ]
    assert trace.size.tolist() == [1000, 512, 1000, 1000]
    assert trace.time.tolist() == [1_700_000_000_000_000_000 + 7000 * i for i in (1, 2, 3, 4)]
    assert trace.has_time
    assert loaded.warnings == ()


def test_stacks_are_kept_once_and_in_order(load: Load) -> None:
    allocator = small()
    again = Allocator(device=1)
    again.alloc(8, line=10)
    loaded = load(snapshot(allocator, again))
    assert len(loaded.stacks) == 2
    assert len(loaded.stacks.frames) == 6
    wanted = [Frame(each["filename"], each["line"], each["name"]) for each in frames(10)]
    assert list(loaded.stacks.of(int(loaded.traces[0].stack[0]))) == wanted
    assert loaded.traces[0].stack[0] == loaded.traces[1].stack[0]
    assert loaded.stacks.of(NONE) == ()


def test_a_list_of_segments_alone_is_a_snapshot(load: Load) -> None:
    loaded = load(snapshot(small())["segments"])
    assert int(loaded.segments.allocated.sum()) == 512
    assert loaded.traces == ()


def test_out_of_memory_says_what_was_left_instead_of_an_address(load: Load) -> None:
    event = {"action": "oom", "device_free": 77, "size": 1 << 40, "stream": 0, "time_us": 5}
    trace = load({"segments": [], "device_traces": [[event]]}).traces[0]
    assert trace.action.tolist() == [Action.OOM]
    assert trace.device_free.tolist() == [77]
    assert trace.address.tolist() == [0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_newer_torch_adds_changes_nothing(load: Load, protocol: int) -> None:
    plain, tree = load(snapshot(small()), protocol), snapshot(small())
    for segment in tree["segments"]:
        segment |= {"segment_pool_id": (0, 3), "requested_size": 512, "registration_counter": -1}
        for block in segment["blocks"]:
            block["user_metadata"] = ""
    for event in tree["device_traces"][0]:
        event |= {"compile_context": "N/A", "user_metadata": "", "pool_id": (0, 3)}
        for frame in event["frames"]:
            frame |= {"fx_node_op": "call_function", "fx_node_name": "linear", "fx_node_info": {}}
    mark = {"stage": "START", "name": "Optimizer.step", "device": 0, "time_us": 1}
    tree |= {"external_annotations": [mark], "private_pools": {"(0, 3)": [1]}, "newer": None}
    loaded = load(tree, protocol)
    for table in ("segments", "blocks", "stacks"):
        for name, column in vars(getattr(plain, table)).items():
            assert np.array_equal(getattr(getattr(loaded, table), name), column), name
    for name, column in vars(plain.traces[0]).items():
        assert np.array_equal(getattr(loaded.traces[0], name), column), name
    assert loaded.warnings == ()


def test_annotations_are_known_and_pinned_host_memory_is_said_not_to_be_shown(load: Load) -> None:
    start = [{"name": "START", "filename": "ProfilerStep#0", "line": 0}]
    event = {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "frames": start}
    host = {"address": 1 << 40, "total_size": 4096, "blocks": []}
    tree = {"segments": [], "device_traces": [[event]], "host_segments": [host], "host_traces": []}
    loaded = load(tree)
    assert loaded.traces[0].action.tolist() == [Action.OTHER]
    assert loaded.warnings == (LoadWarning("1 segments of pinned host memory are not shown"),)


def test_what_is_not_known_or_not_read_is_said(load: Load) -> None:
    events = [{"action": "new\x1bkind", "addr": 1, "size": 2}]
    raw = pickle.dumps({"segments": [], "device_traces": [events]}) + b"tail"
    loaded = load(raw)
    assert loaded.traces[0].action.tolist() == [Action.OTHER]
    assert loaded.warnings == (
        LoadWarning("4 bytes after the snapshot were not read", len(raw) - 4),
        LoadWarning("1 events have actions that are not known: new\\x1bkind"),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": -1}, "out of range"),
        ({"size": 1 << 63}, "out of range"),
        ({"size": 1.5}, "not an integer"),
        ({"size": True}, "not an integer"),
        ({"addr": 1 << 64}, "out of range"),
        ({"time_us": 1 << 61}, "out of range"),
        ({"action": 3}, "no action"),
        ({"frames": 3}, "not a list"),
        ({"frames": [3]}, "a frame has no file"),
        ({"frames": [{"name": "f", "filename": "a.py", "line": 1 << 5000}]}, "a frame has no file"),
    ],
)
def test_wrong_fields_of_an_event_are_refused(
    load: Load, change: dict[str, object], message: str
) -> None:
    event = {"action": "alloc", "addr": 1, "size": 2, **change}
    with pytest.raises(TraceError, match=message):
        load({"segments": [], "device_traces": [[event]]})


def test_sizes_whose_sum_would_wrap_are_refused(load: Load) -> None:
    event = {"action": "alloc", "addr": 1, "size": 1 << 62}
    with pytest.raises(TraceError, match="out of range"):
        load({"segments": [], "device_traces": [[event, dict(event)]]})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08\x00", "damaged at byte 0: it ends before its value does"),
        ({"a": 1}, "not a memory snapshot"),
        ([], "not a memory snapshot"),
        ([1], "not a memory snapshot"),
        (5, "not a memory snapshot"),
        ({"segments": {}}, "not a memory snapshot"),
        ({"segments": [{}]}, "'device' is missing"),
        ({"segments": [], "device_traces": 5}, "not a list"),
        ({"segments": [], "device_traces": [5]}, "not a list"),
    ],
)
def test_what_is_no_snapshot_is_said(load: Load, content: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        load(content)


def test_unreadable_paths_are_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        load_memory_snapshot(tmp_path / "absent")
    with pytest.raises(TraceError, match="directory"):
        load_memory_snapshot(tmp_path)


@pytest.mark.slow
def test_loading_tells_its_progress_and_can_be_stopped(tmp_path: Path) -> None:
    allocator = Allocator()
    for line in range(3_000):
        allocator.alloc(8, line)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot(allocator)))
    size = path.stat().st_size
    told: list[tuple[int, int]] = []
    load_memory_snapshot(path, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (size, size)
    with pytest.raises(LoadCancelled):
        load_memory_snapshot(path, cancelled=lambda: True)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_snapshot_is_known_by_its_first_bytes(protocol: int) -> None:
    tree = snapshot(small())
    assert is_memory_snapshot(pickle.dumps(tree, protocol)[:512])
    assert is_memory_snapshot(pickle.dumps(tree["segments"], protocol)[:512])
    assert not is_memory_snapshot(pickle.dumps({"weights": [1, 2]}, protocol)[:512])
    assert not is_memory_snapshot(b'{"traceEvents": [], "segments": 1}')
    assert not is_memory_snapshot(b"")


def test_damage_raises_nothing_but_a_trace_error(load: Load) -> None:
    chance, raw = random.Random(5), pickle.dumps(snapshot(small()))  # noqa: S311 - damages a file
    for _ in range(800):
        with suppress(TraceError):
            loaded = load(wounded(raw, chance))
            assert int(loaded.segments.allocated.sum()) >= 0
            assert all((np.diff(loaded.stacks.start) > 0).tolist())
