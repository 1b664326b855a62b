"""Of a damaged snapshot what stands before the damage is read, and one warning says where it is."""

from __future__ import annotations

import gzip
import pickle
import pickletools
import random
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perftui.analysis.memory_snapshot import time_line
from perftui.report.kind import Kind
from perftui.report.snapshots_and_ncu import special_report
from perftui.trace.memory_pickle import is_memory_snapshot, load_memory_snapshot
from perftui.trace.memory_snapshot import MemorySnapshot
from perftui.trace.model import LoadCancelled, TraceError
from tests.core.trace.memory_files import Allocator, snapshot
from tests.core.trace.specimens import wounded
from tests.described import described

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)

FILES = 600
"""Damaged ones, in all."""


class Rows(NamedTuple):
    """Segments with their blocks, and events by device: everything that a report is made of."""

    segments: list[Any]
    traces: list[list[Any]]

    @property
    def count(self) -> int:
        return len(self.segments) + sum(map(len, self.traces))

    def begins(self, whole: Rows) -> bool:
        """Whether these are the first rows of each part."""
        pairs = zip([self.segments, *self.traces], [whole.segments, *whole.traces], strict=False)
        return all(part == all_of[: len(part)] for part, all_of in pairs)


def rows_of(loaded: MemorySnapshot) -> Rows:
    segments, blocks = loaded.segments, loaded.blocks
    columns = (segments.device, segments.address, segments.reserved, segments.allocated)
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    parts: list[list[Any]] = [[] for _ in found]
    of_block = (blocks.segment, blocks.address, blocks.size, blocks.requested, blocks.state)
    for segment, *row, stack in zip(
        *(column.tolist() for column in (*of_block, blocks.stack)), strict=True
    ):
        parts[segment].append((*row, loaded.stacks.of(stack)))
    traces = []
    for trace in loaded.traces:
        of_event = (trace.action, trace.address, trace.size, trace.time, trace.stack)
        rows = zip(*(column.tolist() for column in of_event), strict=True)
        traces.append([(*row, loaded.stacks.of(stack)) for *row, stack in rows])
    return Rows(list(zip(found, parts, strict=True)), traces)


def busy(devices: int = 2, calls: int = 6, seed: int = 0) -> list[Allocator]:
    """Allocators that have done some work, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - makes a test file
    made = [Allocator(device) for device in range(devices)]
    for allocator in made:
        for _ in range(calls):
            allocator.alloc(chance.randrange(1, 9000), chance.randrange(5))
            if chance.random() < 0.4:
                allocator.free(chance.choice(list(allocator.held)))
    return made


def segments_of(allocators: list[Allocator]) -> dict[str, Any]:
    """A snapshot with a second segment of each device."""
    tree = snapshot(*allocators)
    tree["segments"] += [{**each, "address": 1 << 50} for each in tree["segments"]]
    return tree


def load(path: Path, raw: bytes) -> MemorySnapshot | None:
    """None where it is refused, with a message that names the file."""
    path.write_bytes(raw)
    try:
        return load_memory_snapshot(path)
    except TraceError as error:
        refusal = str(error)
    assert str(path) in refusal
    return None


def loaded(path: Path, raw: bytes) -> MemorySnapshot:
    snapshot = load(path, raw)
    assert snapshot is not None
    return snapshot


def check_cut(whole: Rows, cut: MemorySnapshot, size: int) -> int:
    """A cut file holds the first rows of the whole one and says so once; how many rows it holds."""
    (warning,) = cut.warnings
    assert warning.offset is not None
    assert 0 <= warning.offset <= size
    assert f"byte {warning.offset:,}" in warning.message
    found = rows_of(cut)
    assert found.count
    assert found.begins(whole)
    for device, trace in enumerate(cut.traces):
        if trace.whole:
            assert found.traces[device] == whole.traces[device]
    if cut.segments.whole:
        assert found.segments == whole.segments
    if cut.whole:
        assert found == whole
    return found.count


LAYOUTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "all": lambda tree: tree,
    "segments alone": lambda tree: tree["segments"],
    "events first": lambda tree: {name: tree[name] for name in ("device_traces", "segments")},
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_file_cut_at_any_byte_holds_the_rows_before_it(
    tmp_path: Path, protocol: int, layout: str
) -> None:
    raw = pickle.dumps(LAYOUTS[layout](segments_of(busy(calls=2))), protocol)
    path = tmp_path / "snapshot.pickle"
    whole, before = rows_of(loaded(path, raw)), 0
    for size in range(1, len(raw), 1 if protocol in {2, 4} else 7):
        cut = load(path, raw[:size])
        count = check_cut(whole, cut, size) if cut else 0
        assert count >= before
        before = count
    last = loaded(path, raw[:-1])
    # A list may always go on.
    assert last.whole == (layout != "segments alone")
    assert check_cut(whole, last, len(raw)) == whole.count


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gzip_is_read_by_content(tmp_path: Path, protocol: int) -> None:
    raw = pickle.dumps(segments_of(busy()), protocol)
    packed = gzip.compress(raw)
    assert is_memory_snapshot(packed[:4096])
    assert not is_memory_snapshot(gzip.compress(b'{"traceEvents": [], "segments": 1}'))
    inflated = loaded(tmp_path / "packed", packed)
    assert rows_of(inflated) == rows_of(loaded(tmp_path / "plain", raw))
    assert inflated.warnings == ()


def test_gzip_that_is_cut_off_or_damaged_says_where_in_the_pickle(tmp_path: Path) -> None:
    raw = pickle.dumps(segments_of(busy(calls=40)))
    packed = gzip.compress(raw)
    whole = rows_of(loaded(tmp_path / "whole", raw))
    cut = loaded(tmp_path / "cut", packed[: len(packed) // 2])
    assert 0 < check_cut(whole, cut, len(raw)) < whole.count
    assert cut.warnings[0].message.startswith("the gzip data is cut off; loaded up to byte ")
    assert cut.warnings[0].message.endswith(" of the inflated pickle")
    unproven = loaded(tmp_path / "unproven", packed[:-1])
    assert rows_of(unproven) == whole
    assert [warning.offset for warning in unproven.warnings] == [len(raw)]


def test_gzip_that_inflates_too_far_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.trace.memory_pickle._ALWAYS", 1000)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(pickle.dumps(["\0" * 5_000_000])))
    with pytest.raises(TraceError, match="inflates to more than 128 times its size"):
        load_memory_snapshot(path)


def test_inflating_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(gzip.compress(pickle.dumps(segments_of(busy()))))
    with pytest.raises(LoadCancelled):
        load_memory_snapshot(path, cancelled=lambda: True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_row_that_is_none_of_a_snapshot_refuses_the_file(tmp_path: Path, protocol: int) -> None:
    tree = segments_of(busy(calls=20))
    tree["device_traces"][1][7]["size"] = "x"
    path = tmp_path / "damaged"
    assert load(path, pickle.dumps(tree, protocol)) is None
    assert "'size' is missing or not an integer" in refusal_of(path)
    tree["segments"][1]["blocks"][0]["state"] = "lost"
    assert load(path, pickle.dumps(tree, protocol)) is None
    assert "a block is 'lost'" in refusal_of(path)


@pytest.mark.parametrize("code", [b"cos\nsystem\n", b"R", b"\x93", b"\x81", b"b", b"i", b"\x82"])
@pytest.mark.parametrize("at", [0.5, 0.9])
def test_code_is_refused_also_in_a_damaged_file(tmp_path: Path, code: bytes, at: float) -> None:
    raw = pickle.dumps(segments_of(busy()), 2)
    begins = [begin or 0 for _, _, begin in pickletools.genops(raw)]
    head = raw[: begins[int(len(begins) * at)]]
    path = tmp_path / "snapshot"
    for tail in (b"", b"\xff\xff", raw[len(head) :]):
        path.write_bytes(head + code + tail)
        with pytest.raises(TraceError, match=r"asks to run code.*nothing was run"):
            load_memory_snapshot(path)


def test_what_a_damaged_snapshot_cannot_tell_is_not_reported(tmp_path: Path) -> None:
    tree = snapshot(*busy(devices=2, calls=30))
    raw = pickle.dumps(tree)
    path = tmp_path / "snapshot.pickle"
    whole = loaded(path, raw)
    assert time_line(whole, 0).absolute
    assert time_line(whole, 1).absolute
    in_the_second = loaded(path, raw[: raw.index(b"allocator_settings") - 60])
    assert [trace.whole for trace in in_the_second.traces] == [True, False]
    assert time_line(in_the_second, 0).absolute
    assert not time_line(in_the_second, 1).absolute
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    assert "the file ends before its value does; loaded up to byte" in text
    assert "device 1: the end of its history could not be read" in text
    assert "device 0: the end" not in text
    told = described("report", special_report(path, Kind.MEMORY_SNAPSHOT, as_json=True))
    assert any("loaded up to byte" in note for note in told["notes"])
    assert [device["whole"] for device in told["devices"]] == [True, True]


def test_sizes_of_segments_that_are_not_all_there_are_said_to_be_more(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    tree = segments_of(busy())
    raw = pickle.dumps(tree)
    path.write_bytes(raw[: raw.index(b"device_traces") - 40])
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    assert "Device 0: at least " in text
    assert "Held at the end, by line, of the segments that could be read" in text
    assert "device 0: its history could not be read, so its peak is not known" in text
    assert "_record_memory_history" not in text
    told = described("report", special_report(path, Kind.MEMORY_SNAPSHOT, as_json=True))
    assert {device["whole"] for device in told["devices"]} == {False}


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("packed", [False, True])
def test_mutations_cost_no_row_before_them_or_refuse_the_file(
    tmp_path: Path, protocol: int, packed: bool
) -> None:
    raw = pickle.dumps(segments_of(busy(calls=15)), protocol)
    path = tmp_path / "snapshot.pickle"
    kept = 0
    count = FILES // len(PROTOCOLS) // 2
    for seed in range(count):
        chance = random.Random(f"{protocol} {packed} {seed}")  # noqa: S311 - damages a test file
        made = wounded(gzip.compress(raw, mtime=0) if packed else raw, chance)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(raw, made, strict=False))
        safe = None if packed else load(path, bytes(byte for byte, _ in same))
        found = load(path, made)
        if found is None:
            continue
        kept += 1
        places = [warning.offset for warning in found.warnings if warning.offset is not None]
        assert len(places) <= 1, seed
        rows = rows_of(found)
        if safe is not None:
            assert rows_of(safe).begins(rows), seed
        for as_json in (False, True):
            text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=as_json)
            assert all(warning.message[:30] in text for warning in found.warnings), seed
    assert kept > count // 8


def refusal_of(path: Path) -> str:
    with pytest.raises(TraceError) as error:
        load_memory_snapshot(path)
    return str(error.value)
