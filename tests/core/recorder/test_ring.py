"""The ring reader against a writer made from the documented layout alone."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.recorder.spool import RingError, RingReader
from perftui.wire.ring import KINDS, RECORD

SLOT = struct.Struct("<QqqqqIBBxx")
OFFSET = 4096
WALL, MONOTONIC = 1_700_000_000_000_000_000, 5_000


class Writer:
    """Writes a ring file the slow way, a record at a time."""

    def __init__(self, path: Path, slots: int, **changes: object) -> None:
        header = {
            "version": 1,
            "record": "<QqqqqIBBxx",
            "capacity": slots,
            "data_offset": OFFSET,
            "head_offset": 4088,
            "lost_notes_offset": 4080,
            "rings_before": 0,
            "kinds": {kind: number for number, kind in enumerate(KINDS)},
            "pid": 1,
            "rank": 0,
            "world_size": 1,
            "wall_ns": WALL,
            "monotonic_ns": MONOTONIC,
            **changes,
        }
        self.path = path
        self.capacity = slots
        self.count = 0
        page = json.dumps(header).encode().ljust(OFFSET, b"\0")
        path.write_bytes(page + bytes(slots * SLOT.size))

    def store(self, number: int, start: int = 0) -> None:
        with self.path.open("r+b") as file:
            file.seek(OFFSET + number % self.capacity * SLOT.size)
            file.write(SLOT.pack(number, start, 7, number, 2, 3, number % len(KINDS), 1))

    def head(self, count: int) -> None:
        self.count = count
        with self.path.open("r+b") as file:
            file.seek(4088)
            file.write(struct.pack("<Q", count))

    def write(self, records: int) -> None:
        for number in range(self.count, self.count + records):
            self.store(number, start=number)
        self.head(self.count + records)


def test_layout_is_the_documented_one() -> None:
    assert SLOT.format == RECORD.format
    assert SLOT.size == 48


@pytest.mark.slow
@settings(deadline=None)
@given(
    capacity=st.integers(2, 9),
    bursts=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), max_size=12),
)
def test_reader_follows_a_writer_that_laps_it(
    tmp_path_factory: pytest.TempPathFactory, capacity: int, bursts: list[tuple[int, int]]
) -> None:
    writer = Writer(tmp_path_factory.mktemp("ring") / "ring-1", capacity)
    reader = RingReader(writer.path)
    seen: list[int] = []
    for burst, limit in bursts:
        writer.write(burst)
        before = seen[-1] if seen else -1
        records = reader.poll(limit)
        numbers = [record.sequence for record in records]
        assert numbers == sorted(set(numbers))
        assert all(number > before for number in numbers)
        assert all(record.value == record.sequence for record in records)
        seen += numbers
    while records := reader.poll():
        seen += [record.sequence for record in records]
    assert len(seen) + reader.lost == writer.count
    # The newest record is always among what is left; one slot is given up to the writer.
    assert seen[-1:] == ([writer.count - 1] if writer.count else [])
    reader.close()


def test_times_are_on_the_wall_clock_and_kinds_are_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ring-1", 8)
    writer.write(3)
    reader = RingReader(writer.path)
    assert [record.start for record in reader.poll()] == [WALL - MONOTONIC + n for n in range(3)]
    writer.write(1)
    (record,) = reader.poll()
    assert (record.kind, record.duration, record.extra, record.step) == (KINDS[3], 7, 2, 3)
    assert record.flag == 1
    reader.close()


def test_slot_being_overwritten_is_not_trusted(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ring-1", 4)
    writer.write(4)
    # Record 4 is being written: its slot holds the number of record 0 and half of the new one.
    with writer.path.open("r+b") as file:
        file.seek(OFFSET + 8)
        file.write(b"\xff" * 20)
    reader = RingReader(writer.path)
    assert [record.sequence for record in reader.poll()] == [1, 2, 3]
    assert reader.lost == 1
    reader.close()


def test_slot_stored_for_another_number_is_lost(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ring-1", 8)
    writer.write(3)
    writer.store(9)
    reader = RingReader(writer.path)
    assert [record.sequence for record in reader.poll()] == [0, 2]
    assert reader.lost == 1
    reader.close()


def test_head_that_falls_back_repeats_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ring-1", 8)
    writer.write(4)
    reader = RingReader(writer.path)
    assert len(reader.poll()) == 4
    writer.head(2)
    assert reader.poll() == []
    assert reader.lost == 0
    writer.head(4)
    writer.write(1)
    assert [record.sequence for record in reader.poll()] == [4]
    reader.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"record": "<QQ"},
        {"capacity": 10_000},
        {"capacity": 0},
        {"data_offset": 1 << 40},
        {"head_offset": 1 << 40},
        {"head_offset": -1},
        {"kinds": 3},
    ],
)
def test_ring_that_does_not_fit_its_header_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    writer = Writer(tmp_path / "ring-1", 4, **changes)
    with pytest.raises(RingError):
        RingReader(writer.path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 8192, b"\xff" * 8192, b"{" * 8192])
def test_file_that_is_no_ring_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ring-1").write_bytes(content)
    with pytest.raises(RingError):
        RingReader(tmp_path / "ring-1")
