"""What the agent writes, the recorder reads: the ring and the control page."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.agent.recording import output
from perftui.recorder import spool as reader
from perftui.wire.control_page import SIZE, ControlPage
from perftui.wire.ring import KINDS, STEP
from tests.core.agent.interrupts import interrupted_at_call

FACTS = {"pid": 7, "rank": 1, "world_size": 2}

Record = tuple[str, int, int, int, int, int, int]

records = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 2**62),
        st.integers(0, 2**40),
        st.integers(0, 2**32 - 1),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
        st.integers(0, 7),
    ),
    max_size=40,
)


def write(writer: output.RingWriter, record: Record) -> None:
    kind, start, duration, step, value, extra, flag = record
    writer.write(KINDS.index(kind), start, duration, step, value, extra, flag)


def as_read(ring_reader: reader.RingReader) -> list[Record]:
    clock = ring_reader.header.wall_ns - ring_reader.header.monotonic_ns
    return [
        (one.kind, one.start - clock, one.duration, one.step, one.value, one.extra, one.flag)
        for one in ring_reader.poll()
    ]


def trusted(written: list[Record], capacity: int) -> list[Record]:
    """The newest records, less the one whose slot the writer may be filling again."""
    return written[-(capacity - 1) :]


@settings(max_examples=30, deadline=None)
@given(st.lists(records, max_size=6), st.integers(2, 24))
def test_what_is_polled_is_what_was_written_last(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]], capacity: int
) -> None:
    path = tmp_path_factory.mktemp("spool") / "ring-7"
    writer = output.create_ring(path, FACTS, capacity)
    ring_reader = reader.RingReader(path)
    lost = 0
    for batch in batches:
        for record in batch:
            write(writer, record)
        assert as_read(ring_reader) == trusted(batch, capacity)
        lost += len(batch) - len(trusted(batch, capacity))
    assert ring_reader.lost == lost
    ring_reader.close()


def test_a_ring_tells_who_writes_has_its_room_and_is_private(tmp_path: Path) -> None:
    output.create_ring(tmp_path / "ring-7", FACTS)

    with closing(reader.RingReader(tmp_path / "ring-7")) as made:
        header = made.header
    assert (header.pid, header.rank, header.world_size) == (7, 1, 2)
    assert header.capacity == output.CAPACITY
    assert [path.name for path in tmp_path.iterdir()] == ["ring-7"]
    status = (tmp_path / "ring-7").stat()
    assert status.st_mode & 0o777 == 0o600
    assert status.st_blocks * 512 >= status.st_size


def test_without_room_there_is_no_ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(OSError, match="No space"):
        output.create_ring(tmp_path / "ring-7", FACTS)
    assert list(tmp_path.iterdir()) == []


def test_lost_notes_are_counted_where_there_is_always_room(tmp_path: Path) -> None:
    writer = output.create_ring(tmp_path / "ring", FACTS, 4)
    with closing(reader.RingReader(tmp_path / "ring")) as following:
        assert following.lost_notes == 0
        writer.lose_notes(3)
        writer.write(STEP, 1, 2, 0)
        assert following.lost_notes == 3
        assert len(following.poll()) == 1


def test_an_interrupt_while_a_ring_is_made_arrives_and_the_next_one_is_whole(
    tmp_path: Path,
) -> None:
    number, is_over = 0, False
    while not is_over:
        path = tmp_path / f"ring-{number}"
        is_over = not interrupted_at_call(number, lambda path=path: output.create_ring(path, FACTS))
        output.create_ring(path, FACTS).write(STEP, 1, 2, 3)

        with closing(reader.RingReader(path)) as made:
            assert len(made.poll()) == 1
            assert made.header.rings_before == 0
        assert not path.with_name(f"{path.name}.new").exists()
        number += 1

    assert number > 6


def test_a_ring_knows_of_those_before_that_had_records(tmp_path: Path) -> None:
    path, before = tmp_path / "ring-7", []
    for records_each in (0, 1, 0, 2, 0):
        writer = output.create_ring(path, FACTS)
        for _ in range(records_each):
            writer.write(STEP, 1, 2, 3)
        with closing(reader.RingReader(path)) as made:
            before.append(made.header.rings_before)

    assert before == [0, 0, 1, 1, 2]


COUNTING = """
import sys
from pathlib import Path
from perftui.recorder.spool import SpoolDirectory
from perftui.wire.control_page import ControlPage
directory = SpoolDirectory(Path(sys.argv[1]))
print(directory.spool.control, flush=True)
page, step = ControlPage(directory.spool.control), 0
while True:
    step += 1
    page.step = step
    directory.control.requests += 1
"""


LEAST = 10_000


def fewer_than_before(read: Callable[[], int]) -> int:
    """How often ``read`` gives less than before, until a writer has counted far."""
    until = time.monotonic() + 0.5
    newest = fewer = 0
    while time.monotonic() < until or newest < LEAST:
        word = read()
        fewer += word < newest
        newest = max(newest, word)
    return fewer


def test_plans_and_requests_are_read_as_they_are_or_as_they_were(tmp_path: Path) -> None:
    command = (sys.executable, "-c", COUNTING, str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            path = Path(writer.stdout.readline().strip())
            page = ControlPage(path)
            with path.open("r+b") as file:
                words = memoryview(mmap.mmap(file.fileno(), SIZE)).cast("Q")
            for read in (lambda: page.step, lambda: words[0]):
                assert fewer_than_before(read) == 0
        finally:
            writer.kill()
