"""All disks of the machine: what follows from the kernel's counters."""

import os
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.data_disk import counted_disk
from perftui.telemetry.disks import (
    COUNTED,
    DISK_COLUMNS,
    DiskSource,
    RealDevices,
    parse,
)
from perftui.telemetry.files import mount_of
from tests.telemetry_given import names_of, sampled, write

MB = 2**20


def line(name: str, counts: list[int]) -> str:
    return f" 254 0 {name} {' '.join(map(str, counts))}\n"


def test_layers_over_real_devices_are_left_out(tmp_path: Path) -> None:
    for name in ("vda", "eth0"):
        (tmp_path / name / "device").mkdir(parents=True)
    (tmp_path / "dm-0").mkdir()
    assert RealDevices(str(tmp_path)).among(["vda", "vda1", "dm-0", "loop0"]) == {"vda"}
    assert RealDevices(str(tmp_path)).among(["dm-0", "loop0"]) == {"dm-0", "loop0"}
    devices = RealDevices(str(tmp_path))
    assert devices.among(["vda", "dm-0"]) == {"vda"}
    (tmp_path / "vdb" / "device").mkdir(parents=True)
    assert devices.among(["vda", "dm-0", "vdb"]) == {"vda", "vdb"}


def test_rates_of_all_disks_and_the_busiest(tmp_path: Path) -> None:
    #         reads, merged, sectors, ms, writes, merged, sectors, ms, in flight, busy, weighted
    before = line("sda", [0] * 11) + line("sdb", [100] * 11)
    proc = write(tmp_path, {"diskstats": before})
    source = DiskSource(proc, proc)
    assert set(sampled(source, 10.0).values()) == {None}
    after = line("sda", [10, 5, 80, 30, 0, 0, 0, 0, 1, 1800, 3000])
    after += line("sdb", [100, 100, 100, 100, 110, 100, 120, 110, 0, 200, 1100, 9, 9, 9, 9])
    write(tmp_path, {"diskstats": after})
    assert sampled(source, 12.0) == {
        "disk.read": 80 * 512 / 2,
        "disk.write": 20 * 512 / 2,
        "disk.read_operations": 5.0,
        "disk.write_operations": 5.0,
        "disk.utilization": 90.0,
        # 3,000 and 1,000 ms of requests in 2,000 ms.
        "disk.queue": 2.0,
        # 30 and 10 ms for 20 requests.
        "disk.await": 2.0,
    }
    row = sampled(source, 13.0)
    assert (row["disk.read"], row["disk.await"]) == (0.0, None)


def test_a_disk_that_was_replaced_is_left_out(tmp_path: Path) -> None:
    proc = write(tmp_path, {"diskstats": line("sda", [9] * 11) + line("sdb", [9] * 11)})
    source = DiskSource(proc, proc)
    source.sample(0.0)
    write(tmp_path, {"diskstats": line("sda", [1] * 11) + line("sdb", [11] * 11)})
    assert sampled(source, 1.0)["disk.read_operations"] == 2.0
    write(tmp_path, {"diskstats": b"\xff garbled"})
    assert set(sampled(source, 2.0).values()) == {None}


def test_platform_that_counts_no_disks_has_no_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    source = DiskSource(str(tmp_path), str(tmp_path))
    assert source.columns == ()
    assert source.missing["disk.read, disk.write"] == "no disk has counters"


def test_without_proc_psutil_counts_bytes_and_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk = namedtuple("Disk", "read_count write_count read_bytes write_bytes")
    readings = [{"disk0": Disk(0, 0, 0, 0)}] * 3 + [{"disk0": Disk(4, 2, 8000, 600)}]
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: readings.pop(0))
    source = DiskSource(str(tmp_path), str(tmp_path))
    readings = readings[-2:]
    assert source.columns == COUNTED
    source.sample(0.0)
    assert [*sampled(source, 2.0).values()] == [4000.0, 300.0, 2.0, 1.0]


@given(st.binary())
def test_any_file_is_read_as_disks_or_nothing(content: bytes) -> None:
    assert "sda" in parse(content.replace(b"\n", b"") + b"\n8 0 sda" + b" 1" * 11)


def test_a_file_written_to_this_disk_is_seen_as_psutil_sees_it(tmp_path: Path) -> None:
    source = DiskSource()
    mount = mount_of(tmp_path)
    counters = psutil.disk_io_counters(perdisk=True) or {}
    disk = mount and counted_disk(mount, counters)
    if source.columns != DISK_COLUMNS or disk is None:
        pytest.skip("the disk of the temporary directory is not counted")
    source.sample(10.0)
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(8 * MB))
        file.flush()
        os.fsync(file.fileno())
    row, after = sampled(source, 11.0), psutil.disk_io_counters(perdisk=True)
    done = {
        name: getattr(after[disk], name) - getattr(counters[disk], name)
        for name in counters[disk]._fields
    }
    assert done["write_bytes"] >= 8 * MB
    # Others may write meanwhile, to other disks and between two readings.
    assert row["disk.write"] == pytest.approx(done["write_bytes"], rel=0.5)
    assert row["disk.write_operations"] == pytest.approx(done["write_count"], rel=0.5, abs=20)
    assert row["disk.read"] == pytest.approx(done["read_bytes"], rel=0.5, abs=MB)
    assert row["disk.read_operations"] == pytest.approx(done["read_count"], rel=0.5, abs=20)
    assert row["disk.utilization"] == pytest.approx(done["busy_time"] / 10, abs=5)
    spent = done["read_time"] + done["write_time"]
    requests = done["read_count"] + done["write_count"]
    assert row["disk.await"] == pytest.approx(spent / requests, rel=0.5, abs=1)
    # Flushes count for the queue as well.
    assert row["disk.queue"] >= 0.5 * spent / 1000
    assert names_of(source) == [column.name for column in DISK_COLUMNS]
