"""Memory by category of real snapshots and traces, against what they say themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.memory import Category, MemoryOverTime, memory_of_snapshot, memory_of_trace
from perftui.analysis.memory_snapshot import time_line
from perftui.trace.formats import load_trace
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.model import NONE
from tests.verify.corpus.collection import ROOT, oracles

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

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
