"""Measured ceilings of a machine, and their files: one for each host, card and driver; and the
speed of reading files one after the other, past the page cache."""

from __future__ import annotations

import enum
import hashlib
import mmap
import os
import socket
import stat
import statistics
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from perftui import format as fmt
from perftui.run.files import read_or_none, replace_file
from perftui.telemetry.files import MEMORY, count_of, mount_of, read_or_empty
from perftui.trace.cache import cache_directory, is_private, make_private

SCHEMA = 1

BUSY = 0.1
"""Share of the cores beyond which other programs are said to disturb the measurement."""


class Ceiling(str, enum.Enum):
    """A peak rate that is measured; the value is its name on screen and in JSON."""

    DISK_READ = "disk read"
    TO_DEVICE_PINNED = "host to device, pinned"
    TO_DEVICE_PAGEABLE = "host to device, pageable"
    TO_HOST_PINNED = "device to host, pinned"
    TO_HOST_PAGEABLE = "device to host, pageable"
    MEMORY = "device memory"
    FLOAT32 = "matrix, float32"
    TF32 = "matrix, TF32"
    BFLOAT16 = "matrix, bfloat16"
    FLOAT16 = "matrix, float16"
    """Measured only where the device has no bfloat16."""
    CPU_MEMORY = "CPU memory"
    CPU_FLOAT32 = "CPU matrix, float32"
    CPU_BFLOAT16 = "CPU matrix, bfloat16"


@dataclass(frozen=True)
class Rate:
    """One ceiling."""

    name: Ceiling
    unit: Annotated[str, Meta(pattern="^(B|FLOP)/s$")]
    value: Annotated[
        float, Meta(description="Per second, in `unit`: the best median of all rounds.")
    ]
    low: Annotated[float, Meta(description="The lowest of those medians.")]
    repeats: Annotated[int, Meta(description="Number of measurements in all rounds.")]
    how: Annotated[str, Meta(description="What was done, in words.")]

    @property
    def spread(self) -> float:
        """Difference of the best and the lowest median, as a share of the best."""
        return (self.value - self.low) / self.value if self.value else 0.0


@dataclass(frozen=True)
class NotMeasured:
    """A ceiling that is missing, and why."""

    name: Ceiling
    reason: str


@dataclass(frozen=True)
class Ceilings:
    """The rates measured on one machine, with one card and driver."""

    host: str
    measured_ns: int
    """Time of the measurement, on the wall clock."""
    rates: tuple[Rate, ...]
    gpu: str | None = None
    """The card's name; None where the CPU was measured."""
    driver: str | None = None
    torch: str | None = None
    path: str = ""
    """The directory whose disk was read."""
    not_measured: tuple[NotMeasured, ...] = ()
    others: float = 0.0
    """Cores that other programs kept busy meanwhile, in the mean."""
    cores: int = 1
    """Cores of the machine."""
    schema: int = SCHEMA

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs took so much that the machine can do more than was measured."""
        return self.others > BUSY * self.cores

    def rate(self, name: Ceiling) -> Rate | None:
        """The ceiling of that name; None where it was not measured."""
        return next((rate for rate in self.rates if rate.name is name), None)


def rate_of(name: Ceiling, unit: str, rounds: Sequence[Sequence[float]], how: str) -> Rate:
    """The best and the lowest median of ``rounds``, none of them empty.

    The best, since other work on the machine only ever makes it slower; medians, since a clock may
    be read late once.
    """
    medians = [statistics.median(times) for times in rounds]
    return Rate(name, unit, max(medians), min(medians), sum(map(len, rounds)), how)


LARGEST = 1 << 16
"""Bytes beyond which a file is none of ours."""


def ceilings_directory() -> Path | None:
    """``ceilings`` beside the cached traces; None where nothing is to be kept there."""
    traces = cache_directory()
    return None if traces is None else traces.with_name("ceilings")


def keep(rates: Ceilings) -> Path | None:
    """Keep ``rates`` in place of what was measured with the same host, card and driver.

    Returns the file; None where nothing is to be kept, or others can write to the directory. Raises
    OSError if the directory cannot be written."""
    directory = ceilings_directory()
    if directory is None:
        return None
    make_private(directory)
    if not is_private(directory):
        return None
    path = directory / f"{_key(rates)}.json"
    replace_file(path, msgspec.json.encode(rates))
    return path


def ceilings(gpu: str | None = None) -> Ceilings | None:
    """The last measurement on this host, or with ``gpu`` on a card of that name; None without one.

    A card of that name in another host counts where this host has none: homes are shared.
    """
    host = socket.gethostname()
    rows = [row for row in _stored() if (row.host == host if gpu is None else row.gpu == gpu)]
    return max(rows, key=lambda row: (row.host == host, row.measured_ns), default=None)


def ceilings_of(host: str) -> list[Ceilings]:
    """All ceilings measured on that host, newest first."""
    rows = [row for row in _stored() if row.host == host]
    return sorted(rows, key=lambda row: -row.measured_ns)


def _stored() -> Iterator[Ceilings]:
    directory = ceilings_directory()
    if directory is None or not is_private(directory):
        return
    for path in sorted(directory.glob("*.json")):
        if kept := read_or_none(path, Ceilings, SCHEMA, "measured ceilings", LARGEST):
            yield kept


def _key(rates: Ceilings) -> str:
    name = "\0".join((rates.host, rates.gpu or "", rates.driver or ""))
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


BLOCK = 8 << 20
"""Bytes of each read: enough for a disk to work on in parallel."""

SMALLEST = 1 << 20
"""Bytes of a file that is read: with smaller ones, opening them takes the time."""

MOST_BYTES = 4 << 30
"""Most bytes of all files together; they are read again where there is time left."""

MOST_ENTRIES = 20_000
SEARCH_SECONDS = 1.0
"""Bounds of the search for files."""

TEMPORARY = 64 << 20
"""Bytes of the file that is written if there is none to read."""

ROUNDS, SAMPLES = 3, 5
"""Rounds, and measurements in each."""

OVERRUN = 1.5
"""Times the seconds that were asked for after which no further block is read."""

_DIRECT = getattr(os, "O_DIRECT", 0)


class _CannotReadError(Exception):
    """There is no rate; the message says why."""


def disk_read(path: Path, seconds: float) -> Rate | NotMeasured:
    """Bytes per second of the file system that holds ``path``: of the largest files below it, or of
    a temporary one of ``TEMPORARY`` bytes, which has no name any more while it is read."""
    try:
        mount = mount_of(path.resolve())
        if mount is not None and mount.kind in MEMORY:
            raise _CannotReadError(f"{path} is in memory ({mount.kind}): no disk to measure")
        kind = f", {mount.kind}" if mount else ""
        files = _largest(path)
        if files:
            size = fmt.size(sum(file.stat().st_size for file in files))
            several = fmt.several(len(files), "file")
            return _rate(files, f"{several} of {size}{kind}", seconds)
        return _of_temporary(path, kind, seconds)
    except _CannotReadError as error:
        return NotMeasured(Ceiling.DISK_READ, str(error))
    except OSError as error:
        return NotMeasured(Ceiling.DISK_READ, f"{path}: {error.strerror or error}")


def _of_temporary(path: Path, kind: str, seconds: float) -> Rate:
    directory = path if path.is_dir() else path.parent
    # Without a name from the start where the system can, so that a kill leaves nothing.
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        until = time.monotonic() + max(seconds, 1.0)
        written = 0
        while written < TEMPORARY and time.monotonic() < until:
            # Not zeros: a file system may compress them.
            written += file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
        if written < TEMPORARY:
            raise _CannotReadError(f"{directory} has no large file, and writing one takes too long")
        own = Path(f"/proc/self/fd/{file.fileno()}")
        return _rate((own,), f"a temporary file of {fmt.size(written)}{kind}", seconds)


def _rate(files: tuple[Path, ...], what: str, seconds: float) -> Rate:
    """The rate at which ``files`` are read, which are described as ``what``."""
    before = _fetched()
    reader = _Reader(files)
    try:
        rounds = _rounds(reader, seconds)
    finally:
        reader.close()
    if reader.is_direct:
        cache = "past the page cache (O_DIRECT)"
    elif _fetched() - before >= reader.bytes / 2:
        cache = "page cache dropped before"
    else:
        cache = "possibly from the page cache, which the system did not drop"
    return rate_of(Ceiling.DISK_READ, "B/s", rounds, f"{what}, {cache}")


def _rounds(reader: _Reader, seconds: float) -> list[list[float]]:
    """Rates by round; fewer where the blocks of a slow disk take longer than they should."""
    until = time.monotonic() + OVERRUN * seconds
    rounds: list[list[float]] = []
    for _ in range(ROUNDS):
        rounds.append([])
        for _ in range(SAMPLES):
            rounds[-1].append(reader.sample(seconds / ROUNDS / SAMPLES))
            if time.monotonic() > until:
                return rounds
    return rounds


class _Reader:
    """Reads the blocks of the files, again and again."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        # Aligned, as O_DIRECT asks.
        self._buffer = mmap.mmap(-1, BLOCK)
        self._blocks = self._read(files)
        self.is_direct = bool(_DIRECT)
        self.bytes = 0

    def sample(self, seconds: float) -> float:
        """Bytes per second of one block, and more until ``seconds`` have passed."""
        start, count = time.perf_counter(), 0
        while True:
            count += next(self._blocks)
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                self.bytes += count
                return count / elapsed

    def close(self) -> None:
        """Close the file that is open."""
        self._blocks.close()
        self._buffer.close()

    def _read(self, files: tuple[Path, ...]) -> Generator[int, None, None]:
        while True:
            count = 0
            for path in files:
                for size in self._file(path):
                    count += size
                    yield size
            if not count:
                raise _CannotReadError(f"{files[0]} cannot be read any more")

    def _file(self, path: Path) -> Iterator[int]:
        file = self._open(path)
        try:
            while True:
                try:
                    size = os.readv(file, [self._buffer])
                except OSError:
                    if not self.is_direct:
                        raise
                    # A file system that takes the flag and refuses to read so.
                    os.close(file)
                    self.is_direct = False
                    file = self._open(path)
                    continue
                if size:
                    yield size
                if size < BLOCK:
                    return
        finally:
            os.close(file)

    def _open(self, path: Path) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC
        if self.is_direct:
            try:
                return os.open(path, flags | _DIRECT)
            except OSError:
                self.is_direct = False
        file = os.open(path, flags)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return file


def _largest(path: Path) -> tuple[Path, ...]:
    """The largest files below ``path`` on its file system, ``MOST_BYTES`` together at most by all
    but the last."""
    sizes = sorted(_files(path), reverse=True)
    chosen: list[Path] = []
    total = 0
    for size, file in sizes:
        if total >= MOST_BYTES:
            break
        chosen.append(file)
        total += size
    return tuple(chosen) if total >= TEMPORARY else ()


def _files(path: Path) -> Iterator[tuple[int, Path]]:
    """Size and path of files that are worth reading; those with holes hold less than they say."""
    device = path.stat().st_dev
    until = time.monotonic() + SEARCH_SECONDS
    below = (Path(directory, name) for directory, _, names in os.walk(path) for name in names)
    for seen, file in enumerate((path,) if path.is_file() else below):
        if seen >= MOST_ENTRIES or time.monotonic() > until:
            return
        with suppress(OSError):
            status = file.lstat()
            is_whole = status.st_blocks * 512 >= status.st_size >= SMALLEST
            is_readable = stat.S_ISREG(status.st_mode) and os.access(file, os.R_OK)
            if is_whole and is_readable and status.st_dev == device:
                yield status.st_size, file


def _fetched() -> int:
    """Bytes that this process had fetched from disks; 0 where the system does not count them."""
    return count_of(b"\nread_bytes:", read_or_empty("/proc/self/io")) or 0
