import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis.memory_snapshot import (
    StackTotals,
    allocations_at_end,
    allocations_at_peak,
    by_source,
    largest_unused,
    time_line,
    trace_levels,
    user_frame,
)
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.memory_snapshot import MemorySnapshot
from perftui.trace.model import NONE
from tests.core.trace.memory_files import Allocator, frames, snapshot

Take = Callable[..., MemorySnapshot]


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Loads the snapshot of some allocators, or of a tree."""

    def take_and_load(*allocators: Allocator, **changes: object) -> MemorySnapshot:
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps({**snapshot(*allocators), **changes}))
        return load_memory_snapshot(path)

    return take_and_load


def lines(loaded: MemorySnapshot, totals: StackTotals) -> dict[int, tuple[int, int]]:
    """Bytes and count by the user's line, NONE where there is no stack."""
    return {
        NONE if frame is None else frame.line: held
        for frame, held in by_source(loaded, totals).items()
    }


def scenario() -> Allocator:
    """Weights before the recording, a batch that comes and goes, a cache that stays."""
    allocator = Allocator(recording=False)
    allocator.alloc(4000, line=1)
    old = allocator.alloc(700, line=2)
    allocator.recording = True
    allocator.alloc(100, line=3)
    batch = allocator.alloc(9000, line=4)
    allocator.free(batch)
    allocator.free(old)
    allocator.again(batch, 50, line=5)
    return allocator


def test_what_is_held_by_line_at_the_end_and_at_the_peak_from_the_start_on(take: Take) -> None:
    loaded = take(scenario())
    assert lines(loaded, allocations_at_end(loaded, 0)) == {1: (4000, 1), 3: (100, 1), 5: (50, 1)}
    assert len(allocations_at_end(loaded, 1)) == 0
    held = lines(loaded, allocations_at_peak(loaded, 0))
    assert held == {4: (9000, 1), 1: (4000, 1), NONE: (700, 1), 3: (100, 1)}
    levels = trace_levels(take(scenario()).traces[0])
    assert (levels[-1], levels.max(), levels.argmax()) == (-550, 9100, 2)


def test_a_trace_that_only_frees_peaks_at_its_start(take: Take) -> None:
    allocator = Allocator(recording=False)
    first = allocator.alloc(700, line=2)
    allocator.alloc(300, line=1)
    allocator.recording = True
    allocator.free(first)
    loaded = take(allocator)
    assert trace_levels(loaded.traces[0]).tolist()[:: len(loaded.traces[0])] == [0, -700]
    assert lines(loaded, allocations_at_peak(loaded, 0)) == {NONE: (700, 1), 1: (300, 1)}
    assert time_line(loaded, 0).bytes.tolist() == [1000, 300]


def test_the_time_line_is_the_level_after_each_change_by_time_or_event(take: Take) -> None:
    line = time_line(take(scenario()), 0)
    assert line.absolute
    assert line.timed
    assert line.bytes.tolist() == [4700, 4800, 13800, 4800, 4100, 4150]
    first = 1_700_000_000_000_021_000
    assert (line.time - first).tolist() == [0, 0, 7000, 21000, 35000, 42000]
    allocator = scenario()
    for event in allocator.events:
        del event["time_us"]
    line = time_line(take(allocator), 0)
    assert not line.timed
    assert line.time.tolist() == [0, 0, 1, 3, 5, 6]
    line = time_line(take(scenario(), segments=[]), 0)
    assert not line.absolute
    assert line.bytes.tolist() == [0, 100, 9100, 100, -600, -550]


def test_without_a_trace_there_is_no_time_line_and_the_peak_is_the_end(take: Take) -> None:
    loaded = take(scenario(), device_traces=[])
    assert len(time_line(loaded, 0)) == 0
    assert lines(loaded, allocations_at_peak(loaded, 0)) == lines(
        loaded, allocations_at_end(loaded, 0)
    )
    empty = take(scenario(), device_traces=[[]])
    assert trace_levels(empty.traces[0]).tolist() == [0]


def test_devices_are_kept_apart(take: Take) -> None:
    second = Allocator(device=1)
    second.alloc(2000, line=9)
    loaded = take(scenario(), second)
    assert lines(loaded, allocations_at_end(loaded, 1)) == {9: (2000, 1)}
    assert lines(loaded, allocations_at_peak(loaded, 1)) == {9: (2000, 1)}
    assert 9 not in lines(loaded, allocations_at_end(loaded, 0))


def test_the_largest_free_block_of_each_segment_is_known(take: Take) -> None:
    second = Allocator(device=1)
    first = second.alloc(100_000, line=1)
    second.alloc(512, line=1)
    last = second.alloc(60_000, line=1)
    second.free(first)
    second.free(last)
    loaded = take(scenario(), second)
    assert largest_unused(loaded).tolist()[1] == 100_352


@pytest.mark.parametrize(
    ("filename", "is_user"),
    [
        ("/home/user/model.py", True),
        ("C:\\work\\torch\\model.py", True),
        ("/scratch/ipykernel_1/42.py", True),
        ("<ipython-input-3-abc>", True),
        ("/venv/lib/python3.12/site-packages/einops/einops.py", True),
        ("/usr/lib/python3/dist-packages/torch/functional.py", False),
        ("C:\\venv\\Lib\\site-packages\\torch\\nn\\modules\\module.py", False),
        ("/opt/pytorch/torch/optim/adam.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("??", False),
        ("", False),
        ("ceval.c", False),
        ("RegisterCUDA.cpp", False),
    ],
)
def test_the_users_line_is_the_innermost_python_call_outside_torch(
    take: Take, filename: str, is_user: bool
) -> None:
    stack = [{"name": "inner", "filename": filename, "line": 5}, *frames(77)]
    event = {"action": "alloc", "addr": 1, "size": 1, "frames": stack}
    loaded = take(Allocator(), device_traces=[[event]])
    frame = user_frame(loaded, int(loaded.traces[0].stack[0]))
    assert frame is not None
    assert frame.line == (5 if is_user else 77)
    assert user_frame(loaded, NONE) is None


@pytest.mark.slow
@given(st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_levels_and_holders_agree_with_an_allocator_that_kept_books(
    take: Take, data: st.DataObject
) -> None:
    allocator = Allocator(recording=False)
    free_addresses: list[int] = []
    levels, books = [0], [dict(allocator.held)]
    for _ in range(data.draw(st.integers(1, 40))):
        if not allocator.recording and data.draw(st.integers(0, 5)) == 0:
            allocator.recording = True
            levels, books = [_level(allocator)], [dict(allocator.held)]
        kind = data.draw(st.sampled_from(["alloc", "again", "free", "alloc"]))
        size = data.draw(st.integers(1, 5_000))
        if kind == "free" and allocator.held:
            address = data.draw(st.sampled_from(sorted(allocator.held)))
            allocator.free(address)
            free_addresses.append(address)
        elif kind == "again" and free_addresses:
            allocator.again(free_addresses.pop(), min(size, 1), line=size % 5 + 1)
        else:
            allocator.alloc(size, line=size % 5 + 1)
        if allocator.recording:
            levels.append(_level(allocator))
            books.append(dict(allocator.held))
    loaded = take(allocator)
    end = allocations_at_end(loaded, 0)
    assert int(end.bytes.sum()) == _level(allocator)
    if not len(loaded.traces[0]):
        return
    assert time_line(loaded, 0).bytes.tolist() == levels
    changed = trace_levels(loaded.traces[0])
    assert (changed[-1], changed.max()) == (levels[-1] - levels[0], max(levels) - levels[0])
    book = books[levels.index(max(levels))]
    held = lines(loaded, allocations_at_peak(loaded, 0))
    assert sum(size for size, _ in held.values()) == max(levels)
    assert sum(count for _, count in held.values()) == len(book)
    wanted: Counter[int] = Counter()
    for size, line in book.values():
        wanted[line] += size
    assert all(size <= wanted[line] for line, (size, _) in held.items() if line != NONE)


def _level(allocator: Allocator) -> int:
    return sum(size for size, _ in allocator.held.values())
