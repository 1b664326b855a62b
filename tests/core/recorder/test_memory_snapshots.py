"""Snapshots of GPU memory, from the spool into the run directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.recorder.faults import FaultLog
from perftui.recorder.rank_journals import RankJournals
from perftui.recorder.spool import Note
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal_table import JournalTable
from perftui.run.layout import RankLayout
from perftui.wire.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    path = tmp_path / "spool"
    path.mkdir()
    return Spool(path)


@pytest.fixture
def rank(tmp_path: Path) -> RankLayout:
    return RankLayout(tmp_path / "rank-0")


def told(spool: Spool, rank: RankLayout, *notes: Note) -> list[tuple[str, dict[str, object]]]:
    """The events that ``notes`` become."""
    rank.root.mkdir(exist_ok=True)
    journals = RankJournals(rank, spool, FaultLog(rank.root / "log"))
    journals.notes(notes)
    journals.finish()
    events = JournalTable(rank.events, EVENT_COLUMNS, text=frozenset({"kind", "data"})).poll()
    return list(zip(events["kind"], events["data"], strict=True))


def note(name: str, reason: str = "peak") -> Note:
    return Note(1, "memory_snapshot", 0, 3, {"file": name, "reason": reason, "peak": 7})


def test_the_newest_of_each_reason_is_kept_for_its_owner(spool: Spool, rank: RankLayout) -> None:
    for name, content in (("memory-1-0.pickle", b"a"), ("memory-1-1.pickle", b"b")):
        (spool.root / name).write_bytes(content)
    (spool.root / "memory-1-2.pickle").write_bytes(b"c")
    ran_out = note("memory-1-2.pickle", "out of memory")
    events = told(spool, rank, note("memory-1-0.pickle"), note("memory-1-1.pickle"), ran_out)

    kept = {path.name: path.read_bytes() for path in rank.memory.iterdir()}
    assert kept == {"peak.pickle": b"b", "out-of-memory.pickle": b"c"}
    assert {path.stat().st_mode & 0o777 for path in rank.memory.iterdir()} == {0o600}
    assert [data["file"] for _, data in events] == [
        "memory/peak.pickle",
        "memory/peak.pickle",
        "memory/out-of-memory.pickle",
    ]
    assert list(spool.root.iterdir()) == []


@pytest.mark.parametrize("name", ["gone.pickle", "../outside", "link"])
def test_what_is_no_file_of_the_spool_is_not_taken(
    spool: Spool, rank: RankLayout, name: str, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (spool.root / "link").symlink_to(tmp_path / "outside")
    ((kind, data),) = told(spool, rank, note(name))

    assert kind == "warning"
    assert "not there" in str(data["message"])
    assert not rank.memory.exists()
    assert (tmp_path / "outside").exists()
