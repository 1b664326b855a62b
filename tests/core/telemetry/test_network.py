"""Interfaces, TCP and InfiniBand."""

import re
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.network import InfinibandSource, NetworkSource, retransmits
from tests.telemetry_given import sampled, write

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
