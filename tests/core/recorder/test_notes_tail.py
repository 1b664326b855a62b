"""Notes of a training that writes them for ever take little of the spool, and none is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.recording.output import Notes
from perftui.recorder.spool import NotesTail

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
