"""Network interfaces of the machine, all together."""

from __future__ import annotations

import psutil

from perftui.run.journal import Column
from perftui.telemetry.hardware import NETWORK, real_devices
from perftui.telemetry.source import Rate

COLUMNS = (
    Column("network.receive", "B/s", "received", "all interfaces but loopback; /proc/net/dev"),
    Column("network.transmit", "B/s", "sent", "all interfaces but loopback; /proc/net/dev"),
)

LOOPBACK = ("lo", "lo0")


class NetworkSource:
    """Bytes per second in and out. The kernel does not see RDMA, so neither does this."""

    columns = COLUMNS

    def __init__(self) -> None:
        self._receive, self._transmit = Rate(), Rate()

    def sample(self, now: float) -> list[float | None]:
        """Values of ``COLUMNS``."""
        counters = psutil.net_io_counters(pernic=True)
        names = real_devices((name for name in counters if name not in LOOPBACK), NETWORK)
        return [
            self._receive.update(sum(counters[name].bytes_recv for name in names), now),
            self._transmit.update(sum(counters[name].bytes_sent for name in names), now),
        ]
