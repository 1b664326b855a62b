"""Ports of InfiniBand and RoCE, whose traffic goes past the kernel's network."""

from __future__ import annotations

from perftui.run.journal import Column
from perftui.telemetry.files import SYS, names_in, number, read_or_empty
from perftui.telemetry.pace import Pace
from perftui.telemetry.rates import Rates

_PORTS = "/sys/class/infiniband/*/ports/*/counters"

COLUMNS = (
    Column(
        *("infiniband.receive", "B/s", "received by InfiniBand", f"{_PORTS}/port_rcv_data"),
        "Bytes a second received by all ports of InfiniBand and RoCE.",
    ),
    Column(
        *("infiniband.transmit", "B/s", "sent by InfiniBand", f"{_PORTS}/port_xmit_data"),
        "Bytes a second sent by all ports of InfiniBand and RoCE.",
    ),
)

WORD = 4
"""Bytes that the counters count as one, whatever the port's lanes (the kernel's
Documentation/ABI/stable/sysfs-class-infiniband)."""

EVERY_SECONDS, MOST_SHARE = 1.0, 0.001
"""A driver may have to ask the card's firmware for each."""


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
        self.columns = COLUMNS if is_counted else ()
        why = "its ports have no counters" if self._ports else "no InfiniBand ports"
        self.missing = {} if is_counted else {"infiniband": why}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None but every few samples."""
        if not self.columns or not self._pace.is_due(now):
            return [None] * len(self.columns)
        with self._pace.reading(now):
            return [
                self._receive.update(self._count("port_rcv_data"), now),
                self._transmit.update(self._count("port_xmit_data"), now),
            ]

    def _count(self, name: str) -> dict[str, int]:
        """Bytes so far of each port that has this counter."""
        counts = {port: number(read_or_empty(f"{port}/{name}")) for port in self._ports}
        return {port: WORD * count for port, count in counts.items() if count is not None}
