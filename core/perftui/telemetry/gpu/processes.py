"""The processes that hold memory of a card, and how much of it the run's own hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from perftui.run.journal import Column
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.nvml import Device, RefusedError, ask, function_of, refusal
from perftui.telemetry.processes.contention import program

LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
)
"""A process may be on several of them."""


def process_columns(device: Device) -> tuple[Column, ...]:
    """The columns of ``ProcessSource`` for ``device``."""
    names = ("processes", "process_memory")
    source = ", ".join(LISTS)
    return tuple(METRICS[name].column(device.prefix, source, device.kind) for name in names)


class ProcessSource:
    """How many processes hold memory of a card, and the bytes held by those that ``pids`` names.

    The bytes are None while none of them is on the card's lists: also in a container whose NVML
    names processes by the host's numbers, where nobody can know which are ours. ``missing`` says
    why a card has no lists. A sample raises ``LostGpuError`` once the card is gone.
    """

    def __init__(self, nvml: Any, device: Device, pids: Callable[[], frozenset[int]]) -> None:
        self._nvml = nvml
        self._device = device
        self._pids = pids
        self._lists: list[Callable[..., Any]] = []
        self.prefix = device.prefix
        """What the columns of the card begin with."""
        self.others: dict[int, int | None] = {}
        """Bytes by process, of those that are none of the run's, when one of the run's was last on
        the card: without one, the numbers may be those of another container."""
        columns = process_columns(device)
        self.missing: dict[str, str] = {}
        for name in LISTS:
            reason = refusal(self._list, name)
            if not reason:
                self._lists.append(function_of(nvml, name))
            elif name == LISTS[0]:
                self.missing = {column.name: reason for column in columns}
        self.columns = () if self.missing else columns

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """The count and the bytes."""
        try:
            held = self._held()
        except RefusedError:
            return [None, None]
        own = self._pids() & held.keys()
        if own:
            self.others = {pid: held[pid] for pid in held.keys() - own}
        mine = [held[pid] for pid in own]
        known = [memory for memory in mine if memory is not None]
        return [len(held), sum(known) if known else None]

    def _list(self, name: str) -> Any:
        return ask(self._nvml, function_of(self._nvml, name), self._device.handle)

    def _held(self) -> dict[int, int | None]:
        """Bytes by process, None where NVML does not say how many."""
        held: dict[int, int | None] = {}
        for function in self._lists:
            for process in ask(self._nvml, function, self._device.handle):
                memory, before = process.usedGpuMemory, held.get(process.pid)
                # Two lists name the same memory of a process.
                held[process.pid] = before if memory is None else max(memory, before or 0)
        return held


MOST = 8
"""Processes of one GPU that are named, the largest first."""

CHECKED_SECONDS = 10.0
"""How often they are named at most: each is looked up, and the manifest is written."""


@dataclass(frozen=True)
class OtherProcess:
    """A process beside the run; None stands for what is not known."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU."""
    program: str | None = None
    user: str | None = None


class OtherProcesses:
    """Names the processes that ``sources`` found, again whenever others hold memory."""

    def __init__(self, sources: Sequence[ProcessSource]) -> None:
        self._sources = sources
        self._known: dict[str, frozenset[int]] = {}
        self._due = 0.0

    def changed(self, now: float) -> dict[str, list[OtherProcess]] | None:
        """By what the columns of each GPU begin with; None where they are those of before. ``now``
        is in seconds of a clock that nobody sets."""
        # Each is replaced as a whole on the thread that asks the driver.
        held = {one.prefix: one.others for one in self._sources}
        known = {prefix: frozenset(others) for prefix, others in held.items() if others}
        if known == self._known or now < self._due:
            return None
        self._known, self._due = known, now + CHECKED_SECONDS
        return {prefix: _named(held[prefix]) for prefix in known}


def _named(held: dict[int, int | None]) -> list[OtherProcess]:
    largest = sorted(held.items(), key=lambda one: -(one[1] or 0))[:MOST]
    return [_process(pid, memory) for pid, memory in largest]


def _process(pid: int, memory: int | None) -> OtherProcess:
    name = user = None
    # It has ended, or is not to be looked at.
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        with suppress(psutil.Error, OSError, KeyError):
            user = process.username()
        name = program(process.name(), process.cmdline())
    return OtherProcess(pid, memory, name, user)
