"""The processes of a run: who they are, and what they use by what they do."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.processes import (
    PROCESS_COLUMNS,
    ROLES,
    Portable,
    Proc,
    ProcessReading,
    ProcessTreeSource,
    Roles,
    has_process_lists,
)
from tests.telemetry_given import ASLEEP, BUSY, names_of, running, sampled, stat_line, write

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

EMPTY = ProcessReading(1, 0, 0, 100, 1, 0, 0, 0, 0, 0)


class Table:
    """A process 1 that has started all others; each reading can be changed."""

    def __init__(self, *pids: int) -> None:
        self.readings = {pid: EMPTY._replace(pid=pid) for pid in pids}

    def read(self, pid: int) -> ProcessReading | None:
        return self.readings.get(pid)

    def below(self, pid: int) -> list[int]:
        is_there = pid == 1 and 1 in self.readings
        return [one for one in self.readings if one != 1] if is_there else []

    def change(self, pid: int, **counters: Any) -> None:
        self.readings[pid] = self.readings[pid]._replace(**counters)


def test_counters_of_a_process(tmp_path: Path) -> None:
    counts = {"user": 3 * TICKS, "system": TICKS, "threads": 5, "pages": 9, "faults": 4, "minor": 8}
    proc = write(
        tmp_path,
        {
            "8/stat": stat_line(8, name="a) b (c", started=77, **counts),
            "8/status": "Name:\ta\nThreads:\t5\nvoluntary_ctxt_switches:\t6\n"
            "nonvoluntary_ctxt_switches:\t2\n",
            "8/io": "rchar: 1\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 0\n",
            "9/stat": stat_line(9),
            "10/stat": stat_line(10, state="Z"),
            "11/stat": "11 (cut) S 1 1",
            "12/stat": stat_line(12).replace(" 7 ", " x "),
        },
    )
    table = Proc(proc)
    reading = ProcessReading(8, 77, 4.0, 9 * PAGE, 5, 6, 2, 4096, 512, 4, 8, 1.0)
    assert table.read(8) == reading
    # It does not let us see the rest.
    assert table.read(9) == ProcessReading(9, 7, 0.0, 0, 0, None, None, None, None, 0, 0, 0.0)
    assert [table.read(pid) for pid in (10, 11, 12, 13)] == [None] * 4


@given(st.binary())
def test_any_line_is_read_as_a_process_or_as_none(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for name in ("read_or_empty", "record"):
            patched.setattr(f"perftui.telemetry.processes.{name}", lambda _path: content)
        patched.setattr("perftui.telemetry.processes.names_in", lambda _path: ["8"])
        reading = Proc().read(8)
        assert 8 not in Proc().below(8)
    assert reading is None or reading.cpu >= 0


def test_own_counters_are_those_of_psutil_and_of_the_kernel() -> None:
    pid = os.getpid()
    reading, other = Proc().read(pid), Portable().read(pid)
    assert reading.cpu == pytest.approx(other.cpu, abs=0.2)
    assert reading.rss == pytest.approx(other.rss, rel=0.1)
    assert reading.threads == other.threads
    assert reading.voluntary == pytest.approx(other.voluntary, abs=20)
    assert reading.involuntary == pytest.approx(other.involuntary, abs=50)
    assert (reading.read, reading.written) == (other.read, other.written)
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert reading.major_faults == used.ru_majflt
    assert reading.cpu == pytest.approx(used.ru_utime + used.ru_stime, abs=0.2)
    assert Proc().read(2**22 + 1) is None
    assert Portable().read(2**22 + 1) is None


@pytest.mark.subprocess
def test_both_tables_find_the_same_descendants() -> None:
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ASLEEP!r}])"
    with running(inner) as (pid,):
        while not (below := Portable().below(pid)):
            time.sleep(0.01)
        assert Proc().below(pid) == below
        psutil.Process(below[0]).kill()
    assert Proc().below(pid) == Portable().below(pid) == []
    assert has_process_lists()
    assert not has_process_lists("/nowhere")


@pytest.mark.subprocess
def test_tree_counts_children_and_forgets_them() -> None:
    source = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(1, flush=True);"
    source += "input(); p.kill(); p.wait(); print(2, flush=True); input()"
    main = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert main.stdin is not None
    main.stdout.readline()
    tree = ProcessTreeSource(main.pid, lambda: Roles(frozenset([main.pid])))
    first = sampled(tree, 10.0)
    assert first["processes.count"] == 2
    assert first["processes.cpu"] is None
    assert main.pid in tree.pids()
    second = sampled(tree, 11.0)
    assert second["processes.cpu"] == pytest.approx(
        second["processes.ranks_cpu"] + second["processes.rest_cpu"]
    )
    assert second["processes.workers_cpu"] is None
    main.stdin.write(b"\n")
    main.stdin.flush()
    main.stdout.readline()
    assert sampled(tree, 12.0)["processes.count"] == 1
    main.communicate(b"\n")
    assert set(sampled(tree, 13.0).values()) == {None}


def test_children_are_looked_for_as_often_as_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    table, clock = Table(1), iter([0.0, 0.002, 0.002, 0.002])
    monkeypatch.setattr("perftui.telemetry.source.time.thread_time", lambda: next(clock))
    source = ProcessTreeSource(1, table=table)
    assert sampled(source, 0.0)["processes.count"] == 1
    table.readings[2] = EMPTY._replace(pid=2)
    # 2 ms are a thousandth of 2 s.
    assert sampled(source, 1.5)["processes.count"] == 1
    assert sampled(source, 2.0)["processes.count"] == 2


def test_pid_given_to_another_process_is_another_process() -> None:
    table = Table(1, 2)
    table.change(2, cpu=50.0)
    source = ProcessTreeSource(1, lambda: Roles(frozenset([1]), frozenset([2])), table=table)
    source.sample(0.0)
    table.change(1, cpu=1.0)
    table.change(2, cpu=3.0, started=9)
    second = sampled(source, 1.0)
    assert second["processes.ranks_cpu"] == pytest.approx(100.0)
    # Its counter is 47 s below that of the process which had the number before.
    assert second["processes.workers_cpu"] is None
    table.change(2, cpu=3.5)
    assert sampled(source, 2.0)["processes.workers_cpu"] == pytest.approx(50.0)
    # So is the main one: what it has started belongs to nobody now.
    table.change(1, started=8)
    assert set(sampled(source, 3.0).values()) == {None}


def test_processes_beside_it_count_as_long_as_they_live() -> None:
    table = Table(1, 2)
    source = ProcessTreeSource(1, others=lambda: [7], table=table)
    table.readings[7] = EMPTY._replace(pid=7)
    assert sampled(source, 0.0)["processes.count"] == 3
    del table.readings[1]
    assert sampled(source, 0.1)["processes.count"] == 1
    assert source.pids() == {7}


@pytest.mark.slow
@given(
    cpu=st.lists(st.integers(0, 100), min_size=6, max_size=6),
    ranks=st.frozensets(st.integers(1, 6)),
    workers=st.frozensets(st.integers(1, 6)),
)
def test_what_processes_do_is_split_by_their_roles(
    cpu: list[int], ranks: frozenset[int], workers: frozenset[int]
) -> None:
    """A launcher (1), and below it whatever trains, loads data or does something else."""
    table, spent = Table(*range(1, 7)), dict(enumerate(cpu, 1))
    for pid in spent:
        table.change(pid, written=None)
    table.change(1, written=0)
    source = ProcessTreeSource(1, lambda: Roles(ranks, workers), table=table)
    source.sample(0.0)
    for pid, done in spent.items():
        table.change(pid, cpu=done, read=1000.0 * done, involuntary=3 * done, major_faults=7 * done)
        table.change(pid, rss=4096 * done)
    row = sampled(source, 2.0)
    of_role = {
        role: [pid for pid in spent if Roles(ranks, workers).of(pid) == role] for role in ROLES
    }
    for role, pids in of_role.items():
        done = sum(spent[pid] for pid in pids)
        assert row[f"processes.{role}_cpu"] == (pytest.approx(100 * done / 2) if pids else None)
        assert row[f"processes.{role}_read"] == (pytest.approx(1000 * done / 2) if pids else None)
        assert row[f"processes.{role}_write"] == (0 if 1 in pids else None)
        kept = [pid for pid in spent if Roles(ranks or frozenset([1]), workers).of(pid) == role]
        assert row[f"processes.{role}_rss"] == 4096 * sum(spent[pid] for pid in kept)
    assert row["processes.rss"] == sum(row[f"processes.{role}_rss"] for role in ROLES)
    for role in ("ranks", "workers"):
        done = [spent[pid] for pid in of_role[role]]
        expected = pytest.approx(3 * sum(done) / 2) if done else None
        assert row[f"processes.{role}_involuntary"] == expected
    busiest = [spent[pid] for pid in of_role["workers"]]
    assert row["processes.worker_cpu_max"] == (100 * max(busiest) / 2 if busiest else None)
    assert row["processes.cpu"] == pytest.approx(100 * sum(cpu) / 2)
    assert row["processes.major_faults"] == pytest.approx(7 * sum(cpu) / 2)
    assert set(of_role["ranks"]) == ranks


def test_what_the_main_process_does_not_tell_has_no_column() -> None:
    table = Table(1)
    table.change(1, read=None, written=None, major_faults=None)
    source = ProcessTreeSource(1, table=table)
    left_out = {column.name for column in PROCESS_COLUMNS} - set(names_of(source))
    assert left_out == set(source.missing)
    assert "processes.major_faults" in left_out
    assert "processes.workers_read" in left_out
    assert source.missing["processes.read"].startswith("/proc/<pid>/io: ")
    # One that has ended before it was asked tells nothing about the machine.
    assert ProcessTreeSource(5, table=table).columns == PROCESS_COLUMNS


@pytest.mark.subprocess
def test_a_busy_worker_beside_a_sleeping_one() -> None:
    with running(ASLEEP, BUSY, ASLEEP) as (main, busy, idle):
        roles = Roles(frozenset([main]), frozenset([busy, idle]))
        source = ProcessTreeSource(main, lambda: roles, others=lambda: [busy, idle])
        times = [psutil.Process(pid) for pid in (busy, idle)]
        source.sample(0.0)
        began, before = time.monotonic(), [sum(one.cpu_times()[:2]) for one in times]
        time.sleep(0.5)
        seconds, after = time.monotonic() - began, [sum(one.cpu_times()[:2]) for one in times]
        row = sampled(source, seconds)
    spent = [100 * (new - old) / seconds for old, new in zip(before, after, strict=True)]
    assert row["processes.worker_cpu_max"] == pytest.approx(spent[0], abs=10)
    assert row["processes.workers_cpu"] == pytest.approx(sum(spent), abs=15)
    assert row["processes.worker_cpu_max"] > 10
