"""Disks and network interfaces of the machine, all of a kind together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from perftui.run.journal import Column
from perftui.telemetry.source import Rate

BLOCK = Path("/sys/block")
INTERFACES = Path("/sys/class/net")


def real_devices(names: Iterable[str], devices: Path) -> frozenset[str]:
    """The ``names`` that sysfs ties to hardware; all of them where it ties none.

    Loop, RAM, device-mapper and RAID disks, partitions, bridges and virtual interfaces have no
    ``device`` link. In a container, and outside Linux, nothing may have one.
    """
    known = frozenset(names)
    real = frozenset(name for name in known if (devices / name / "device").exists())
    return real or known


_BYTES = (
    Column("disk.read", "B/s", "disk read", "all disks of the machine; /proc/diskstats"),
    Column("disk.write", "B/s", "disk write", "all disks of the machine; /proc/diskstats"),
)
_BUSY = Column(
    "disk.utilization", "%", "busiest disk", "share of time with I/O in flight; /proc/diskstats"
)


class DiskSource:
    """Rates over all disks; no columns where the platform counts none."""

    def __init__(self) -> None:
        disks = _disks()
        self._timed = any(hasattr(counters, "busy_time") for counters in disks.values())
        self.columns = () if not disks else (*_BYTES, _BUSY) if self._timed else _BYTES
        self._read, self._write = Rate(), Rate()
        self._busy: dict[str, Rate] = {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        if not self.columns:
            return []
        disks = _disks()
        values = [
            self._read.update(sum(disk.read_bytes for disk in disks.values()), now),
            self._write.update(sum(disk.write_bytes for disk in disks.values()), now),
        ]
        return [*values, self._busiest(disks, now)] if self._timed else values

    def _busiest(self, disks: dict[str, Any], now: float) -> float | None:
        shares = []
        for name, counters in disks.items():
            rate = self._busy.setdefault(name, Rate()).update(counters.busy_time, now)
            if rate is not None:
                # Milliseconds a second are tenths of a per cent.
                shares.append(min(100.0, rate / 10))
        return max(shares, default=None)


def _disks() -> dict[str, Any]:
    counters = psutil.disk_io_counters(perdisk=True) or {}
    return {name: counters[name] for name in real_devices(counters, BLOCK)}


_NETWORK = (
    Column("network.receive", "B/s", "received", "all interfaces but loopback; /proc/net/dev"),
    Column("network.transmit", "B/s", "sent", "all interfaces but loopback; /proc/net/dev"),
)

LOOPBACK = ("lo", "lo0")


class NetworkSource:
    """Bytes per second in and out. The kernel does not see RDMA, so neither does this."""

    columns = _NETWORK

    def __init__(self) -> None:
        self._receive, self._transmit = Rate(), Rate()

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        counters = psutil.net_io_counters(pernic=True)
        names = real_devices((name for name in counters if name not in LOOPBACK), INTERFACES)
        return [
            self._receive.update(sum(counters[name].bytes_recv for name in names), now),
            self._transmit.update(sum(counters[name].bytes_sent for name in names), now),
        ]
