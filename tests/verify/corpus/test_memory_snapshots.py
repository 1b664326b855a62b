"""Real memory snapshots and memory of real traces, against sums that an independent program made of
them, and against what they say themselves."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftui.analysis.memory_categories import (
    Category,
    MemoryOverTime,
    memory_of_snapshot,
    memory_of_trace,
)
from perftui.analysis.memory_snapshot import (
    StackTotals,
    allocations_at_end,
    allocations_at_peak,
    by_source,
    time_line,
    trace_levels,
)
from perftui.report.kind import Kind, kind_of
from perftui.report.snapshots_and_ncu import special_report
from perftui.trace.formats import load_trace
from perftui.trace.memory_pickle import is_memory_snapshot, load_memory_snapshot
from perftui.trace.memory_snapshot import Action, BlockState, MemorySnapshot
from perftui.trace.model import NONE
from tests.described import described
from tests.verify.corpus.collection import ROOT, expected, oracles
from tests.verify.corpus.outcome import MET, Account

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

ENTRIES = [entry for entry in expected() if entry["quantity"].startswith("snapshot.")]
FILES = sorted({entry["trace"] for entry in ENTRIES})

_STATES = {
    BlockState.INACTIVE: "inactive",
    BlockState.ACTIVE: "active_allocated",
    BlockState.PENDING_FREE: "active_awaiting_free",
}


@cache
def loaded(name: str) -> MemorySnapshot:
    return load_memory_snapshot(ROOT / name)


def _trace_net(snapshot: MemorySnapshot) -> dict[str, dict[str, Any]]:
    found = {}
    for trace in snapshot.traces:
        levels = trace_levels(trace)
        found[str(trace.device)] = {
            "net": int(levels[-1]),
            "peak_rel": int(levels.max()),
            "has_time": trace.has_time,
            "span_us": (int(trace.time.max()) - int(trace.time.min())) // 1000,
        }
    return found


QUANTITIES = {
    "snapshot.segments": lambda s: len(s.segments),
    "snapshot.total_reserved": lambda s: int(s.segments.reserved.sum()),
    "snapshot.allocated": lambda s: int(s.segments.allocated.sum()),
    "snapshot.active": lambda s: int(s.segments.active.sum()),
    "snapshot.blocks": lambda s: len(s.blocks),
    "snapshot.block_states": lambda s: dict(
        Counter(_STATES[BlockState(each)] for each in s.blocks.state)
    ),
    "snapshot.device_traces": lambda s: [len(trace) for trace in s.traces],
    "snapshot.actions": lambda s: dict(
        Counter(Action(each).name.lower() for trace in s.traces for each in trace.action)
    ),
    "snapshot.devices": lambda s: list(s.devices),
    "snapshot.trace_net": _trace_net,
}


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda entry: f"{entry['trace'][8:22]}-{entry['quantity'][9:]}"
)
def test_every_expected_value(entry: dict[str, Any], account: Account) -> None:
    assert QUANTITIES[entry["quantity"]](loaded(entry["trace"])) == entry["value"]
    account(entry, MET)


@pytest.mark.parametrize("name", FILES)
def test_allocations_and_levels_agree_and_sources_are_python_outside_of_torch(name: str) -> None:
    with (ROOT / name).open("rb") as file:
        assert is_memory_snapshot(file.read(512))
    snapshot = loaded(name)
    assert snapshot.warnings == ()
    line = time_line(snapshot, 0)
    assert line.absolute
    assert line.timed
    at_end, at_peak = allocations_at_end(snapshot, 0), allocations_at_peak(snapshot, 0)
    assert at_end.bytes.sum() == line.bytes[-1]
    assert at_peak.bytes.sum() == line.bytes.max()
    assert at_end.count.sum() == (snapshot.blocks.state != BlockState.INACTIVE).sum()
    trace = snapshot.traces[0]
    made = trace.action == Action.ALLOC
    every = StackTotals(trace.stack[made], trace.size[made], np.ones(int(made.sum()), np.int64))
    frames = [frame for frame in by_source(snapshot, every) if frame is not None]
    assert len(frames) > 5
    assert all(frame.filename.endswith(".py") and frame.line > 0 for frame in frames)
    assert not any("site-packages/torch/" in frame.filename.replace("\\", "/") for frame in frames)


SNAPSHOTS = sorted((ROOT / "memsnap").glob("*.pickle"))


def assert_sound(memory: MemoryOverTime) -> None:
    assert int(memory.parts.min()) >= 0
    assert sum(each.bytes for each in memory.at_peak()) == int(memory.level.max())
    columns = memory.columns(100)
    assert int(columns.parts.sum(axis=0).max()) == int(memory.level.max())


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_a_snapshots_categories_sum_to_its_time_line(path: Path) -> None:
    snapshot = load_memory_snapshot(path)
    for device in snapshot.devices:
        memory, line = memory_of_snapshot(snapshot, device), time_line(snapshot, device)
        if memory is None:
            continue
        assert_sound(memory)
        assert memory.absolute == line.absolute
        assert int(memory.level.max()) == int(line.bytes.max())
        assert int(memory.level[-1]) == int(line.bytes[-1])
        assert memory.has_categories


@pytest.mark.parametrize("name", oracles())
def test_a_traces_categories_sum_to_what_each_event_says(name: str) -> None:
    trace = load_trace(ROOT / name)
    events = trace.memory
    for memory in memory_of_trace(trace):
        assert_sound(memory)
        own = events.device_type == 0 if memory.device == NONE else events.device == memory.device
        allocated = events.allocated[own]
        if memory.device != NONE and not (allocated == NONE).any():
            assert np.array_equal(memory.level[1:], allocated)
        if (events.address[own] == NONE).any():
            assert not memory.parts[: Category.OTHER].any()


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name[:14])
def test_shares_of_a_snapshot_sum_to_the_whole(path) -> None:
    assert kind_of(path) is Kind.MEMORY_SNAPSHOT
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    tables = [
        [float(share) for share in re.findall(r"([\d.]+) %$", block, re.MULTILINE)]
        for block in text.split("\n\n")
        if block.startswith(("Device", "Held"))
    ]
    *with_whole, categories = tables
    assert len(with_whole) == 3
    assert round(sum(categories), 1) == 100.0
    for *parts, whole in with_whole:
        assert round(sum(parts), 1) == whole == 100.0
    (device,) = described("report", special_report(path, Kind.MEMORY_SNAPSHOT, as_json=True))[
        "devices"
    ]
    assert sum(device["parts"].values()) == device["reserved"]
    held = sum(each["bytes"] for each in device["sites"])
    assert held == device["parts"]["held by the program"] <= device["peak"]["bytes"]
    assert sum(each["bytes"] for each in device["peak"]["sites"]) == device["peak"]["bytes"]
