"""Interfaces, TCP and InfiniBand, and all disks of the machine: what follows from the kernel's
counters."""

import os
import re
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.data_disk import counted_disk
from perftui.telemetry.devices import (
    COUNTED,
    DISK_COLUMNS,
    DiskSource,
    InfinibandSource,
    NetworkSource,
    RealDevices,
    parse,
    retransmits,
)
from perftui.telemetry.files import mount_of
from tests.telemetry_given import names_of, sampled, write

Nic = namedtuple("Nic", "bytes_recv bytes_sent errin errout dropin dropout")

SNMP = (
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\nTcp: 1 -1 2495 {} 0\n"
    "Udp: InDatagrams\nUdp: 5\n"
)


def test_rates_leave_loopback_and_virtual_interfaces_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "class" / "net" / "x0" / "device").mkdir(parents=True)
    readings = [
        {"lo": Nic(*[0] * 6), "x0": Nic(*[0] * 6), "veth1": Nic(*[0] * 6)},
        {"lo": Nic(*[10**9] * 6), "x0": Nic(500, 100, 1, 2, 4, 8), "veth1": Nic(*[10**9] * 6)},
        {"lo": Nic(*[10**9] * 6)},
        {"lo": Nic(*[10**9] * 6), "x0": Nic(900, 900, 9, 9, 9, 9)},
    ]
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: readings.pop(0))
    root = write(tmp_path, {"net/snmp": SNMP.format(10)})
    source = NetworkSource(root, root)
    assert source.sample(0.0) == [None, None, None, None]
    write(tmp_path, {"net/snmp": SNMP.format(17)})
    assert sampled(source, 0.5) == {
        "network.receive": 1000.0,
        "network.transmit": 200.0,
        "network.errors": 30.0,
        "network.retransmits": 14.0,
    }
    # It was gone meanwhile: what it has sent since is not of this sample.
    assert source.sample(1.0)[:3] == [None, None, None]
    assert source.sample(1.5)[:3] == [None, None, None]


def test_counters_of_this_machine_are_those_of_its_files() -> None:
    snmp = Path("/proc/net/snmp").read_bytes()
    names, values = re.findall(rb"^Tcp: (.*)$", snmp, re.MULTILINE)
    place = names.split().index(b"RetransSegs")
    assert retransmits(snmp) == int(values.split()[place])


def _bytes_of_files() -> tuple[int, int]:
    """Bytes in and out by all interfaces with hardware behind them, of ``/proc/net/dev``."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    counts = {name.strip(): rest.split() for name, _, rest in (one.partition(":") for one in lines)}
    counts.pop("lo", None)
    real = [name for name in counts if Path("/sys/class/net", name, "device").exists()]
    chosen = [counts[name] for name in real or counts]
    return sum(int(one[0]) for one in chosen), sum(int(one[8]) for one in chosen)


def test_bytes_of_this_machine_are_those_of_its_files() -> None:
    source = NetworkSource()
    readings = [_bytes_of_files()]
    source.sample(0.0)
    readings.append(_bytes_of_files())
    time.sleep(0.1)
    readings.append(_bytes_of_files())
    row = sampled(source, 1.0)
    readings.append(_bytes_of_files())
    if row["network.receive"] is None:
        pytest.skip("there is no interface but loopback")
    for way, name in enumerate(("network.receive", "network.transmit")):
        first, second, third, last = (reading[way] for reading in readings)
        assert third - second <= row[name] <= last - first


@given(st.binary())
def test_any_file_has_a_number_of_retransmits_or_none(content: bytes) -> None:
    assert retransmits(content + b"\nTcp: a\nTcp: cut\nTcp:") is None
    found = retransmits(content)
    assert found is None or found >= 0


def _port(device: str, port: int, received: object, sent: object) -> dict[str, str | bytes | int]:
    place = f"class/infiniband/{device}/ports/{port}/counters"
    return {f"{place}/port_rcv_data": f"{received}\n", f"{place}/port_xmit_data": f"{sent}\n"}


def test_ports_count_words_of_four_bytes(tmp_path: Path) -> None:
    sys = write(tmp_path, {**_port("mlx5_0", 1, 1000, 0), **_port("mlx5_1", 1, 5, 10**9)})
    source = InfinibandSource(sys)
    assert sampled(source, 0.0) == {"infiniband.receive": None, "infiniband.transmit": None}
    write(tmp_path, {**_port("mlx5_0", 1, 3000, 500), **_port("mlx5_1", 1, 5, 10**9)})
    assert source.sample(0.5) == [None, None]
    assert sampled(source, 2.0) == {"infiniband.receive": 4000.0, "infiniband.transmit": 1000.0}
    # A card that is reset begins anew.
    write(tmp_path, {**_port("mlx5_0", 1, 0, 700), **_port("mlx5_1", 1, "N/A", 10)})
    assert sampled(source, 4.0) == {"infiniband.receive": None, "infiniband.transmit": 400.0}


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
