"""Carries the script's output to the log, and on to our own output if there is one.

Run as a module it carries the output of processes that a training left behind, once we have ended.
Otherwise they would get SIGPIPE, which without us they do not: they hold our output themselves.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from perftui.recorder.launch import our_module, reap
from perftui.recorder.sink import FaultLog

BACKLOG = 256 * 1024 * 1024
"""Bytes that may wait for the disk. A disk that hangs for longer than it takes the script to
print this much costs output in the log, never time in the training."""


class OutputLog:
    """Appends bytes to ``path`` in order; ``write`` never blocks and never raises.

    Bytes that could not be written are replaced by a line with their count. Its thread begins with
    the first ``write``: a log may be opened before the script is forked. Raises OSError if ``path``
    cannot be opened."""

    def __init__(self, path: Path, faults: FaultLog, backlog: int = BACKLOG) -> None:
        self._path = path
        self._faults = faults
        self._limit = backlog
        self._waiting = bytearray()
        self._refused = 0
        """Bytes refused because the backlog was full, since it was last taken."""
        self._lost = 0
        """Bytes missing at the end of the log whose line is not written yet."""
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._is_running = False

    def write(self, data: bytes) -> None:
        """Queue ``data``; if too much waits, drop and count it."""
        with self._changed:
            if not self._is_running:
                self._is_running = True
                self._thread.start()
            if self._refused or len(self._waiting) + len(data) > self._limit:
                self._refused += len(data)
            else:
                self._waiting += data
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything queued has been written or dropped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_work() and not self._busy)

    def close(self) -> None:
        """Write the rest and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._is_running:
            self._thread.join()
        os.close(self._file)

    def _run(self) -> None:
        while (chunk := self._next()) is not None:
            self._append(*chunk)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if self._lost:
            self._append(b"", 0)

    def _has_work(self) -> bool:
        """Refused bytes are noted even if nothing waits: a chunk may be large."""
        return bool(self._waiting or self._refused)

    def _next(self) -> tuple[bytes, int] | None:
        """Waiting bytes, and how many bytes were refused after them; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_work() or self._closed)
            if not self._has_work():
                return None
            data = bytes(self._waiting)
            self._waiting.clear()
            refused, self._refused = self._refused, 0
            self._busy = True
            return data, refused

    def _append(self, data: bytes, refused: int) -> None:
        """Write ``data`` between lines on how much is missing before and after it."""
        missing = b"\n[perftui: %d bytes of output are missing here]\n"
        note = missing % self._lost if self._lost else b""
        written = self._put(note + data)
        if written >= len(note):
            self._lost = 0
        self._lost += len(data) - max(written - len(note), 0) + refused
        if refused and written == len(note) + len(data):
            self._append(b"", 0)

    def _put(self, data: bytes) -> int:
        """Write ``data``; returns how many bytes the disk took."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._faults.report(self._path.name, f"{error.strerror}; the training goes on")
        return written


CHUNK = 1 << 16

QUIET = 0.1
"""Seconds without a byte after which a terminal is drained: the kernel passes on written bytes a
moment later, from a work queue."""

LONGEST = 1.0
"""Seconds to wait for that while processes that the script left behind go on writing."""

STOPPING = 0.5
"""Seconds a relay may take to stop; it cannot while its sink takes nothing."""

SETTLE, STOP = b"s", b"x"


class Relay:
    """Reads the descriptor ``source`` to its end in a thread, into ``log`` and ``sink``.

    ``source`` is always drained, whatever happens to the log. A ``sink`` that is slow slows the
    script down, as it would without us. When ``sink`` is closed by its reader, ``source`` is
    closed where ``pass_broken``, so that the script learns of it as it would without us;
    otherwise the script goes on into the log alone.
    """

    def __init__(
        self, source: int, log: OutputLog, sink: int | None = None, pass_broken: bool = False
    ) -> None:
        self.source = source
        self.sink = sink
        self._log = log
        self._pass_broken = pass_broken
        self._wake_read, self._wake_write = os.pipe()
        self.settled = threading.Event()
        self._is_left = False
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Set ``settled`` once the output of the ended script is through, though other processes
        may still hold its output, and write to it."""
        os.write(self._wake_write, SETTLE)

    def stop(self) -> bool:
        """Stop carrying. Returns whether others may still write to ``source``, which is then left
        open; False if the sink is too slow to stop at all."""
        os.write(self._wake_write, STOP)
        self._thread.join(STOPPING)
        return self._is_left

    def join(self) -> None:
        """Wait until nobody holds the other end of ``source`` any more."""
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        rest: _Rest | None = None
        while True:
            sources = [self.source, self._wake_read]
            ready, _, _ = select.select(sources, [], [], QUIET if rest else None)
            if self._wake_read in ready:
                if os.read(self._wake_read, 1) == STOP:
                    self._is_left = True
                    return
                rest = _Rest(self.source)
            elif self.source in ready:
                count = self._carry()
                if count is None:
                    break
                if rest is not None and rest.is_carried(count):
                    self.settled.set()
            elif rest is not None:
                self.settled.set()
                rest = None
        os.close(self.source)
        self.settled.set()

    def _carry(self) -> int | None:
        """Carry one chunk; returns its size in bytes, None at the end."""
        data = read_some(self.source)
        if not data:
            return 0 if data is None else None
        self._log.write(data)
        if self.sink is not None and not write_all(self.sink, data):
            self.sink = None
            if self._pass_broken:
                return None
        return len(data)


class _Rest:
    """Bytes in ``source`` when the script ended; later ones may come from other processes."""

    def __init__(self, source: int) -> None:
        self._bytes = int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder)
        self._until = time.monotonic() + LONGEST

    def is_carried(self, count: int) -> bool:
        """Whether all bytes that were waiting are through, after ``count`` more."""
        self._bytes -= count
        return self._bytes <= 0 and time.monotonic() > self._until


def read_some(source: int) -> bytes | None:
    """The next bytes, empty at the end, None where there are none yet."""
    try:
        return os.read(source, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        # EIO: every holder of the other side of the terminal is gone.
        return b""


def write_all(file: int, data: bytes) -> bool:
    """Write ``data``, waiting for a descriptor that is full; False where its reader is gone."""
    view = memoryview(data)
    try:
        while view:
            # Wait even for a descriptor that others made non-blocking.
            select.select([], [file], [])
            with suppress(BlockingIOError):
                view = view[os.write(file, view) :]
    except OSError:
        return False
    return True


NOWHERE = -1


def hand_over(relays: Sequence[Relay]) -> None:
    """Start a process that carries the rest of ``relays``; stops them here. Raises OSError if it
    cannot be started."""
    left = [relay for relay in relays if relay.stop()]
    if not left:
        return
    pairs = [f"{relay.source}:{NOWHERE if relay.sink is None else relay.sink}" for relay in left]
    carrier = subprocess.Popen(
        [*our_module("perftui.recorder.relay"), *pairs],
        stdin=subprocess.DEVNULL,
        pass_fds=[relay.source for relay in left],
    )
    reap(carrier)


def carry(sinks: dict[int, int]) -> None:
    """Carry each source to its sink until all have ended; a source whose sink is gone is closed."""
    while sinks:
        ready, _, _ = select.select(list(sinks), [], [])
        for source in ready:
            data = read_some(source)
            if data is None:
                continue
            if not data or (sinks[source] != NOWHERE and not write_all(sinks[source], data)):
                os.close(source)
                del sinks[source]


def main() -> None:
    """Carry between the pairs of descriptors ``source:sink`` in our arguments."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pairs = [argument.split(":") for argument in sys.argv[1:]]
    carry({int(source): int(sink) for source, sink in pairs})


if __name__ == "__main__":
    main()
