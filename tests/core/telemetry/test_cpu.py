"""Cores, clocks and limits of the processors."""

import os
import platform
import re
import threading
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry import cpu, limits
from perftui.telemetry.cpu import CpuSource, FrequencySource, QuotaSource, cpu_governor, cpu_name
from perftui.telemetry.gpu.nvml_library import driver_version
from perftui.telemetry.processes import Roles
from tests.telemetry_given import ASLEEP, names_of, running, sampled, write

Times = namedtuple("Times", "user system idle")


def _stat(*lines: str) -> dict[str, str]:
    return {"stat": "\n".join(("cpu  1 1 1 1 1 1 1 1", *lines, "intr 5 0 0", "ctxt 3", ""))}


def test_shares_of_all_cores_and_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "getloadavg", lambda: (1.5, 0.0, 0.0))
    proc = write(tmp_path, _stat("cpu0 100 0 50 800 10 0 0 0 30 0", "cpu3 0 0 0 1000 0 0 0 0 0 0"))
    source = CpuSource(proc)
    assert sampled(source, 0.0)["cpu.utilization"] is None
    # Core 0: 3 busy, 1 of them stolen, 2 waiting, 5 idle; core 3 idles. Guest time is user time.
    write(tmp_path, _stat("cpu0 101 0 51 805 12 0 0 1 33 0", "cpu3 0 0 0 1010 0 0 0 0 0 0"))
    assert sampled(source, 1.0) == {
        "cpu.utilization": 15.0,
        "cpu.core_max": 30.0,
        "cpu.cores": 2,
        "cpu.load1": 1.5,
        "cpu.iowait": 10.0,
        "cpu.steal": 5.0,
        "cpu.core0": 30,
        "cpu.core3": 0,
    }


def test_a_core_that_is_switched_off_is_unknown_and_not_idle(tmp_path: Path) -> None:
    proc = write(tmp_path, _stat("cpu0 0 0 0 0", "cpu1 0 0 0 0"))
    source = CpuSource(proc)
    write(tmp_path, _stat("cpu0 5 0 0 5", "cpu2 9 0 0 0"))
    row = sampled(source, 1.0)
    assert (row["cpu.core0"], row["cpu.core1"], row["cpu.utilization"]) == (50, None, 50.0)
    assert "cpu.core2" not in row
    (tmp_path / "stat").unlink()
    assert sampled(source, 2.0)["cpu.core0"] is None


def test_no_more_cores_than_have_room_have_a_column(tmp_path: Path) -> None:
    many = [f"cpu{core} 1 0 0 1" for core in range(300)]
    source = CpuSource(write(tmp_path, _stat(*many)))
    of_cores = [name for name in names_of(source) if re.match(r"cpu\.core\d", name)]
    assert of_cores == [f"cpu.core{core}" for core in range(256)]
    assert sampled(source, 1.0)["cpu.cores"] == 300


def test_without_proc_psutil_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [[Times(1, 1, 8)], [Times(2, 2, 16)]]
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: readings.pop(0))
    source = CpuSource(str(tmp_path))
    assert source.missing == {"cpu.iowait, cpu.steal": f"no {tmp_path}/stat"}
    row = sampled(source, 1.0)
    assert (row["cpu.utilization"], row["cpu.core0"]) == (20.0, 20)
    assert "cpu.iowait" not in row


@given(st.binary())
def test_any_file_is_read_as_cores_or_nothing(content: bytes) -> None:
    assert all(len(times) == 8 for times in cpu._parse(content + b"\ncpu0 1 2").values())


def test_a_busy_core_is_seen_as_psutil_sees_it() -> None:
    core = max(os.sched_getaffinity(0))
    source = CpuSource()
    before = psutil.cpu_times(percpu=True)
    stopped = threading.Event()

    def compute() -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        while not stopped.is_set():
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    time.sleep(0.4)
    stopped.set()
    row, after = sampled(source, 1.0), psutil.cpu_times(percpu=True)
    thread.join()
    assert row[f"cpu.core{core}"] >= 75
    assert row["cpu.core_max"] >= row[f"cpu.core{core}"] - 1
    spent = [sum(new[:8]) - sum(old[:8]) for old, new in zip(before, after, strict=True)]
    idle = [
        new.idle - old.idle + new.iowait - old.iowait
        for old, new in zip(before, after, strict=True)
    ]
    assert row["cpu.utilization"] == pytest.approx(100 * (1 - sum(idle) / sum(spent)), abs=5)
    stolen = sum(new.steal - old.steal for old, new in zip(before, after, strict=True))
    assert row["cpu.steal"] == pytest.approx(100 * stolen / sum(spent), abs=5)
    assert row["cpu.cores"] == len(after)


def _clock(core: int, now: object, highest: int) -> dict[str, str | bytes | int]:
    place = f"devices/system/cpu/cpu{core}/cpufreq"
    return {f"{place}/scaling_cur_freq": f"{now}\n", f"{place}/cpuinfo_max_freq": f"{highest}\n"}


def test_clocks_are_means_in_mhz_and_read_seldom(tmp_path: Path) -> None:
    sys = write(tmp_path, {**_clock(0, 2_000_000, 3_000_000), **_clock(10, 3_000_000, 4_000_000)})
    write(tmp_path, {"devices/system/cpu/cpuidle/x": "", **_clock(2, "<unknown>", 3_500_000)})
    source = FrequencySource(sys)
    assert sampled(source, 0.0) == {"cpu.frequency": 2500.0, "cpu.frequency_max": 3500.0}
    assert sampled(source, 1.0) == {"cpu.frequency": None, "cpu.frequency_max": 3500.0}
    write(tmp_path, _clock(0, 1_000_000, 3_000_000))
    assert sampled(source, 60.0)["cpu.frequency"] == 2000.0


def test_the_clock_is_that_of_psutil() -> None:
    source = FrequencySource()
    if not source.columns:
        pytest.skip(source.missing["cpu.frequency"])
    row = sampled(source, 0.0)
    assert row["cpu.frequency_max"] == pytest.approx(psutil.cpu_freq().max, rel=0.01)
    assert row["cpu.frequency"] == pytest.approx(psutil.cpu_freq().current, rel=0.5)


def _group(tmp_path: Path, files: dict[str, str | bytes | int]) -> QuotaSource:
    own = tmp_path / "own"
    own.write_text("0::/job/step\n")
    write(tmp_path, files)
    (tmp_path / "job" / "step").mkdir(parents=True, exist_ok=True)
    return QuotaSource(os.getpid(), root=tmp_path, own=own)


def test_the_limit_is_the_tightest_quota_with_its_fraction(tmp_path: Path) -> None:
    source = _group(tmp_path, {"job/cpu.max": "50000 100000\n", "job/step/cpu.max": "max 100000"})
    assert sampled(source, 0.0)["cpu.limit"] == 0.5
    # A quota may be changed while the run goes on.
    write(tmp_path, {"job/cpu.max": "25000 100000\n"})
    assert sampled(source, 1.0)["cpu.limit"] == 0.25


def _cpu_stat(periods: int, used_up: int, held: int) -> dict[str, str | bytes | int]:
    lines = f"usage_usec 7\nnr_periods {periods}\nnr_throttled {used_up}\nthrottled_usec {held}\n"
    return {"job/cpu.stat": lines}


def test_the_time_in_which_a_quota_held_the_run_back(tmp_path: Path) -> None:
    source = _group(tmp_path, {"job/cpu.max": "50000 100000\n", **_cpu_stat(10, 2, 100)})
    assert sampled(source, 10.0)["cpu.throttled"] is None
    # 300 ms on one core.
    write(tmp_path, _cpu_stat(20, 7, 300_100))
    assert sampled(source, 11.0)["cpu.throttled"] == pytest.approx(30.0)
    assert sampled(source, 12.0)["cpu.throttled"] == 0.0
    # 900 ms on all cores together, in one period of ten.
    write(tmp_path, _cpu_stat(30, 8, 1_200_100))
    assert sampled(source, 13.0)["cpu.throttled"] == pytest.approx(10.0)
    # 4 s on all cores together, all the time.
    write(tmp_path, _cpu_stat(40, 18, 5_200_100))
    assert sampled(source, 14.0)["cpu.throttled"] == 100.0
    write(tmp_path, _cpu_stat(1, 0, 0))
    assert sampled(source, 15.0)["cpu.throttled"] is None
    write(tmp_path, {"job/cpu.stat": "nr_periods cut"})
    assert sampled(source, 16.0)["cpu.throttled"] is None


def test_a_quota_of_the_first_version_of_cgroups_holds_as_well(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,cpuacct:/docker/abc\n0::/\n")
    quota = {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    write(tmp_path, {**quota, "cpu/cpu.stat": "nr_periods 4\nnr_throttled 1\nthrottled_time 9\n"})
    # A container sees its own group as the root, though its path is the host's.
    assert limits.cpu_groups(tmp_path, own) == [tmp_path, tmp_path / "cpu"]
    assert limits.usable_cores(tmp_path, own) == min(2, len(os.sched_getaffinity(0)))
    source = QuotaSource(os.getpid(), root=tmp_path, own=own)
    assert names_of(source) == ["cpu.limit", "cpu.throttled"]
    source.sample(0.0)
    stat = "nr_periods 14\nnr_throttled 11\nthrottled_time 500000009\n"
    write(tmp_path, {"cpu/cpu.stat": stat})
    assert sampled(source, 1.0)["cpu.throttled"] == pytest.approx(50.0)
    write(tmp_path, {"cpu/cpu.cfs_quota_us": "-1\n"})
    assert limits.usable_cores(tmp_path, own) == len(os.sched_getaffinity(0))


def test_without_a_quota_the_limit_is_the_affinity_of_those_that_train(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with running(ASLEEP, ASLEEP) as (pinned, free):
        os.sched_setaffinity(pinned, {core})
        for ranks, expected in ((set(), 1), ({free}, len(os.sched_getaffinity(0)))):
            roles = Roles(ranks=frozenset(ranks))
            source = QuotaSource(pinned, lambda roles=roles: roles, tmp_path, tmp_path / "no")
            assert sampled(source, 0.0) == {"cpu.limit": expected}
            assert source.missing == {"cpu.throttled": "no cgroup has a quota of CPU time"}


@given(st.binary())
def test_any_file_is_read_as_a_quota_or_as_none(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "read_or_empty", lambda _path: content)
        quota = limits.quota_of(Path("/x"))
    assert quota is None or quota > 0


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


def test_the_first_model_is_named_without_its_padding(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD  EPYC 9534 \nflags\t: a\n")
    assert cpu_name(str(tmp_path)) == "AMD EPYC 9534"


def test_the_architecture_stands_in_where_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: \n")
    assert cpu_name(str(tmp_path)) == cpu_name("/nowhere") == platform.machine()


def test_the_governor_and_the_driver_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert (cpu_governor(str(tmp_path)), driver_version(str(tmp_path))) == ("", None)
    policy = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    policy.mkdir(parents=True)
    (policy / "scaling_governor").write_text("powersave\n")
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025"
    (tmp_path / "driver/nvidia/version").write_text(f"{version}\nGCC version: 12.3.0\n")
    assert (cpu_governor(str(tmp_path)), driver_version(str(tmp_path))) == (
        "powersave",
        "580.65.06",
    )
