"""Traffic of network interfaces and InfiniBand ports."""

from __future__ import annotations

import psutil

from perftui.telemetry.disks import RealDevices
from perftui.telemetry.files import PROC, SYS, names_in, number, read_or_empty
from perftui.telemetry.source import Pace, Rate, Rates, columns

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

LOOPBACK = ("lo", "lo0")


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
        real = self._real.among(name for name in counters if name not in LOOPBACK)
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
