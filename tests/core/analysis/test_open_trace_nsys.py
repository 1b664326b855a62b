"""Opening an export of Nsight Systems again takes what was kept, and nothing else changes."""

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perftui.analysis.open_trace import open_trace
from perftui.trace.model import TraceError
from tests.core.analysis.sameness import assert_right, assert_same
from tests.core.analysis.test_open_trace import at_once, read_again, taken_again
from tests.core.trace import nsys_exports as nsys

pytestmark = pytest.mark.usefixtures("cache")


def tables(steps: int = 30) -> dict[str, nsys.Table]:
    """Steps with a range, launches by two threads, kernels on two streams, copies and waits."""
    each = range(steps)
    domain = nsys.pushed(0, None, "NCCL", kind=75, domain=3)
    return {
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            nsys.RUNTIME,
            [nsys.call(1000 * i + 10, 1000 * i + 90, 1 + i % 3, i + 1, 4001 + i % 2) for i in each],
        ),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            nsys.KERNEL,
            [nsys.kernel(1000 * i + 200, 1000 * i + 700, i + 1, stream=7 + i % 2) for i in each],
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            nsys.MEMCPY,
            [(1000 * i, 1000 * i + 99, 0, 9, i, nsys.process(), 64 * i, 1, 0, 2) for i in each],
        ),
        "NVTX_EVENTS": (
            nsys.NVTX,
            [domain, *(nsys.pushed(1000 * i, 1000 * i + 990, f"s{i}", domain=3) for i in each)],
        ),
        "PROCESSES": ("globalPid, pid, name", [(nsys.process(), nsys.PID, "train.py")]),
        "TARGET_INFO_GPU": ("id, name, totalMemory", [(0, "A", 80)]),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(1_700_000_000_000_000_000,)]),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return nsys.write(tmp_path / "report.sqlite", tables())


def kept(cache: Path, ending: str = ".columns") -> list[Path]:
    return sorted(cache.glob(f"*{ending}")) if cache.is_dir() else []


def test_the_second_opening_reads_no_rows(path: Path, cache: Path, loads: list[Path]) -> None:
    assert_right(open_trace(path, later=at_once), path)
    again = taken_again(path, loads)
    assert again.timeline_tracks
    assert_right(again, path)
    domains = {again.trace.read_arguments(row).get("domain") for row in range(len(again.trace))}
    assert domains == {None, "NCCL"}
    assert len(kept(cache)) == 1


def test_a_change_of_one_row_is_seen(path: Path, loads: list[Path]) -> None:
    open_trace(path, later=at_once)
    before = path.stat()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('update CUPTI_ACTIVITY_KIND_KERNEL set "end" = "end" + 1 where rowid=9')
        connection.commit()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert_right(read_again(path, loads), path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_journal_beside_the_file_is_reported_the_second_time_too(
    path: Path, loads: list[Path], suffix: str
) -> None:
    open_trace(path, later=at_once)
    journal = path.with_name(path.name + suffix)
    journal.write_bytes(b"not in the file")
    loads.clear()
    for _ in range(2):
        (note,) = open_trace(path, later=at_once).trace.warnings
        assert f"{journal.name} is next to the file" in note.message
    assert loads == [path]
    journal.unlink()
    assert open_trace(path, later=at_once).trace.warnings == ()


def test_a_damaged_cache_is_rebuilt_without_a_word(
    path: Path, cache: Path, loads: list[Path]
) -> None:
    open_trace(path, later=at_once)
    expected = open_trace(path)
    (file,) = kept(cache)
    whole = file.read_bytes()
    for place in (0, 60, 200, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert_same(read_again(path, loads), expected)
        assert file.read_bytes() == whole


def test_a_damaged_export_keeps_its_warnings(path: Path, loads: list[Path]) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 3 // 4])
    first = open_trace(path, later=at_once)
    assert first.trace.warnings
    assert taken_again(path, loads).trace.warnings == first.trace.warnings


def test_arguments_of_a_file_that_changed_are_refused(path: Path) -> None:
    open_trace(path, later=at_once)
    again = open_trace(path)
    with path.open("ab") as file:
        file.write(b"\0" * 4096)
    with pytest.raises(TraceError, match="has changed"):
        again.trace.read_arguments(0)


@pytest.fixture
def report(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report, and an ``nsys`` that exports ``path`` and notes each call in ``calls``."""
    program = tmp_path / "programs" / "nsys"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho called >> {shlex.quote(str(tmp_path / 'calls'))}\n"
        'for word in "$@"; do case "$word" in --output=*) out="${word#--output=}";; esac; done\n'
        f'cp {shlex.quote(str(path))} "$out"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    made = tmp_path / "train.nsys-rep"
    made.write_bytes(b"what nsys wrote")
    return made


def calls(report: Path) -> int:
    return len((report.parent / "calls").read_text().splitlines())


def test_a_report_is_exported_and_read_once(report: Path, cache: Path, loads: list[Path]) -> None:
    first = open_trace(report, later=at_once)
    again = taken_again(report, loads)
    assert calls(report) == 1
    assert_same(again, first)
    assert again.trace.path == report
    rows = range(len(first.trace))
    assert [again.trace.read_arguments(row) for row in rows] == [
        first.trace.read_arguments(row) for row in rows
    ]
    assert [len(kept(cache, ending)) for ending in (".columns", ".sqlite", "")] == [1, 1, 2]


@pytest.mark.parametrize("how", ["gone", "another"])
def test_columns_without_their_export_are_not_used(
    report: Path, cache: Path, loads: list[Path], how: str
) -> None:
    open_trace(report, later=at_once)
    (export,) = kept(cache, ".sqlite")
    if how == "gone":
        export.unlink()
    else:
        export.write_bytes(b"SQLite format 3\0")
    again = read_again(report, loads)
    assert again.trace.read_arguments(0)
    taken = taken_again(report, loads)
    assert taken.trace.read_arguments(0) == again.trace.read_arguments(0)
    assert calls(report) == 2


def test_columns_of_an_export_that_was_not_kept_are_not_kept(
    report: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.trace.cache.Exports.keep", lambda *_: None)
    analysis = open_trace(report, later=at_once)
    assert analysis.trace.read_arguments(0)
    assert kept(cache) == []
