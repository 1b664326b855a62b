"""Memory of the machine, of a container and of a run, and /dev/shm."""

import os
import re
from pathlib import Path

import psutil
import pytest

from perftui.telemetry import memory
from perftui.telemetry.files import fields
from perftui.telemetry.memory import MemorySource, PssSource, SharedMemorySource
from tests.telemetry_given import sampled, write

MB = 2**20


def test_memory_of_a_container_is_its_own(tmp_path: Path) -> None:
    own, job = tmp_path / "own", tmp_path / "pod" / "job"
    own.write_text("0::/pod/job\n")
    write(
        tmp_path,
        {
            "pod/job/memory.max": "max\n",
            "pod/job/memory.events": "low 0\noom 5\noom_kill 3\noom_group_kill 0\n",
            "pod/memory.max": "4000000\n",
            "pod/memory.current": "3000000\n",
            "pod/memory.stat": "anon 2000000\nfile 950000\nshmem 30000\ninactive_file 900000\n",
        },
    )
    assert job.is_dir()
    source = MemorySource(tmp_path, own)
    row = sampled(source, 0.0)
    assert row["memory.used"] == 2_100_000
    assert row["memory.available"] == 1_900_000
    assert row["memory.total"] == 4_000_000
    assert row["memory.page_cache"] == 920_000
    assert row["memory.oom_kills"] == 3
    (tmp_path / "pod" / "memory.stat").unlink()
    row = sampled(source, 1.0)
    assert (row["memory.used"], row["memory.page_cache"]) == (None, None)


def test_memory_without_a_limit_is_the_machines(tmp_path: Path) -> None:
    row = sampled(MemorySource(tmp_path, tmp_path / "absent"), 0.0)
    assert row["memory.total"] == psutil.virtual_memory().total
    assert row["memory.used"] + row["memory.available"] == row["memory.total"]
    info = Path("/proc/meminfo").read_text()
    cached, buffers, shared = (
        1024 * int(re.search(rf"^{name}: +(\d+) kB", info, re.MULTILINE)[1])
        for name in ("Cached", "Buffers", "Shmem")
    )
    assert row["memory.page_cache"] == pytest.approx(cached + buffers - shared, rel=0.1)
    kills = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    assert row["memory.oom_kills"] == (int(kills[1]) if kills else None)
    assert row["memory.available"] == pytest.approx(psutil.virtual_memory().available, rel=0.1)
    assert row["swap.used"] == pytest.approx(psutil.swap_memory().used, abs=8 * MB)


def test_swapping_is_a_rate(tmp_path: Path) -> None:
    meminfo = "MemAvailable: 500 kB\nCached: 9 kB\nSwapTotal: 70 kB\nSwapFree: 30 kB\n"
    proc = write(tmp_path, {"meminfo": meminfo, "vmstat": "nr_free 1\npswpin 10\npswpout 5\n"})
    source = MemorySource(tmp_path, tmp_path / "absent", proc)
    source.sample(1.0)
    write(tmp_path, {"vmstat": "nr_free 1\npswpin 30\npswpout 9\n"})
    row = sampled(source, 3.0)
    assert (row["swap.used"], row["swap.in"]) == (40 * 1024, 10 * os.sysconf("SC_PAGE_SIZE"))
    assert row["memory.available"] == 500 * 1024
    assert row["memory.page_cache"] == 9 * 1024


def test_what_a_kernel_does_not_count_has_no_column(tmp_path: Path) -> None:
    proc = write(tmp_path, {"meminfo": "MemTotal: x kB\nCached:\n", "vmstat": "pswpin 3\n"})
    source = MemorySource(tmp_path, tmp_path / "absent", proc)
    assert not {"memory.page_cache", "memory.oom_kills"} & set(sampled(source, 0.0))
    assert source.missing == {
        "memory.page_cache": "not in /proc/meminfo or memory.stat",
        "memory.oom_kills": "not in memory.events or /proc/vmstat",
    }


def test_a_file_in_shared_memory_takes_of_its_room() -> None:
    source = SharedMemorySource()
    if not source.columns:
        pytest.skip(source.missing["memory.shm_used"])
    before = sampled(source, 0.0)
    usage = psutil.disk_usage("/dev/shm")  # noqa: S108 - it is what is tested
    assert before["memory.shm_total"] == usage.total
    assert before["memory.shm_used"] == pytest.approx(usage.used, abs=8 * MB)
    if before["memory.shm_total"] - before["memory.shm_used"] < 64 * MB:
        pytest.skip("there is no room in /dev/shm")
    file = Path("/dev/shm/perftui-test")  # noqa: S108
    try:
        file.write_bytes(bytes(32 * MB))
        grown = sampled(source, 1.0)["memory.shm_used"] - before["memory.shm_used"]
    finally:
        file.unlink()
    assert grown == pytest.approx(32 * MB, abs=8 * MB)


def test_lines_of_names_and_numbers() -> None:
    content = b"nr_periods 5\nMemFree:   12 kB\nHugePages_Free: 0\nbad\nworse -3\n\xff\xfe 1 2 3\n"
    assert fields(content) == {b"nr_periods": 5, b"MemFree": 12, b"HugePages_Free": 0}


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
