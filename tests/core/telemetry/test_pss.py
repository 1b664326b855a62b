"""Memory of a run in which shared pages count once."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from perftui.telemetry import memory
from perftui.telemetry.memory import PssSource
from tests.telemetry_given import write

ROLLUP = "55d0-7ffe ---p 00000000 00:00 0  [rollup]\nRss: 900 kB\nPss: {} kB\nPss_Dirty: 1 kB\n"


def test_a_sum_over_the_run_read_seldom(tmp_path: Path) -> None:
    proc = write(
        tmp_path,
        {"5/smaps_rollup": ROLLUP.format(100), "6/smaps_rollup": ROLLUP.format(20), "7/x": ""},
    )
    source = PssSource(5, lambda: frozenset([5, 6, 7]), proc)
    assert [source.sample(now) for now in (0.0, 9.0)] == [[None], [None]]
    assert source.sample(10.0) == [120 * 1024]
    assert source.sample(19.0) == [None]
    write(tmp_path, {"6/smaps_rollup": b"cut"})
    assert source.sample(60.0) == [100 * 1024]


def test_a_sum_that_lacks_a_process_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = write(tmp_path, {"5/smaps_rollup": ROLLUP.format(100)})
    source = PssSource(5, lambda: frozenset([5]), proc)

    def deny(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    source.sample(0.0)
    monkeypatch.setattr(memory, "read", deny)
    assert source.sample(20.0) == [None]


def test_where_it_may_not_be_read_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = PssSource(5, frozenset, str(tmp_path))
    assert source.columns == ()
    assert source.sample(0.0) == []
    assert source.missing == {"processes.pss": "smaps_rollup: No such file or directory"}
    monkeypatch.setattr(memory, "why_unreadable", lambda _path: "Permission denied")
    assert PssSource(5, frozenset).missing == {"processes.pss": "smaps_rollup: Permission denied"}


def test_it_is_read_more_seldom_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.05, 0.0, 0.05])
    monkeypatch.setattr("perftui.telemetry.source.time.thread_time", lambda: next(clock))
    source = PssSource(os.getpid(), lambda: frozenset([os.getpid()]))
    source.sample(0.0)
    assert source.sample(10.0) != [None]
    # 50 ms are a thousandth of 50 s.
    assert source.sample(59.0) == [None]
    assert source.sample(61.0) != [None]


def test_it_is_what_psutil_says() -> None:
    pid = os.getpid()
    source = PssSource(pid, lambda: frozenset([pid]))
    source.sample(0.0)
    (held,) = source.sample(10.0)
    assert held == pytest.approx(psutil.Process().memory_full_info().pss, rel=0.05)
