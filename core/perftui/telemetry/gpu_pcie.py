"""PCIe traffic of the cards, in a lane of its own because NVML takes 20 ms to measure each."""

from __future__ import annotations

import threading
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu import cards
from perftui.telemetry.nvml import answer

INTERVAL = 2.0
"""Seconds between two readings: two directions of 20 ms each are 2 % of the thread's time."""

PATIENCE = 1.0
"""Seconds a reading under way may take to end: one of eight cards takes a third of that."""

_DIRECTIONS = (
    ("pcie_receive", "to the GPU", "NVML_PCIE_UTIL_RX_BYTES"),
    ("pcie_transmit", "from the GPU", "NVML_PCIE_UTIL_TX_BYTES"),
)


class PcieSource:
    """Bytes per second over the link of each card, as last read by a thread of its own."""

    def __init__(self, nvml: Any, interval: float = INTERVAL) -> None:
        self._nvml = nvml
        self._interval = interval
        self._asked: list[tuple[Any, int]] = []
        columns = []
        for device, card in enumerate(cards(nvml)):
            for name, label, counter in _DIRECTIONS:
                number = getattr(nvml, counter)
                if self._read(card, number) is not None:
                    self._asked.append((card, number))
                    columns.append(
                        Column(
                            f"gpu{device}.{name}",
                            "B/s",
                            f"PCIe {label}",
                            f"over 20 ms, every {interval:g} s; nvmlDeviceGetPcieThroughput",
                        )
                    )
        self.columns = tuple(columns)
        self._latest: list[float | None] = [None] * len(columns)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="pcie", daemon=True)
        if columns:
            self._thread.start()

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - read at its own pace
        """The latest reading; None before the first."""
        return self._latest

    def close(self) -> None:
        """End the thread; one that a lost card keeps waiting is left to the end of the process."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _follow(self) -> None:
        while not self._closed.wait(self._interval):
            self._latest = [self._read(card, number) for card, number in self._asked]

    def _read(self, card: Any, number: int) -> float | None:
        kilobytes = answer(self._nvml, self._nvml.nvmlDeviceGetPcieThroughput, card, number)
        return None if kilobytes is None else 1024.0 * kilobytes
