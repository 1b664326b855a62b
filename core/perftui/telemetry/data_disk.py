"""Where a training reads its data from, and the load of the disk or NFS mount there."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from perftui.telemetry.devices import DiskCounters, read_disks, use
from perftui.telemetry.files import (
    NFS,
    PROC,
    SYS,
    Mount,
    exists,
    link,
    mount_holding,
    mounts_in,
    names_in,
    numbers,
    read_or_empty,
    unescaped,
)
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import Pace, Rate, columns

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/", "/etc/")

_PACKAGES = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3")

_FLAGS = re.compile(rb"^flags:\s*([0-7]+)", re.MULTILINE)

_MODES = os.O_ACCMODE | os.O_DIRECTORY | os.O_PATH

_STANDARD = ("0", "1", "2")


def files_read(pid: int, proc: str = PROC) -> list[str]:
    """Paths of regular files that ``pid`` has open for reading only, outside the system's own
    directories and the installation of its interpreter.

    File systems are not asked: a network file system that is gone would not answer.
    """
    place = f"{proc}/{pid}"
    # The directory above ``bin``; empty if that is the root.
    installation = link(f"{place}/exe").rpartition("/bin/")[0]
    paths = []
    for file in names_in(f"{place}/fd"):
        path = link(f"{place}/fd/{file}") if file not in _STANDARD else ""
        if not path.startswith("/") or path.startswith(_SYSTEM) or path.endswith(" (deleted)"):
            # A pipe or a socket, or a file that cannot hold data.
            continue
        if _PACKAGES.search(path) or (installation and path.startswith(f"{installation}/")):
            continue
        # proc_pid_fdinfo(5).
        flags = _FLAGS.search(read_or_empty(f"{place}/fdinfo/{file}"))
        if flags and int(flags[1], 8) & _MODES == os.O_RDONLY:
            paths.append(path)
    return paths


EVERY_SECONDS, MOST_SHARE = 5.0, 0.001
"""Between two searches: files of a data set are often open only for a moment."""

OPEN_FILES = "files that the run reads"
DIRECTORY = "its working directory"


@dataclass(frozen=True)
class DataMount:
    """The file system that holds the data, and how it was found."""

    mount: Mount
    found_by: str
    """``OPEN_FILES`` or ``DIRECTORY``."""


class DataPlace:
    """Follows the location of files that training processes and their workers read.

    The result is the mount on which most files were seen so far; before any, that of the working
    directory of ``pid``.
    """

    def __init__(self, pid: int, roles: Callable[[], Roles], proc: str = PROC) -> None:
        self._pid = pid
        self._roles = roles
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._seen: Counter[Mount] = Counter()
        self.found: DataMount | None = None
        """Result of the last search."""

    def search(self, now: float) -> DataMount | None:
        """The location, searched anew when due."""
        if self._pace.is_due(now):
            with self._pace.reading(now):
                self.found = self._search() or self.found
        return self.found

    def _search(self) -> DataMount | None:
        mounts = mounts_in(read_or_empty(f"{self._proc}/{self._pid}/mountinfo"))
        roles = self._roles()
        for pid in roles.ranks | roles.workers or {self._pid}:
            for path in files_read(pid, self._proc):
                mount = mount_holding(path, mounts)
                if mount is not None:
                    self._seen[mount] += 1
        if self._seen:
            return DataMount(self._seen.most_common(1)[0][0], OPEN_FILES)
        directory = link(f"{self._proc}/{self._pid}/cwd")
        mount = mount_holding(directory, mounts) if directory else None
        return None if mount is None else DataMount(mount, DIRECTORY)


def counted_disk(mount: Mount, counted: Container[str], sys: str = SYS) -> str | None:
    """The name in ``/proc/diskstats`` of the disk that holds ``mount``, None if there is none.

    A partition stands for its whole disk: any other reader there makes it wait. A layer over disks,
    as of LVM or RAID, is itself, or the disk below it if the kernel does not count it.
    """
    number = mount.number
    if number.startswith("0:"):
        # btrfs and ZFS have numbers of their own for file systems, and name the device.
        number = ""
        with suppress(OSError):
            if mount.source.startswith("/dev/"):
                device = os.stat(mount.source).st_rdev  # noqa: PTH116 - text, as all paths here
                number = f"{os.major(device)}:{os.minor(device)}"
    target = link(f"{sys}/dev/block/{number}") if number else ""
    if not target:
        return None
    place = f"{sys}/dev/block/{target}"
    if exists(f"{place}/partition"):
        place = place.rpartition("/")[0]
    name = place.rpartition("/")[2]
    while name not in counted:
        below = names_in(f"{sys}/block/{name}/slaves")
        if len(below) != 1:
            return None
        name = below[0]
    return name


def described(disk: str, sys: str = SYS) -> str:
    """``disk``, followed by the administrator's name for a mapped device."""
    name = read_or_empty(f"{sys}/block/{disk}/dm/name").decode("utf-8", "replace").strip()
    return f"{name} ({disk})" if name else disk


DATA_DISK_COLUMNS = columns("""
data_disk.read | B/s | read from the data's disk | /proc/diskstats |
    Bytes a second read from the disk that holds the data set.
data_disk.write | B/s | written to the data's disk | /proc/diskstats |
    Bytes a second written to the disk that holds the data set.
data_disk.utilization | % | data's disk busy | /proc/diskstats |
    Share of the time in which the disk that holds the data set had a request in flight.
data_disk.await | ms | time of a request to the data's disk | /proc/diskstats |
    Mean time from the start to the end of a request to the disk that holds the data set.
data_disk.queue | count | requests to the data's disk in flight | /proc/diskstats |
    Mean number of requests to the disk that holds the data set, in flight or waiting.
""")


@dataclass(frozen=True)
class DataDisk:
    """Location of the data set."""

    disk: str | None
    """The disk as the system names it, None where the kernel counts none for this file system."""
    place: str
    """Directory on which the file system is mounted."""
    file_system: str
    """Its kind, such as ``ext4``."""
    found_by: str


class DataDiskSource:
    """Rates of the disk under ``place``; None while the kernel counts no such disk."""

    def __init__(self, place: DataPlace, proc: str = PROC, sys: str = SYS) -> None:
        self._place = place
        self._proc = proc
        self._sys = sys
        self._mount_now: DataMount | None = None
        self._before: DiskCounters | None = None
        self._at = float("inf")
        self._disk = ""
        self.found: DataDisk | None = None
        """Location of the data, once known."""
        is_counted = bool(read_disks(proc))
        self.columns = DATA_DISK_COLUMNS if is_counted else ()
        self.missing = {} if is_counted else {"data_disk": f"nothing in {proc}/diskstats"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        disks = read_disks(self._proc)
        self._follow(self._place.search(now), disks)
        before, self._before = self._before, disks.get(self._disk)
        seconds, self._at = now - self._at, now
        pairs = [(before, self._before)] if before and self._before else []
        done = use(pairs, seconds)
        if done is None:
            return [None] * len(self.columns)
        return [done.read, done.write, done.utilization, done.wait, done.queue]

    def _follow(self, place: DataMount | None, disks: dict[str, DiskCounters]) -> None:
        if place is None or place == self._mount_now:
            return
        self._mount_now = place
        disk = counted_disk(place.mount, disks, self._sys) or ""
        if disk != self._disk:
            self._disk, self._before = disk, None
        name = described(disk, self._sys) if disk else None
        self.found = DataDisk(name, place.mount.point, place.mount.kind, place.found_by)


NFS_COLUMNS = columns("""
nfs.read | B/s | read by NFS | /proc/self/mountstats |
    Bytes a second from the server of the NFS mount that holds the data set.
nfs.write | B/s | written by NFS | /proc/self/mountstats |
    Bytes a second to the server of the NFS mount that holds the data set.
nfs.await | ms | time of an NFS request | /proc/self/mountstats |
    Mean time from the start to the end of a read or write of the NFS mount that holds the data set.
""")


class NfsCounters(NamedTuple):
    """Counters of one mount."""

    read: int
    """Bytes from the server."""
    written: int
    requests: int
    """Reads and writes that have ended."""
    time: int
    """ms from the start of each to its end."""


class NfsSource:
    """Rates of the mount at ``place``; no columns if nothing is mounted by NFS, and None if the
    data lies elsewhere."""

    def __init__(self, place: DataPlace, proc: str = PROC) -> None:
        self._place = place
        self._path = f"{proc}/self/mountstats"
        self._mount = ""
        self._begin()
        is_used = bool(parse(read_or_empty(self._path)))
        self.columns = NFS_COLUMNS if is_used else ()
        self.missing = {} if is_used else {"nfs": "no NFS mount"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        place = self._place.search(now)
        if place is None or place.mount.kind not in NFS:
            return [None] * len(self.columns)
        if place.mount.point != self._mount:
            self._mount = place.mount.point
            self._begin()
        counters = parse(read_or_empty(self._path)).get(self._mount)
        values = counters or (None,) * len(self._rates)
        read, written, requests, time = (
            rate.update(value, now) for rate, value in zip(self._rates, values, strict=True)
        )
        return [read, written, time / requests if time is not None and requests else None]

    def _begin(self) -> None:
        self._rates = [Rate() for _ in range(4)]


def parse(mountstats: bytes) -> dict[str, NfsCounters]:
    """Counters by directory, from a ``/proc/<pid>/mountstats``; of several mounts on one the last.

    ``bytes:`` counts those from and to the server fifth and sixth, an operation its requests first
    and their whole time eighth (net/sunrpc/stats.c and fs/nfs/iostat.h of the kernel).
    """
    mounts = {}
    for block in b"\n".join((b"", mountstats)).split(b"\ndevice ")[1:]:
        head, *lines = block.splitlines() or [b""]
        words = head.split()
        if len(words) < 7 or words[5] != b"fstype" or words[6] not in (b"nfs", b"nfs4"):
            continue
        counts = {}
        for line in lines:
            name, _, rest = line.strip().partition(b":")
            if name in (b"bytes", b"READ", b"WRITE"):
                counts[name] = numbers(rest.split()[:8])
        sizes, read, write = (counts.get(name) for name in (b"bytes", b"READ", b"WRITE"))
        if sizes and read and write and min(len(sizes), len(read), len(write)) == 8:
            place = unescaped(words[3])
            mounts[place] = NfsCounters(sizes[4], sizes[5], read[0] + write[0], read[7] + write[7])
    return mounts
