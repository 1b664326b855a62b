"""GPU memory held by the run's own processes, by NVML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu import cards
from perftui.telemetry.nvml import answer


class GpuMemorySource:
    """Memory of each card held by the processes that ``pids`` names.

    None while none of them is on the card's list: also in a container whose NVML names processes
    by the host's numbers, where nobody can tell which are ours.
    """

    def __init__(self, nvml: Any, pids: Callable[[], frozenset[int]]) -> None:
        self._nvml = nvml
        self._pids = pids
        self._cards = []
        columns = []
        for device, card in enumerate(cards(nvml)):
            if answer(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, card) is not None:
                self._cards.append(card)
                columns.append(
                    Column(
                        f"gpu{device}.process_memory",
                        "B",
                        "GPU memory of this run",
                        "held by its processes; nvmlDeviceGetComputeRunningProcesses",
                    )
                )
        self.columns = tuple(columns)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - a level needs no clock
        """Bytes, one value for each card that lists its processes."""
        mine = self._pids()
        return [self._held(card, mine) for card in self._cards]

    def _held(self, card: Any, mine: frozenset[int]) -> float | None:
        nvml = self._nvml
        running = answer(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, card) or []
        held = [p.usedGpuMemory for p in running if p.pid in mine and p.usedGpuMemory is not None]
        return float(sum(held)) if held else None
