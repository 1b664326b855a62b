"""Real memory snapshots, against sums that an independent program made of them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from perftui.analysis.memory_snapshot import (
    StackTotals,
    allocations_at_end,
    allocations_at_peak,
    by_source,
    fragmentation,
    time_line,
    trace_balance,
)
from perftui.trace.memory_pickle import is_memory_snapshot, load_memory_snapshot
from perftui.trace.memory_snapshot import Action, BlockState, MemorySnapshot
from tests.verify.corpus.collection import ROOT, expected
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
        balance = trace_balance(trace)
        found[str(trace.device)] = {
            "net": balance.net,
            "peak_rel": balance.peak,
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
def test_allocations_and_levels_agree(name: str) -> None:
    snapshot = loaded(name)
    assert snapshot.warnings == ()
    line = time_line(snapshot, 0)
    assert line.absolute
    assert line.timed
    at_end, at_peak = allocations_at_end(snapshot, 0), allocations_at_peak(snapshot, 0)
    assert at_end.bytes.sum() == line.bytes[-1]
    assert at_peak.bytes.sum() == line.bytes.max()
    assert at_end.count.sum() == (snapshot.blocks.state != BlockState.INACTIVE).sum()
    assert fragmentation(snapshot).unused.sum() == int(snapshot.segments.reserved.sum()) - int(
        snapshot.segments.active.sum()
    )


@pytest.mark.parametrize("name", FILES)
def test_sources_are_python_outside_of_torch(name: str) -> None:
    snapshot = loaded(name)
    trace = snapshot.traces[0]
    made = trace.action == Action.ALLOC
    every = StackTotals(trace.stack[made], trace.size[made], np.ones(int(made.sum()), np.int64))
    sources = by_source(snapshot, every)
    frames = [source.frame for source in sources if source.frame is not None]
    assert len(frames) > 5
    assert all(frame.filename.endswith(".py") and frame.line > 0 for frame in frames)
    assert not any("site-packages/torch/" in frame.filename.replace("\\", "/") for frame in frames)


@pytest.mark.parametrize("name", FILES)
def test_they_are_known_by_their_first_bytes(name: str) -> None:
    with (ROOT / name).open("rb") as file:
        assert is_memory_snapshot(file.read(512))
