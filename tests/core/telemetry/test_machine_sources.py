"""The machine's own sources: shares and rates by hand, and real ones on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.journal import Column
from perftui.telemetry import disk_and_network, limits, processes
from perftui.telemetry.cpu import CpuSource
from perftui.telemetry.disk_and_network import real_devices
from perftui.telemetry.machine import look_around
from perftui.telemetry.memory import MemorySource
from perftui.telemetry.pressure import PressureSource
from perftui.telemetry.process_tree import ProcessReading
from perftui.telemetry.processes import COLUMNS, ROLES, ProcessTreeSource, Roles
from perftui.telemetry.source import Rate, Sampler

Process = namedtuple("Process", "pid")
Times = namedtuple("Times", "user system idle iowait guest")


def _sampled(source: Any, now: float) -> dict[str, float | None]:
    names = [column.name for column in source.columns]
    return dict(zip(names, source.sample(now), strict=True))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1))
def test_rates_times_seconds_give_the_counter_back(changes: list[tuple[int, int]]) -> None:
    rate, value, now = Rate(), 7, 0
    assert rate.update(value, now) is None
    total = 0.0
    for change, seconds in changes:
        value, now = value + change, now + seconds
        speed = rate.update(value, now)
        assert speed is not None
        total += speed * seconds
    assert total == pytest.approx(value - 7)


def test_rate_is_unknown_after_a_gap_and_where_the_counter_fell() -> None:
    rate = Rate()
    assert [rate.update(v, t) for v, t in [(5, 0), (3, 1), (4, 2), (None, 3), (9, 4), (9, 4)]] == [
        None,
        None,
        1.0,
        None,
        None,
        None,
    ]


def test_cpu_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [
        [Times(100, 50, 800, 10, 30), Times(0, 0, 1000, 0, 0)],
        [Times(103, 51, 804, 12, 33), Times(0, 0, 1010, 0, 0)],
    ]
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: readings.pop(0))
    monkeypatch.setattr(psutil, "getloadavg", lambda: (1.5, 0.0, 0.0))
    source = CpuSource()
    assert _sampled(source, 0.0)["cpu.utilization"] is None
    # Core 0: 4 busy, 2 waiting, 4 idle; core 1: 10 idle. Guest time is user time already.
    assert _sampled(source, 1.0) == {
        "cpu.utilization": 20.0,
        "cpu.core_max": 40.0,
        "cpu.iowait": 10.0,
        "cpu.cores": 2,
        "cpu.load1": 1.5,
    }


def test_pressure_from_totals(tmp_path: Path) -> None:
    def write(total: int) -> None:
        (tmp_path / "cpu").write_text(
            f"some avg10=9.00 avg60=1.00 avg300=0.00 total={total}\nfull avg10=0.00 total=1\n"
        )

    write(1_000_000)
    source = PressureSource(tmp_path)
    assert [column.name for column in source.columns] == ["pressure.cpu"]
    assert source.sample(0.0) == [None]
    write(1_250_000)
    assert source.sample(1.0) == [25.0]
    (tmp_path / "cpu").unlink()
    assert source.sample(2.0) == [None]
    assert PressureSource(tmp_path).columns == ()


def test_layers_over_real_devices_are_left_out(tmp_path: Path) -> None:
    for name in ("vda", "eth0"):
        (tmp_path / name / "device").mkdir(parents=True)
    (tmp_path / "dm-0").mkdir()
    assert real_devices(["vda", "vda1", "dm-0", "loop0"], tmp_path) == {"vda"}
    assert real_devices(["dm-0", "loop0"], tmp_path) == {"dm-0", "loop0"}
    assert disk_and_network.BLOCK != disk_and_network.INTERFACES


def test_disk_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    Disk = namedtuple("Disk", "read_bytes write_bytes busy_time")
    readings = [
        {"a": Disk(0, 0, 0), "b": Disk(0, 0, 0)},
        {"a": Disk(0, 0, 0), "b": Disk(0, 0, 0)},
        {"a": Disk(4000, 10, 900), "b": Disk(2000, 30, 100)},
    ]
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: readings.pop(0))
    source = disk_and_network.DiskSource()
    assert set(_sampled(source, 0.0).values()) == {None}
    assert _sampled(source, 2.0) == {
        "disk.read": 3000.0,
        "disk.write": 20.0,
        "disk.utilization": 45.0,
    }


def test_platform_that_counts_no_disks_has_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    source = disk_and_network.DiskSource()
    assert source.columns == ()
    assert source.sample(0.0) == []


def test_network_rates_leave_loopback_out(monkeypatch: pytest.MonkeyPatch) -> None:
    Nic = namedtuple("Nic", "bytes_recv bytes_sent")
    readings = [
        {"lo": Nic(0, 0), "x0": Nic(0, 0)},
        {"lo": Nic(10**9, 10**9), "x0": Nic(500, 100)},
    ]
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: readings.pop(0))
    source = disk_and_network.NetworkSource()
    assert source.sample(0.0) == [None, None]
    assert source.sample(0.5) == [1000.0, 200.0]


def test_cgroup_limits_hold_at_every_level(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/x\n0::/job/step\n")
    step = tmp_path / "job" / "step"
    step.mkdir(parents=True)
    (step / "cpu.max").write_text("max 100000\n")
    (step / "memory.max").write_text("max\n")
    assert limits.usable_cores(tmp_path, own) == len(os.sched_getaffinity(0))
    (tmp_path / "job" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "job" / "memory.max").write_text("4096\n")
    assert limits.usable_cores(tmp_path, own) == 1
    assert limits.usable_memory(tmp_path, own) == 4096
    own.write_text("0::/../../elsewhere\n")
    assert limits.usable_memory(tmp_path, own) == psutil.virtual_memory().total
    assert limits.usable_memory(tmp_path, tmp_path / "absent") == psutil.virtual_memory().total


def test_failing_source_is_left_out_and_said_once() -> None:
    class Broken:
        columns = (Column("broken"),)

        def sample(self, _now: float) -> list[float | None]:
            raise RuntimeError("driver is gone")

    class Steady:
        columns = (Column("steady"),)

        def sample(self, _now: float) -> list[float | None]:
            return [1.0]

    said: list[tuple[str, str]] = []
    sampler = Sampler([Broken(), Steady()], lambda name, error: said.append((name, str(error))))
    rows = [sampler.sample() for _ in range(3)]
    assert [column.name for column in sampler.columns] == ["time", "broken", "steady"]
    assert [row[1:] for row in rows] == [[None, 1.0]] * 3
    assert said == [("Broken", "driver is gone")]


def test_this_machine_answers_every_column_twice() -> None:
    machine = look_around(os.getpid())
    sampler = Sampler(machine.sources, lambda name, error: pytest.fail(f"{name}: {error}"))
    sampler.sample()
    time.sleep(0.05)
    row = dict(zip([column.name for column in sampler.columns], sampler.sample(), strict=True))
    assert row["memory.used"]
    assert row["processes.rss"]
    assert row["processes.count"] >= 1
    assert all(column.unit or column.label for column in sampler.columns)


@pytest.mark.subprocess
def test_tree_counts_children_and_forgets_them() -> None:
    source = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(1, flush=True);"
    source += "input(); p.kill(); p.wait(); print(2, flush=True); input()"
    main = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert main.stdin is not None
    assert main.stdout is not None
    main.stdout.readline()
    tree = ProcessTreeSource(main.pid, lambda: Roles(frozenset([main.pid])))
    first = _sampled(tree, 10.0)
    assert first["processes.count"] == 2
    assert first["processes.cpu"] is None
    assert main.pid in tree.pids()
    second = _sampled(tree, 11.0)
    assert second["processes.cpu"] == pytest.approx(
        second["processes.ranks_cpu"] + second["processes.rest_cpu"]
    )
    assert second["processes.workers_cpu"] is None
    main.stdin.write(b"\n")
    main.stdin.flush()
    main.stdout.readline()
    assert _sampled(tree, 12.0)["processes.count"] == 1
    main.communicate(b"\n")
    assert set(_sampled(tree, 13.0).values()) == {None}


def test_pid_given_to_another_process_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(cpu: float) -> ProcessReading:
        return ProcessReading(cpu, 100.0, 1.0, 0.0, 0.0, None, None)

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

    main, worker, reused = Process(1), Process(2), Process(2)
    trees = [[main, worker], [main, reused], [main, reused]]
    cpu = iter([1.0, 50.0, 2.0, 3.0, 4.0, 3.5])
    monkeypatch.setattr(processes, "find", lambda _pid: main)
    monkeypatch.setattr(processes, "tree", lambda _process: trees.pop(0))
    monkeypatch.setattr(processes, "read", lambda _process: reading(next(cpu)))
    source = ProcessTreeSource(1, lambda: Roles(frozenset([1]), frozenset([2])))
    source.sample(0.0)
    names = [column.name for column in COLUMNS]
    second = dict(zip(names, source.sample(1.0), strict=True))
    assert second["processes.ranks_cpu"] == pytest.approx(100.0)
    # Its counter is 47 s below that of the process which had the number before.
    assert second["processes.workers_cpu"] is None
    third = dict(zip(names, source.sample(2.0), strict=True))
    assert third["processes.workers_cpu"] == pytest.approx(50.0)
    assert third["processes.read"] is None


@given(
    cpu=st.lists(st.integers(0, 100), min_size=6, max_size=6),
    ranks=st.frozensets(st.integers(1, 6)),
    workers=st.frozensets(st.integers(1, 6)),
)
def test_what_processes_do_is_split_by_their_roles(
    cpu: list[int], ranks: frozenset[int], workers: frozenset[int]
) -> None:
    """A launcher (1), and below it whatever trains, loads data or does something else."""
    spent = dict.fromkeys(range(1, 7), 0)

    def reading(process: Any) -> ProcessReading:
        done = spent[process.pid]
        return ProcessReading(done, 1.0, 1.0, 0.0, 0.0, 1000.0 * done, None)

    tree = [Process(pid) for pid in spent]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(processes, "find", lambda _pid: tree[0])
        patched.setattr(processes, "tree", lambda _main: tree)
        patched.setattr(processes, "read", reading)
        source = ProcessTreeSource(1, lambda: Roles(ranks, workers))
        source.sample(0.0)
        spent.update(zip(spent, cpu, strict=True))
        row = _sampled(source, 2.0)
    of_role = {
        role: [pid for pid in spent if Roles(ranks, workers).of(pid) == role] for role in ROLES
    }
    for role, pids in of_role.items():
        done = sum(spent[pid] for pid in pids)
        assert row[f"processes.{role}_cpu"] == (pytest.approx(100 * done / 2) if pids else None)
        assert row[f"processes.{role}_read"] == (pytest.approx(1000 * done / 2) if pids else None)
        assert row[f"processes.{role}_write"] is None
    assert row["processes.cpu"] == pytest.approx(100 * sum(cpu) / 2)
    assert set(of_role["ranks"]) == ranks


def test_memory_of_a_container_is_its_own(tmp_path: Path) -> None:
    own, job = tmp_path / "own", tmp_path / "pod" / "job"
    own.write_text("0::/pod/job\n")
    job.mkdir(parents=True)
    (job / "memory.max").write_text("max\n")
    (tmp_path / "pod" / "memory.max").write_text("4000000\n")
    (tmp_path / "pod" / "memory.current").write_text("3000000\n")
    stat = tmp_path / "pod" / "memory.stat"
    stat.write_text("anon 2000000\ninactive_file 900000\n")
    source = MemorySource(tmp_path, own)
    sampled = _sampled(source, 0.0)
    assert sampled["memory.used"] == 2_100_000
    assert sampled["memory.available"] == 1_900_000
    assert sampled["memory.total"] == 4_000_000
    stat.unlink()
    assert _sampled(source, 1.0)["memory.used"] is None


def test_memory_without_a_limit_is_the_machines(tmp_path: Path) -> None:
    sampled = _sampled(MemorySource(tmp_path, tmp_path / "absent"), 0.0)
    assert sampled["memory.total"] == psutil.virtual_memory().total
    assert sampled["memory.used"] + sampled["memory.available"] == sampled["memory.total"]
