"""What goes wrong with one process is said, and keeps nothing of the others from being recorded."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perftui.agent.recording.output import Notes, create_ring
from perftui.recorder.drain import NOTES_LOST, REPLACED_UNREAD, SpoolDrain
from perftui.recorder.loader_workers import LoaderWorkers
from perftui.recorder.rank_journals import RankJournals
from perftui.recorder.sink import FaultLog
from perftui.recorder.spool import Note
from perftui.run.journal import JournalReader
from perftui.run.layout import RunLayout
from perftui.wire import ring as rings
from perftui.wire.spool import Spool


@pytest.fixture
def drain(spool: Spool, layout: RunLayout) -> SpoolDrain:
    return SpoolDrain(spool, layout, FaultLog(layout.recorder_log), [].append)


def trains(spool: Spool, pid: int, rank: int) -> Callable[[], None]:
    """Process ``pid`` begins to train as ``rank``; what is returned makes a step."""
    facts = {"pid": pid, "rank": rank, "world_size": 3}
    ring = create_ring(spool.root / f"ring-{pid}", facts, 64)
    made: list[int] = []

    def step() -> None:
        ring.write(rings.STEP, len(made) * 100, 100, len(made), 1)
        made.append(1)

    return step


def steps_of(layout: RunLayout, rank: int) -> int:
    return len(JournalReader(layout.rank(rank).steps).poll())


def warnings_of(layout: RunLayout, rank: int) -> list[str]:
    events = JournalReader(layout.rank(rank).events).poll()
    return [row[4]["message"] for row in events if row[1] in ("warning", "error")]


def ended_process() -> int:
    with subprocess.Popen((sys.executable, "-c", "")) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize("broken", ["records", "notes", "poll", "finish"])
def test_an_error_with_one_rank_leaves_the_others(
    broken: str, spool: Spool, layout: RunLayout, drain: SpoolDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = LoaderWorkers if broken in ("poll", "finish") else RankJournals
    work = getattr(kind, broken)
    failing = layout.rank(1).workers if kind is LoaderWorkers else layout.rank(1)

    def fail(self: Any, *arguments: Any) -> Any:
        place = self._journal._segments.first if kind is LoaderWorkers else self.layout
        if place == failing:
            raise ZeroDivisionError("broken")
        return work(self, *arguments)

    monkeypatch.setattr(kind, broken, fail)
    steps = [trains(spool, pid, rank) for rank, pid in enumerate((101, 102, 103))]
    for pid in (101, 102, 103):
        spool.notes(pid).write_bytes(b'{"time": 1, "kind": "loader"}\n')
    for _ in range(5):
        for step in steps:
            step()
        drain.poll()
    drain.finish()

    assert [steps_of(layout, 0), steps_of(layout, 2)] == [5, 5]
    assert steps_of(layout, 1) == (0 if broken == "records" else 5)
    assert [warnings_of(layout, rank) for rank in (0, 2)] == [[], []]
    (said,) = warnings_of(layout, 1)
    assert said == "some records of process 102 are lost: ZeroDivisionError: broken"
    assert "process 102: ZeroDivisionError: broken" in layout.recorder_log.read_text()


def test_a_rank_whose_journals_cannot_be_begun_is_tried_again(
    spool: Spool, layout: RunLayout, drain: SpoolDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains(spool, 101, 1)()
    with monkeypatch.context() as patched:
        patched.setattr("perftui.recorder.drain.LoaderWorkers", lambda *_: 1 / 0)
        drain.poll()
    drain.poll()
    drain.finish()

    assert steps_of(layout, 1) == 1


def test_a_process_whose_ring_cannot_be_read_is_said_to_be_missing(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    step = trains(spool, 101, 0)
    (spool.root / "ring-102").write_bytes(bytes(8192))
    step()
    drain.poll()
    drain.finish()

    assert steps_of(layout, 0) == 1
    (said,) = warnings_of(layout, 0)
    assert said.startswith("process 102 is not recorded: ")


def test_a_ring_that_was_replaced_before_it_was_read_is_said_to_be_lost(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    trains(spool, 101, 0)()
    trains(spool, 101, 0)()
    trains(spool, 102, 1)()
    drain.poll()
    trains(spool, 102, 1)()
    drain.poll()
    for _ in range(2):
        trains(spool, 102, 1)()
    drain.poll()
    drain.finish()

    assert steps_of(layout, 0) == 1
    assert warnings_of(layout, 0) == [REPLACED_UNREAD]
    assert steps_of(layout, 1) == 3
    seen, unread = warnings_of(layout, 1)
    assert "counted from 0 again" in seen
    assert unread == REPLACED_UNREAD


def test_why_a_process_is_not_recorded_is_said_while_others_train(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    trains(spool, 101, 1)()
    note = b'{"time": 1, "kind": "error", "data": {"message": "recording stopped: no room"}}\n'
    spool.notes(102).write_bytes(note)
    drain.poll()

    assert warnings_of(layout, 0) == ["recording stopped: no room"]
    drain.finish()
    assert warnings_of(layout, 0) == ["recording stopped: no room"]


def test_trainings_that_outlive_the_command_are_named(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    trains(spool, os.getpid(), 0)()
    trains(spool, ended_process(), 1)()
    drain.poll()
    drain.leave_behind()
    drain.finish()

    (said,) = warnings_of(layout, 0)
    assert said.startswith(f"process {os.getpid()} kept running after the command ended")
    assert warnings_of(layout, 1) == []
    assert [steps_of(layout, rank) for rank in (0, 1)] == [1, 1]


def test_records_that_were_read_are_written_though_another_rank_fails_at_every_turn(
    spool: Spool, layout: RunLayout, drain: SpoolDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes that cannot be written are lost once, and their process goes on."""
    write = RankJournals.notes
    failed: list[int] = []

    def fail(self: RankJournals, notes: Sequence[Note]) -> None:
        if any(note.kind == "odd" for note in notes):
            failed.append(1)
            raise TypeError("odd")
        write(self, notes)

    monkeypatch.setattr(RankJournals, "notes", fail)
    first, second = trains(spool, 101, 0), trains(spool, 102, 1)
    spool.notes(101).write_bytes(b'{"time": 1, "kind": "odd"}\n')
    for _ in range(3):
        first()
        second()
        drain.poll()
    drain.finish()

    assert failed == [1]
    assert [steps_of(layout, rank) for rank in (0, 1)] == [3, 3]


def test_notes_that_were_lost_are_said(spool: Spool, layout: RunLayout, drain: SpoolDrain) -> None:
    spool.notes(7).write_bytes(b'nonsense\n{"time": 1, "kind": "error"}\n')
    drain.finish()
    rows = JournalReader(layout.rank(0).events).poll()
    assert [row[1] for row in rows] == ["error", "warning"]
    assert rows[1][4] == {"message": "1 of the agent's notes could not be read"}


def test_the_file_system_of_a_loaders_data_is_noted(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    notes = Notes(spool.root)
    notes.write("loader", {"id": 1, "path": "/proc/self"})
    notes.write("loader", {"id": 2, "path": "s3://bucket", "filesystem": "s3"})
    drain.finish()
    rows = JournalReader(layout.rank(0).events).poll()
    assert [row[4] for row in rows] == [
        {"id": 1, "path": "/proc/self", "mount": "/proc", "filesystem": "proc"},
        {"id": 2, "path": "s3://bucket", "filesystem": "s3"},
    ]


def test_an_agent_that_cannot_write_its_notes_is_said_to(
    spool: Spool, layout: RunLayout, drain: SpoolDrain
) -> None:
    facts = {"pid": os.getpid(), "rank": 0, "world_size": 1}
    writer = create_ring(spool.root / f"ring-{os.getpid()}", facts, 8)
    drain.poll()
    writer.lose_notes(2)
    drain.poll()
    drain.finish()
    rows = JournalReader(layout.rank(0).events).poll()
    assert [(row[1], row[4]) for row in rows] == [("warning", {"message": NOTES_LOST})]
