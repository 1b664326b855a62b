"""Decides which recorder samples the machine of a host, from which sources, and shows others that
it lives."""

from __future__ import annotations

import fcntl
import glob
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from msgspec.structs import replace

from perftui.recorder.sink import DownsamplingSink, FaultLog, LiveManifest
from perftui.run.control import BEAT_SECONDS, Beat, read_beat, write_beat
from perftui.run.journal import Column
from perftui.run.layout import RunLayout
from perftui.run.manifest import DATA_DISK, GPU_DEVICES, GPU_PROCESSES, NOT_SAMPLED, OTHER_PROGRAMS
from perftui.telemetry import contention, cpu, data_disk, devices, memory, processes
from perftui.telemetry.contention import ContentionSource, PressureSource
from perftui.telemetry.data_disk import DataDisk, DataDiskSource, DataPlace
from perftui.telemetry.gpu.find import Gpus, find_gpus, gpu_columns
from perftui.telemetry.gpu.nvml_library import OtherProcesses
from perftui.telemetry.processes import ProcessTreeSource, Roles
from perftui.telemetry.source import Pace, PartialSource, Sampler, Source
from perftui.wire.spool import Spool


class OfRun:
    """Facts about the run for sources, and sources that others need."""

    def __init__(
        self, pid: int, roles: Callable[[], Roles], others: Callable[[], Sequence[int]]
    ) -> None:
        self.pid = pid
        self.roles = roles
        self.processes = ProcessTreeSource(pid, roles, others)
        self.contention = ContentionSource(roles, self.processes.pids)
        self.place = DataPlace(pid, roles)
        self.data_disk = DataDiskSource(self.place)


class HostSource(NamedTuple):
    """One source."""

    columns: tuple[Column, ...]
    """All possible columns; a machine may have fewer."""
    make: Callable[[OfRun], PartialSource]
    """Constructs the source of this machine, for a run."""


HOST_SOURCES: dict[str, tuple[HostSource, ...]] = {
    "CPU": (
        HostSource(
            (*cpu.CORE_COLUMNS, *cpu.LINUX_COLUMNS, cpu.core_column("N")), lambda _: cpu.CpuSource()
        ),
        HostSource(cpu.FREQUENCY_COLUMNS, lambda _: cpu.FrequencySource()),
        HostSource(cpu.QUOTA_COLUMNS, lambda run: cpu.QuotaSource(run.pid, run.roles)),
        HostSource((contention.PRESSURE_COLUMNS["cpu"],), lambda _: PressureSource("cpu")),
    ),
    "Processes of the run": (
        HostSource(processes.PROCESS_COLUMNS, lambda run: run.processes),
        HostSource(contention.THREAD_COLUMNS, lambda run: contention.ThreadSource(run.roles)),
        HostSource(contention.CONTENTION_COLUMNS, lambda run: run.contention),
        HostSource(memory.PSS_COLUMNS, lambda run: memory.PssSource(run.pid, run.processes.pids)),
    ),
    "Memory": (
        HostSource(
            (*memory.MEMORY_COLUMNS, memory.PAGE_CACHE, memory.OOM_KILLS),
            lambda _: memory.MemorySource(),
        ),
        HostSource(memory.SHARED_COLUMNS, lambda _: memory.SharedMemorySource()),
        HostSource((contention.PRESSURE_COLUMNS["memory"],), lambda _: PressureSource("memory")),
    ),
    "Disk": (
        HostSource(devices.DISK_COLUMNS, lambda _: devices.DiskSource()),
        HostSource(data_disk.DATA_DISK_COLUMNS, lambda run: run.data_disk),
        HostSource(data_disk.NFS_COLUMNS, lambda run: data_disk.NfsSource(run.place)),
        HostSource((contention.PRESSURE_COLUMNS["io"],), lambda _: PressureSource("io")),
    ),
    "Network": (
        HostSource(
            (*devices.NETWORK_COLUMNS, devices.RETRANSMITS), lambda _: devices.NetworkSource()
        ),
        HostSource(devices.INFINIBAND_COLUMNS, lambda _: devices.InfinibandSource()),
    ),
}
"""In the order of sampling, and of docs/metrics.md."""


def host_columns() -> dict[str, tuple[Column, ...]]:
    """All columns that the sources can have, by group."""
    return {
        title: tuple(column for source in sources for column in source.columns)
        for title, sources in HOST_SOURCES.items()
    }


def tables() -> str:
    """All metrics as Markdown, one table for each group."""
    groups = {**host_columns(), "GPU": gpu_columns()}
    lines = []
    for title, columns in groups.items():
        lines += [f"## {title}", "", "| Metric | Unit | What it is | Source |", "|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.unit} | {c.meaning} | `{c.source}` |" for c in columns]
        lines.append("")
    return "\n".join(lines[:-1])


@dataclass(frozen=True)
class Machine:
    """The sources of this machine."""

    sources: tuple[Source, ...]
    contention: ContentionSource
    """One of them."""
    data_disk: DataDiskSource
    """One of them."""
    gpus: Gpus
    missing: Mapping[str, str]
    """Why a metric, a group of them or all of a device is not sampled, by its name."""


def look_around(
    pid: int,
    nvml: ModuleType | None = None,
    roles: Callable[[], Roles] = Roles,
    others: Callable[[], Sequence[int]] = list,
) -> Machine:
    """Find what can be sampled of this machine and of the training process ``pid``.

    ``roles`` returns which of the processes below it train, and which load data; ``others``
    processes beside it that are of the same run.
    """
    run = OfRun(pid, roles, others)
    host = [entry.make(run) for sources in HOST_SOURCES.values() for entry in sources]
    missing = {name: why for source in host for name, why in source.missing.items()}
    gpus = find_gpus(run.processes.pids, nvml)
    sources = (*host, *gpus.sources)
    return Machine(sources, run.contention, run.data_disk, gpus, {**missing, **gpus.missing})


FRESH_SECONDS = 3 * BEAT_SECONDS


class Heartbeat:
    """Writes signs of life of the recorder of ``layout``."""

    def __init__(self, layout: RunLayout, host: str, pid: int, spool: Path) -> None:
        self._path = layout.heartbeat
        self._beat = Beat(0, 0, host, pid, str(spool))

    def beat(self) -> None:
        """Give a sign of life. Raises OSError if the disk does not take it."""
        count = self._beat.count + 1
        self._beat = replace(self._beat, count=count, time_ns=time.time_ns())
        write_beat(self._path, self._beat)

    def end(self) -> None:
        """Write the last sign of life: the training has ended. Raises OSError if the disk does not
        take it."""
        self._beat = replace(self._beat, pid=None)
        self.beat()


def others_here(layout: RunLayout, host: str) -> list[Beat]:
    """Signs of life of the other recorders of the run on ``host``.

    One older than a few beats is skipped: its process number may be reused. Of a run on many hosts
    only the directories of this host are read.
    """
    run = layout.run
    parts = (RunLayout(path) for path in run.hosts.glob(f"{glob.escape(host)}-*"))
    beats = (read_beat(part.heartbeat) for part in (run, *parts) if part.root != layout.root)
    oldest = time.time_ns() - int(FRESH_SECONDS * 1e9)
    return [beat for beat in beats if beat and beat.host == host and beat.time_ns > oldest]


# The holder of the lock samples. If it dies, the kernel releases the lock and the next takes over.

HEAD_START = 5.0
"""Seconds by which the recorder that began the run is ahead of those that joined it: its facts
about the machine are in the manifest that readers look at first."""

RETRY_SECONDS = 5.0
"""Seconds between attempts to take over: the lock may be one of a network disk."""


class LeaderElection:
    """``is_won`` by one of the recorders on ``host`` at a time.

    Without locks on the disk everybody wins, and readers use one of them.
    """

    def __init__(self, layout: RunLayout, host: str, faults: FaultLog) -> None:
        self._path = layout.run.sampling_lock(host)
        self._faults = faults
        self._file: int | None = None
        self._is_settled = False
        is_first = layout.run.root == layout.root
        self._from = time.monotonic() + (0.0 if is_first else HEAD_START)

    def is_won(self) -> bool:
        """Whether this recorder samples the machine; from then on it always does."""
        now = time.monotonic()
        if not self._is_settled and now >= self._from:
            self._from = now + RETRY_SECONDS
            self._is_settled = self._take()
        return self._is_settled

    def close(self) -> None:
        """Let another recorder sample."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self) -> bool:
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            self._faults.report("sampling", f"{error}; every recorder on this host samples it")
        return True


NOTED_AGAIN = 1.5
"""Times as long as before, after which other programs are noted again: the manifest is written."""

MOST_SHARE = 0.01
"""Share of a core, on average: samples that cost more are skipped until it is kept."""

AHEAD_SECONDS = 5.0
"""Seconds that the cost may run ahead: rare readings may cost as much as ten samples."""

ROLES_SHARE = 0.002
"""Share of a core for looking up who trains and who loads: a run may have hundreds of files."""


class MachineSampling:
    """Finds its sources at the first sample, since asking a driver may take a second, then samples.

    Of several recorders of a run on one host only one samples, for the trainings of all of them.
    """

    def __init__(
        self, pid: int, spool: Spool, layout: RunLayout, manifest: LiveManifest, faults: FaultLog
    ) -> None:
        self._pid = pid
        self._spool = spool
        self._layout = layout
        self._manifest = manifest
        self._faults = faults
        self._sampler: Sampler | None = None
        self._journal: DownsamplingSink | None = None
        self._machine: Machine | None = None
        self._pace = Pace(0.0, MOST_SHARE, AHEAD_SECONDS)
        self._noted_seconds = 0.0
        self._noted_disk: DataDisk | None = None
        self._on_gpus = OtherProcesses(())
        self._known_roles = Roles()
        self._roles_pace = Pace(0.0, ROLES_SHARE)
        self._host = socket.gethostname()
        self._election = LeaderElection(layout, self._host, faults)
        self._beside: list[Beat] = []
        """Signs of life of the recorders beside this one."""
        self._beside_due = 0.0

    def sample(self) -> None:
        """Write one sample, if this recorder is to do it."""
        if not self._election.is_won():
            return
        now = time.monotonic()
        if now >= self._beside_due:
            # At most as often as signs of life are written: the disk may be a network's.
            self._beside_due = now + BEAT_SECONDS
            self._beside = others_here(self._layout, self._host)
        if self._sampler is None or self._journal is None:
            self._sampler, self._journal = self._begin()
            now = time.monotonic()
        if self._pace.is_due(now):
            with self._pace.reading(now):
                self._journal.append([self._sampler.sample()])
                self._note_others(NOTED_AGAIN)
                self._note_changes(now)

    def finish(self) -> None:
        """Close the journal, and let another recorder sample."""
        self._note_others(1.0)
        if self._sampler is not None:
            self._sampler.close()
        if self._journal is not None:
            self._journal.close()
        self._election.close()

    def _roles(self) -> Roles:
        now = time.monotonic()
        if self._roles_pace.is_due(now):
            with self._roles_pace.reading(now):
                spools = [self._spool, *(Spool(Path(b.spool)) for b in self._beside if b.spool)]
                ranks, workers = ([*map(ask, spools)] for ask in (Spool.trainers, Spool.workers))
                self._known_roles = Roles(frozenset().union(*ranks), frozenset().union(*workers))
        return self._known_roles

    def _note_others(self, longer: float) -> None:
        """Note other programs' use of cores, once watched ``longer`` times as long as before."""
        others = self._machine.contention.others() if self._machine else None
        if others and others.cores and others.seconds > longer * self._noted_seconds:
            self._noted_seconds = others.seconds
            self._manifest.note(OTHER_PROGRAMS, {self._host: asdict(others)})

    def _note_changes(self, now: float) -> None:
        """Note the disk of the data set, and the other processes with memory on the GPUs, whenever
        they change."""
        disk = self._machine.data_disk.found if self._machine else None
        if disk is not None and disk != self._noted_disk:
            self._noted_disk = disk
            self._manifest.note(DATA_DISK, {self._host: asdict(disk)})
        changed = self._on_gpus.changed(now)
        if changed is not None:
            facts = {prefix: [asdict(user) for user in users] for prefix, users in changed.items()}
            self._manifest.note(GPU_PROCESSES, {self._host: facts})

    def _others(self) -> list[int]:
        return [beat.pid for beat in self._beside if beat.pid is not None]

    def _begin(self) -> tuple[Sampler, DownsamplingSink]:
        machine = self._machine = look_around(self._pid, roles=self._roles, others=self._others)
        self._on_gpus = OtherProcesses(machine.gpus.processes)
        facts: dict[str, Any] = {}
        devices = [asdict(gpu) for gpu in machine.gpus.gpus]
        entries = {
            "no_gpu": machine.gpus.no_gpu,
            GPU_DEVICES: {self._host: devices} if devices else None,
            NOT_SAMPLED: {self._host: dict(machine.missing)} if machine.missing else None,
        }
        known = {name: entry for name, entry in entries.items() if entry is not None}
        if known:
            facts["profile"] = {**self._manifest.current.profile, **known}
        if machine.gpus.names and not self._manifest.current.gpus:
            facts["gpus"] = machine.gpus.names
        self._manifest.update(**facts)
        sampler = Sampler(machine.sources, self._faults.report)
        path = self._layout.telemetry(self._host)
        # The run directory itself may have been removed by the first sample.
        return sampler, DownsamplingSink(
            path, sampler.columns, self._faults, floats=True, makes_directory=False
        )
