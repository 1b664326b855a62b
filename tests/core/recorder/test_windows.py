"""Windows and snapshots of GPU memory, from the spool into the run directory."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.recorder.rank_journals import RankJournals
from perftui.recorder.sink import FaultLog
from perftui.recorder.spool import Note
from perftui.recorder.windows import (
    SOME,
    TAKEN,
    SpoolFileError,
    count_kernels,
    keep_file,
    limit_windows,
    problem_of,
)
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import JournalReader
from perftui.run.journal_table import JournalTable
from perftui.run.layout import RankLayout, create_run_directory
from perftui.wire.spool import Spool


@pytest.fixture
def rank(tmp_path: Path) -> RankLayout:
    return RankLayout(tmp_path / "rank-0")


def told(spool: Spool, rank: RankLayout, *notes: Note) -> list[tuple[str, dict[str, object]]]:
    """The events that ``notes`` become."""
    rank.root.mkdir(exist_ok=True)
    journals = RankJournals(rank, spool, FaultLog(rank.root / "log"))
    journals.notes(notes)
    journals.finish()
    events = JournalTable(rank.events, EVENT_COLUMNS).poll()
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


@pytest.mark.parametrize("name", ["gone.pickle", "../outside", "/etc/hosts", "link", "", ".", 7])
def test_what_is_no_file_of_the_spool_is_not_taken(
    spool: Spool, rank: RankLayout, name: Any, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (spool.root / "link").symlink_to(tmp_path / "outside")
    for asked in (note(name), _window(spool, name)):
        ((kind, data),) = told(spool, rank, asked)
        assert kind == "warning"
        assert "not there" in str(data["message"])
        rank.events.unlink()
    assert not rank.memory.exists()
    assert (tmp_path / "outside").exists()


LINES = {
    "launch": '    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,\n',
    "triton": '    "ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 1,\n',
    "sync": '    "ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1,\n',
    "kernel": '    "ph": "X", "cat": "kernel", "name": "void gemm", "pid": 0,\n',
    "op": '    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1,\n',
}


@given(st.lists(st.sampled_from(list(LINES)), max_size=40), st.sampled_from([1, 30_000]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_each_call_launch_and_kernel_is_counted_once(
    tmp_path: Path, kinds: list[str], repeated: int
) -> None:
    path = tmp_path / "window.json"
    # A padding op keeps some of the others on the border between two pieces.
    path.write_text(LINES["op"] * repeated + "".join(LINES[kind] for kind in kinds))

    launches = kinds.count("launch") + kinds.count("triton")
    calls = launches + kinds.count("sync")
    assert count_kernels(path) == (calls, launches, kinds.count("kernel"))


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ((0, 0, 0), TAKEN),
        ((77, 76, 0), TAKEN),
        ((9, 8, 7), SOME),
        ((9, 8, 8), None),
        # A launched graph is many kernels.
        ((2, 0, 500), None),
        # The GPU was there, and idle.
        ((1, 0, 0), None),
    ],
)
def test_what_is_missing_is_said(counts: tuple[int, int, int], problem: str | None) -> None:
    assert problem_of(*counts) == problem


@pytest.mark.parametrize(("uses_cuda", "messages"), [(True, [TAKEN]), (False, [])])
def test_a_window_without_the_gpu_is_said_once_where_the_script_uses_one(
    tmp_path: Path, uses_cuda: bool, messages: list[str]
) -> None:
    layout = create_run_directory(tmp_path / "runs", "one")
    faults = FaultLog(layout.recorder_log)
    journals = RankJournals(layout.rank(0), Spool(tmp_path), faults)
    for number in (1, 2):
        name = f"window-1-{number}.json"
        (tmp_path / name).write_text(LINES["op"])
        data = {"file": name, "first_step": number, "cuda": uses_cuda}
        journals.notes([Note(1, "window", 0, number, data)])
    journals.finish()

    rows = JournalReader(layout.rank(0).events).poll()
    assert [row[4]["message"] for row in rows if row[1] == "warning"] == messages


def _window(spool: Spool, name: object, **data: object) -> Note:
    return Note(1, "window", 0, 9, {"file": name, **data})


def test_window_that_does_not_fit_leaves_nothing_of_itself(
    spool: Spool, rank: RankLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spool.root / "w").write_bytes(bytes(100_000))

    def fill_up(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:1000])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill_up)
    with pytest.raises(SpoolFileError, match="No space left"):
        keep_file(spool, _window(spool, "w", first_step=5), rank)
    assert list(rank.windows.iterdir()) == []


def test_windows_of_one_step_do_not_replace_each_other(spool: Spool, rank: RankLayout) -> None:
    for number in range(3):
        (spool.root / f"w{number}").write_text(str(number))
        keep_file(spool, _window(spool, f"w{number}", first_step=5), rank)
    (spool.root / "w").write_text("by step of the note")
    keep_file(spool, _window(spool, "w"), rank)
    assert [path.read_text() for path in rank.window_files()] == [
        *("1", "2", "0"),
        "by step of the note",
    ]
    assert sorted(path.name for path in rank.windows.iterdir()) == [
        "5.2.pt.trace.json",
        "5.3.pt.trace.json",
        "5.pt.trace.json",
        "9.pt.trace.json",
    ]
    assert list(spool.root.iterdir()) == []


def test_windows_beyond_the_quota_go_but_the_first_and_the_newest(rank: RankLayout) -> None:
    rank.windows.mkdir(parents=True)
    for first in (3, 20, 100, 1000, 20000):
        rank.window(first).write_bytes(bytes(100))
    limit_windows(rank, 500)
    assert len(rank.window_files()) == 5
    limit_windows(rank, 350)
    assert rank.window_files() == [rank.window(first) for first in (3, 1000, 20000)]
    limit_windows(rank, 1)
    assert rank.window_files() == [rank.window(3), rank.window(20000)]
