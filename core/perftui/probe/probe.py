"""Measures all ceilings of this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from perftui.probe.disk import disk_read
from perftui.probe.model import Ceilings, NotMeasured, Rate
from perftui.probe.worker import work
from perftui.telemetry.gpu.nvml import NoGpuError, answer, open_nvml

SECONDS = 12.0
"""In all, beside the time that importing torch takes."""

DISK_PART = 0.25


def _silent(_: str) -> None:
    """For callers who show no progress."""


def probe(
    python: str,
    path: Path,
    seconds: float | None = None,
    tell: Callable[[str], object] = _silent,
    cancelled: threading.Event | None = None,
) -> Ceilings:
    """Measure the disk below ``path``, and what torch of the interpreter ``python`` reaches, in
    about ``seconds`` (``SECONDS`` where None).

    ``tell`` gets the name of each ceiling as it is first measured.

    Raises:
        WorkerError: torch cannot be used there.
        ProbeCancelledError: ``cancelled`` was set; that is seen once the disk was read.
    """
    whole = SECONDS if seconds is None else seconds
    before = _Clock.now()
    disk = disk_read(path, DISK_PART * whole)
    if isinstance(disk, Rate):
        tell(disk.name.value)
    worked = work(python, (1 - DISK_PART) * whole, tell, cancelled)
    rates = (disk,) if isinstance(disk, Rate) else ()
    missing = (disk,) if isinstance(disk, NotMeasured) else ()
    return Ceilings(
        socket.gethostname(),
        time.time_ns(),
        (*rates, *worked.rates),
        worked.gpu,
        _driver() if worked.gpu else None,
        worked.torch,
        str(path),
        (*missing, *worked.not_measured),
        before.others(),
        psutil.cpu_count() or 1,
    )


@dataclass(frozen=True)
class _Clock:
    """Seconds: of the clock, of all cores at work, and of this process and those it waited for."""

    at: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> _Clock:
        times = psutil.cpu_times()._asdict()
        # Guest time is user time already.
        idle = ("idle", "iowait", "guest", "guest_nice")
        own = os.times()
        return cls(
            time.monotonic(),
            sum(seconds for name, seconds in times.items() if name not in idle),
            own.user + own.system + own.children_user + own.children_system,
        )

    def others(self) -> float:
        """Cores that others have kept busy since then, in the mean."""
        now = _Clock.now()
        elapsed = max(now.at - self.at, 1e-3)
        return max(now.busy - self.busy - (now.own - self.own), 0.0) / elapsed


def _driver() -> str | None:
    """The version of NVIDIA's driver; None where NVML does not report it."""
    try:
        nvml, _ = open_nvml()
    except NoGpuError:
        return None
    version: str | None = answer(nvml, nvml.nvmlSystemGetDriverVersion)
    return version
