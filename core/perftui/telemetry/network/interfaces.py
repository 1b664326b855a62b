"""Network interfaces of the machine, all together, and TCP over them."""

from __future__ import annotations

import psutil

from perftui.run.journal import Column
from perftui.telemetry.devices import RealDevices
from perftui.telemetry.files import PROC, SYS, number, read_or_empty
from perftui.telemetry.rates import Rates
from perftui.telemetry.source import Rate

_DEVICES = "/proc/net/dev"

COLUMNS = (
    Column(
        *("network.receive", "B/s", "received", _DEVICES),
        "Bytes a second received by all interfaces but loopback.",
    ),
    Column(
        *("network.transmit", "B/s", "sent", _DEVICES),
        "Bytes a second sent by all interfaces but loopback.",
    ),
    Column(
        *("network.errors", "1/s", "network errors", _DEVICES),
        "Packets a second damaged or dropped, on all interfaces but loopback.",
    ),
)

RETRANSMITS = Column(
    *("network.retransmits", "1/s", "retransmitted", "/proc/net/snmp"),
    "TCP segments a second that were retransmitted.",
)

LOOPBACK = ("lo", "lo0")


class NetworkSource:
    """Bytes and errors per second. The kernel does not see RDMA, so neither does this."""

    def __init__(self, proc: str = PROC, sys: str = SYS) -> None:
        self._snmp = f"{proc}/net/snmp"
        self._real = RealDevices(f"{sys}/class/net")
        self._receive, self._transmit, self._errors = Rates(), Rates(), Rates()
        self._again = Rate()
        counts_again = retransmits(read_or_empty(self._snmp)) is not None
        self.columns = (*COLUMNS, RETRANSMITS) if counts_again else COLUMNS
        self.missing = {} if counts_again else {RETRANSMITS.name: f"not in {self._snmp}"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        real = self._real.among(name for name in counters if name not in LOOPBACK)
        found = {name: counters[name] for name in real}
        errors = {
            name: one.errin + one.errout + one.dropin + one.dropout for name, one in found.items()
        }
        values = [
            self._receive.update({name: one.bytes_recv for name, one in found.items()}, now),
            self._transmit.update({name: one.bytes_sent for name, one in found.items()}, now),
            self._errors.update(errors, now),
        ]
        if RETRANSMITS in self.columns:
            values.append(self._again.update(retransmits(read_or_empty(self._snmp)), now))
        return values


def retransmits(snmp: bytes) -> int | None:
    """Segments sent again so far, of a ``/proc/net/snmp``: a line of names, and one of numbers."""
    lines = [line.split() for line in snmp.splitlines() if line.startswith(b"Tcp:")]
    if len(lines) != 2:
        return None
    return number(dict(zip(*lines, strict=False)).get(b"RetransSegs", b""))
