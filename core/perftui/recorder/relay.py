"""Carries the script's output to the log, and on to our own output where there is one."""

from __future__ import annotations

import os
import select
import threading

from perftui.recorder.output import OutputLog

CHUNK = 1 << 16

QUIET = 0.1
"""Seconds without a byte after which a terminal has nothing more to give: the kernel hands what
was written to it over a moment later, from a work queue."""


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
        self._source = source
        self._log = log
        self._sink = sink
        self._pass_broken = pass_broken
        self._wake_read, self._wake_write = os.pipe()
        self.settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Set ``settled`` once what the ended script wrote is through, though others may still
        hold its output."""
        os.write(self._wake_write, b"s")

    def join(self) -> None:
        """Wait until nobody holds the other end of ``source`` any more."""
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        settling = False
        while True:
            ready, _, _ = select.select(
                [self._source, self._wake_read], [], [], QUIET if settling else None
            )
            if self._source in ready:
                if not self._carry():
                    break
            elif self._wake_read in ready:
                os.read(self._wake_read, 1)
                settling = True
            elif settling:
                self.settled.set()
                settling = False
        os.close(self._source)
        self.settled.set()

    def _carry(self) -> bool:
        """Carry one chunk; False at the end."""
        try:
            data = os.read(self._source, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            # EIO: every holder of the other side of the terminal is gone.
            return False
        if data:
            self._log.write(data)
            if self._sink is not None and not write_all(self._sink, data):
                self._sink = None
                return not self._pass_broken
        return bool(data)


def write_all(file: int, data: bytes) -> bool:
    """Write ``data``, waiting for a descriptor that is full; False where its reader is gone."""
    view = memoryview(data)
    try:
        while view:
            # A descriptor that others made non-blocking is waited for all the same.
            select.select([], [file], [])
            view = view[_write_some(file, view) :]
    except OSError:
        return False
    return True


def _write_some(file: int, view: memoryview) -> int:
    try:
        return os.write(file, view)
    except BlockingIOError:
        return 0
