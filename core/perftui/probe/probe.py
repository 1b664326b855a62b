"""Measures all ceilings of this machine; with torch in the interpreter that trains."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
import psutil

from perftui.probe import torch_work
from perftui.probe.ceilings import Ceiling, Ceilings, NotMeasured, Rate, disk_read, rate_of
from perftui.telemetry.gpu.nvml_library import NoGpuError, answer, open_nvml

POLL_SECONDS = 0.1
"""Seconds between looks whether the probe was cancelled."""

START_SECONDS = 90.0
"""Seconds to import torch, maybe from a cold network disk, and to start CUDA."""

OVERRUN = 4
"""The worker is ended after this many times the seconds that were asked for."""

_LONGEST = 200


class ProbeCancelledError(Exception):
    """Nobody waits for the ceilings any more."""


class WorkerError(Exception):
    """Nothing was measured; the message says why."""


class Line(msgspec.Struct, frozen=True):
    """One message of the worker; see ``torch_work``."""

    torch: str | None = None
    gpu: str | None = None
    name: Ceiling | None = None
    unit: str = ""
    how: str = ""
    rates: tuple[float, ...] = ()
    problem: str = ""
    done: bool = False


@dataclass(frozen=True)
class Worked:
    """The measurements of the worker."""

    torch: str
    gpu: str | None
    rates: tuple[Rate, ...]
    not_measured: tuple[NotMeasured, ...] = ()


def work(
    python: str,
    seconds: float,
    tell: Callable[[str], object],
    cancelled: threading.Event | None = None,
) -> Worked:
    """Measure for about ``seconds`` in a process of ``python``, which never outlives this call.

    ``tell`` gets the name of each ceiling as it is first measured.

    Raises:
        ProbeCancelledError: ``cancelled`` was set.
        WorkerError: torch cannot be used there, or the process failed.
    """
    command = [python, torch_work.__file__, str(seconds)]
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(  # noqa: S603 - the interpreter that trains, a file of ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl+C is for us: we end the process.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerError(f"{python}: {error.strerror or error}") from error
        until = time.monotonic() + START_SECONDS + OVERRUN * seconds
        over, cancelled = threading.Event(), cancelled or threading.Event()
        watched = child, cancelled, until, over
        threading.Thread(target=_kill_late, args=watched, daemon=True).start()
        try:
            lines = list(_lines(child.stdout or (), tell))
            code = child.wait()
        finally:
            over.set()
            child.kill()
            child.communicate()
        if cancelled.is_set():
            raise ProbeCancelledError
        if not any(line.done for line in lines):
            raise WorkerError(_why(errors, code))
    return summed_up(lines)


def _kill_late(
    child: subprocess.Popen[bytes], cancelled: threading.Event, until: float, over: threading.Event
) -> None:
    while not over.wait(POLL_SECONDS):
        if cancelled.is_set() or time.monotonic() > until:
            child.kill()
            return


def summed_up(lines: Iterable[Line]) -> Worked:
    """The measurements in the lines of a finished worker."""
    torch, gpu = "", None
    rounds: dict[Ceiling, list[Line]] = {}
    missing = []
    for line in lines:
        if line.torch is not None:
            torch, gpu = line.torch, line.gpu
        elif line.name is not None and line.rates:
            rounds.setdefault(line.name, []).append(line)
        elif line.name is not None:
            missing.append(NotMeasured(line.name, line.problem))
    rates = (
        rate_of(name, lines_of[0].unit, [line.rates for line in lines_of], lines_of[0].how)
        for name, lines_of in rounds.items()
    )
    return Worked(torch, gpu, tuple(rates), tuple(missing))


def _lines(output: Iterable[bytes], tell: Callable[[str], object]) -> Iterable[Line]:
    seen: set[Ceiling] = set()
    for text in output:
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.MsgspecError:
            # Printed by something that the interpreter imports at its start.
            continue
        if line.rates and line.name is not None and line.name not in seen:
            seen.add(line.name)
            tell(line.name.value)
        yield line


def _why(errors: IO[bytes], code: int) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    last = lines[-1].strip()[:_LONGEST] if lines else ""
    if code < 0:
        return f"measuring with torch was killed by signal {-code}{f': {last}' if last else ''}"
    return last or f"measuring with torch ended with exit code {code}"


SECONDS = 12.0
"""Seconds in all, besides importing torch."""

DISK_PART = 0.25


def probe(
    python: str,
    path: Path,
    seconds: float | None = None,
    tell: Callable[[str], object] = lambda _: None,
    cancelled: threading.Event | None = None,
) -> Ceilings:
    """Measure the disk below ``path``, and what torch of the interpreter ``python`` reaches, in
    about ``seconds`` (``SECONDS`` where None).

    ``tell`` gets the name of each ceiling as it is first measured.

    Raises:
        WorkerError: torch cannot be used there.
        ProbeCancelledError: ``cancelled`` was set; that is seen once the disk was read.
    """
    total = SECONDS if seconds is None else seconds
    before = _Clock.now()
    disk = disk_read(path, DISK_PART * total)
    if isinstance(disk, Rate):
        tell(disk.name.value)
    worked = work(python, (1 - DISK_PART) * total, tell, cancelled)
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
