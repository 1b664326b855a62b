"""All disks of the machine together, its network interfaces, and its InfiniBand ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psutil

from perftui.telemetry.files import PROC, SYS, exists, names_in, number, numbers, read_or_empty
from perftui.telemetry.source import Pace, Rate, Rates, columns

_SECTOR = 512
"""Bytes that ``/proc/diskstats`` counts as one sector, whatever the disk's own sectors are."""


class DiskCounters(NamedTuple):
    """Counters of one disk; times in ms."""

    reads: int
    read_bytes: int
    read_time: int
    writes: int
    written_bytes: int
    write_time: int
    busy: int
    """Time with a request in flight."""
    weighted: int
    """Time of all requests, also those in flight (the kernel's ``time_in_queue``)."""


class DiskUse(NamedTuple):
    """Use of disks between two readings, in the order of ``DISK_COLUMNS``."""

    read: float
    """B/s, as is ``write``."""
    write: float
    read_operations: float
    """1/s, as are ``write_operations``."""
    write_operations: float
    utilization: float
    """% of the time with a request in flight."""
    queue: float
    """Mean requests in flight or waiting."""
    wait: float | None
    """ms from start to end of the requests that have ended; None if none has."""


def read_disks(proc: str = PROC) -> dict[str, DiskCounters]:
    """Counters of all disks, partitions and layers over them, by name."""
    return parse(read_or_empty(f"{proc}/diskstats"))


def parse(diskstats: bytes) -> dict[str, DiskCounters]:
    """Counters by name, from a ``/proc/diskstats``; other lines are skipped.

    Its fields are those of the kernel's Documentation/admin-guide/iostats.rst.
    """
    disks = {}
    for line in diskstats.splitlines():
        words = line.split()
        counts = numbers(words[3:14])
        if counts is not None and len(counts) == 11:
            reads, _, sectors, reading, writes, _, written, writing, _, busy, weighted = counts
            disks[words[2].decode("utf-8", "replace")] = DiskCounters(
                *(reads, sectors * _SECTOR, reading),
                *(writes, written * _SECTOR, writing),
                *(busy, weighted),
            )
    return disks


def portable_disks() -> dict[str, DiskCounters]:
    """Bytes and requests by psutil, for a platform without ``/proc/diskstats``; times are 0."""
    return {
        name: DiskCounters(
            *(disk.read_count, disk.read_bytes, 0), *(disk.write_count, disk.write_bytes, 0), 0, 0
        )
        for name, disk in (psutil.disk_io_counters(perdisk=True) or {}).items()
    }


def use(pairs: Iterable[tuple[DiskCounters, DiskCounters]], seconds: float) -> DiskUse | None:
    """Use of disks over ``seconds``, by their counters before and after.

    Sums, except that ``utilization`` is that of the busiest. A disk whose counters fell was
    replaced, and is skipped; None without any.
    """
    changes = [
        DiskCounters(*(new - old for old, new in zip(*pair, strict=True)))
        for pair in pairs
        if all(new >= old for old, new in zip(*pair, strict=True))
    ]
    if not changes or seconds <= 0:
        return None
    total = DiskCounters(*map(sum, zip(*changes, strict=True)))
    requests = total.reads + total.writes
    return DiskUse(
        read=total.read_bytes / seconds,
        write=total.written_bytes / seconds,
        read_operations=total.reads / seconds,
        write_operations=total.writes / seconds,
        # Milliseconds per second are tenths of a per cent.
        utilization=min(100.0, max(change.busy for change in changes) / seconds / 10),
        queue=total.weighted / seconds / 1000,
        wait=(total.read_time + total.write_time) / requests if requests else None,
    )


class RealDevices:
    """Devices that sysfs ties to hardware, looked up again whenever the names change.

    Loop, RAM, device-mapper and RAID disks, partitions, bridges and virtual interfaces have no
    ``device`` link. In a container, and outside Linux, nothing may have one.
    """

    def __init__(self, devices: str) -> None:
        self._devices = devices
        self._names: frozenset[str] = frozenset()
        self._real: frozenset[str] = frozenset()

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """The hardware among ``names``; all of them if there is none."""
        current = frozenset(names)
        if current != self._names:
            real = (name for name in current if exists(f"{self._devices}/{name}/device"))
            self._names, self._real = current, frozenset(real) or current
        return self._real


COUNTED = columns("""
disk.read | B/s | disk read | /proc/diskstats | Bytes a second read from all disks of the machine.
disk.write | B/s | disk write | /proc/diskstats |
    Bytes a second written to all disks of the machine.
disk.read_operations | 1/s | disk reads | /proc/diskstats |
    Read requests a second, all disks of the machine.
disk.write_operations | 1/s | disk writes | /proc/diskstats |
    Write requests a second, all disks of the machine.
""")

TIMED = columns("""
disk.utilization | % | busiest disk | /proc/diskstats |
    Share of the time in which the busiest disk had a request in flight.
disk.queue | count | disk requests in flight | /proc/diskstats |
    Mean number of requests to all disks in flight or waiting.
disk.await | ms | time of a disk request | /proc/diskstats |
    Mean time from the start to the end of a request, queueing included, over all disks.
""")

DISK_COLUMNS = (*COUNTED, *TIMED)


class DiskSource:
    """Rates over all disks; no columns if the platform counts none."""

    def __init__(self, proc: str = PROC, sys: str = SYS) -> None:
        self._proc = proc
        self._real = RealDevices(f"{sys}/block")
        self._is_timed = bool(read_disks(proc))
        self._before = self._read()
        self._at = float("inf")
        self.columns = () if not self._before else DISK_COLUMNS if self._is_timed else COUNTED
        untimed = ", ".join(column.name for column in TIMED)
        self.missing = {} if self._is_timed else {untimed: f"nothing in {proc}/diskstats"}
        if not self.columns:
            self.missing["disk.read, disk.write"] = "no disk has counters"

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        before, self._before = self._before, self._read()
        seconds, self._at = now - self._at, now
        pairs = [(before[name], new) for name, new in self._before.items() if name in before]
        done = use(pairs, seconds)
        return [*(done or [None] * len(DISK_COLUMNS))][: len(self.columns)]

    def _read(self) -> dict[str, DiskCounters]:
        disks = read_disks(self._proc) if self._is_timed else portable_disks()
        return {name: disks[name] for name in self._real.among(disks)}


NETWORK_COLUMNS = columns("""
network.receive | B/s | received | /proc/net/dev |
    Bytes a second received by all interfaces but loopback.
network.transmit | B/s | sent | /proc/net/dev | Bytes a second sent by all interfaces but loopback.
network.errors | 1/s | network errors | /proc/net/dev |
    Packets a second damaged or dropped, on all interfaces but loopback.
""")

(RETRANSMITS,) = columns("""
network.retransmits | 1/s | retransmitted | /proc/net/snmp |
    TCP segments a second that were retransmitted.
""")


class NetworkSource:
    """Bytes and errors per second, without RDMA, which the kernel does not see."""

    def __init__(self, proc: str = PROC, sys: str = SYS) -> None:
        self._snmp = f"{proc}/net/snmp"
        self._real = RealDevices(f"{sys}/class/net")
        self._receive, self._transmit, self._errors = Rates(), Rates(), Rates()
        self._again = Rate()
        counts_again = retransmits(read_or_empty(self._snmp)) is not None
        self.columns = (*NETWORK_COLUMNS, RETRANSMITS) if counts_again else NETWORK_COLUMNS
        self.missing = {} if counts_again else {RETRANSMITS.name: f"not in {self._snmp}"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        real = self._real.among(name for name in counters if name not in ("lo", "lo0"))
        interfaces = {name: counters[name] for name in real}
        errors = {name: c.errin + c.errout + c.dropin + c.dropout for name, c in interfaces.items()}
        values = [
            self._receive.update({name: c.bytes_recv for name, c in interfaces.items()}, now),
            self._transmit.update({name: c.bytes_sent for name, c in interfaces.items()}, now),
            self._errors.update(errors, now),
        ]
        if RETRANSMITS in self.columns:
            values.append(self._again.update(retransmits(read_or_empty(self._snmp)), now))
        return values


def retransmits(snmp: bytes) -> int | None:
    """Segments sent again so far, from a ``/proc/net/snmp``: a line of names, one of numbers."""
    lines = [line.split() for line in snmp.splitlines() if line.startswith(b"Tcp:")]
    if len(lines) != 2:
        return None
    return number(dict(zip(*lines, strict=False)).get(b"RetransSegs", b""))


_PORTS = "/sys/class/infiniband/*/ports/*/counters"

INFINIBAND_COLUMNS = columns(f"""
infiniband.receive | B/s | received by InfiniBand | {_PORTS}/port_rcv_data |
    Bytes a second received by all ports of InfiniBand and RoCE.
infiniband.transmit | B/s | sent by InfiniBand | {_PORTS}/port_xmit_data |
    Bytes a second sent by all ports of InfiniBand and RoCE.
""")

WORD = 4
"""Bytes per unit of the counters, whatever the port's lanes (the kernel's
Documentation/ABI/stable/sysfs-class-infiniband)."""

EVERY_SECONDS, MOST_SHARE = 1.0, 0.001
"""A driver may have to ask the card's firmware for each counter."""


class InfinibandSource:
    """Traffic of all ports; no columns where there is none."""

    def __init__(self, sys: str = SYS) -> None:
        place = f"{sys}/class/infiniband"
        self._ports = [
            f"{place}/{device}/ports/{port}/counters"
            for device in names_in(place)
            for port in names_in(f"{place}/{device}/ports")
        ]
        self._receive, self._transmit = Rates(), Rates()
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        is_counted = bool(self._count("port_rcv_data"))
        self.columns = INFINIBAND_COLUMNS if is_counted else ()
        why = "its ports have no counters" if self._ports else "no InfiniBand ports"
        self.missing = {} if is_counted else {"infiniband": why}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None between readings every few samples."""
        if not self._pace.is_due(now):
            return [None] * len(self.columns)
        with self._pace.reading(now):
            return [
                self._receive.update(self._count("port_rcv_data"), now),
                self._transmit.update(self._count("port_xmit_data"), now),
            ]

    def _count(self, name: str) -> dict[str, int]:
        """Total bytes of each port that has this counter."""
        counts = {port: number(read_or_empty(f"{port}/{name}")) for port in self._ports}
        return {port: WORD * count for port, count in counts.items() if count is not None}
