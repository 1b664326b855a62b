"""Speed of reading files one after the other, past the page cache."""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

from perftui import format as fmt
from perftui.probe.ceilings import Ceiling, NotMeasured, Rate, rate_of
from perftui.telemetry.files import MEMORY, count_of, mount_of, read_or_empty

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
