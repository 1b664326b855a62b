"""The ring reader against a writer made from the documented layout alone, and the notes."""

import json
import os
import struct
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.agent.recording.output import Notes
from perftui.recorder.spool import Note, NotesTail, RingError, RingReader, SpoolDirectory
from perftui.wire.ring import KINDS, RECORD

SLOT = struct.Struct("<QqqqqIBBxx")
OFFSET = 4096
WALL, MONOTONIC = 1_700_000_000_000_000_000, 5_000


class Writer:
    """Writes a ring file the slow way, a record at a time."""

    def __init__(self, path: Path, slots: int, **changes: object) -> None:
        header = {
            "version": 1,
            "capacity": slots,
            "rings_before": 0,
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


def test_slots_that_are_overwritten_or_stored_for_another_number_are_not_trusted(
    tmp_path: Path,
) -> None:
    full, writer = Writer(tmp_path / "ring-1", 4), Writer(tmp_path / "ring-2", 8)
    full.write(4)
    # Record 4 is being written: its slot holds the number of record 0 and half of the new one.
    with full.path.open("r+b") as file:
        file.seek(OFFSET + 8)
        file.write(b"\xff" * 20)
    writer.write(3)
    writer.store(9)
    for path, kept in ((full.path, [1, 2, 3]), (writer.path, [0, 2])):
        with closing(RingReader(path)) as reader:
            assert [record.sequence for record in reader.poll()] == kept
            assert reader.lost == 1


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
    "changes", [{"version": 2}, {"capacity": 10_000}, {"capacity": 0}, {"capacity": "4"}]
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


MOST = 2000


def test_notes_written_for_ever_take_little_room(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    tail = NotesTail(notes.path, MOST)
    read, sizes = [], []
    for number in range(2000):
        notes.write("loader", {"number": number})
        if number % 7 == 0:
            read += tail.poll()
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    read += tail.poll()

    assert [note.data["number"] for note in read] == list(range(2000))
    assert max(sizes) < 3 * MOST
    assert tail.damaged == 0


@given(st.lists(st.sampled_from(("open", "write", "poll")), max_size=60))
def test_what_is_written_late_to_a_file_put_aside_is_read(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str]
) -> None:
    """An agent may be stopped between opening the file and writing to it."""
    spool = tmp_path_factory.mktemp("spool")
    path = spool / "notes-7.jsonl"
    tail = NotesTail(path, 100)
    written: list[int] = []
    read: list[int] = []
    held: int | None = None
    for act in [*acts, "poll"]:
        if act == "open" and held is None:
            held = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        elif act == "write":
            file = held
            if file is None:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, b'{"time": %d, "kind": "note of some length"}\n' % len(written))
            os.close(file)
            held = None
            written.append(len(written))
        elif act == "poll":
            read += [note.time for note in tail.poll()]
    if held is not None:
        os.close(held)

    assert sorted(read) == written
    assert tail.damaged == 0


def test_notes_that_are_none_are_counted_over_all_files(tmp_path: Path) -> None:
    path = tmp_path / "notes-7.jsonl"
    tail = NotesTail(path, 10)
    for _ in range(5):
        with path.open("a") as file:
            file.write("no note, and long\n")
        tail.poll()
    assert tail.damaged == 5


def test_notes_wait_for_the_end_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b'{"time": 1, "kind": "a"}\n{"time": 2, "ki')
    tail = NotesTail(path)
    assert tail.poll() == [Note(1, "a")]
    assert tail.poll() == []
    with path.open("ab") as file:
        file.write(b'nd": "b", "step": 4, "data": {"x": [1]}}\nnonsense\n[]\n\xff\n')
    assert tail.poll() == [Note(2, "b", 0, 4, {"x": [1]})]
    assert tail.damaged == 3


def test_spool_counts_captures_and_goes(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path)
    spool = directory.spool
    assert spool.root.stat().st_mode & 0o777 == 0o700
    for _ in range(258):
        directory.control.requests += 1
    assert spool.control.read_bytes() == (258).to_bytes(8, "little") + bytes(56)
    other = SpoolDirectory(tmp_path)
    assert spool.root.exists()
    other.remove()
    directory.remove()
    assert list(tmp_path.iterdir()) == []
