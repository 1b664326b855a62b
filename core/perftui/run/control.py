"""Files of the run through which viewers and the recorder communicate.

Requests go from a viewer to the recorder, one small file each. Signs of life are for readers on
other hosts, who cannot look for the recorder's process: clocks of hosts differ and network disks
show a file late, so no age is exact. A reader that follows a run goes by when the count changed on
its own clock; one that looks once by the more recent of the time in the file and the time of the
file, which usually come from two clocks."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from perftui.run.files import DAMAGE, open_regular, read_or_none, replace_file
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest

CAPTURE = "capture"
"""Profile a window now."""

ASK = "ask"
"""Record ``evidence``, the name of an option, in the next window that the overhead allows."""

STOP = "stop"
"""End the training: SIGINT, then SIGTERM, then SIGKILL. Asking again goes on at once. ``reason`` is
the value of a ``StopReason``."""

RESIZE = "resize"
"""Give the script's terminal ``rows`` and ``columns``."""

KINDS = (CAPTURE, ASK, STOP, RESIZE)


@dataclass(frozen=True)
class Request:
    """A request of a viewer."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


def request(layout: RunLayout, kind: str, **data: Any) -> Path:
    """Send the recorder of a run a request; returns at once, the recorder serves it soon.

    All but a size is requested from all recorders of the run.

    Raises:
        ValueError: there is no request of that kind.
        OSError: the run directory cannot be written.
    """
    if kind not in KINDS:
        raise ValueError(f"no request is called {kind!r}; there are {', '.join(KINDS)}")
    # Names sort by time, so that requests are served in the order in which they were made.
    if kind != RESIZE:
        for part in layout.parts():
            request(part, kind, **data)
    path = layout.control / f"{time.time_ns():020d}-{os.getpid()}-{kind}.json"
    replace_file(path, msgspec.json.encode(Request(kind, data)))
    return path


LARGEST = 1024 * 1024
"""Most bytes of a request; larger ones are damaged."""


def take_requests(layout: RunLayout) -> list[Request]:
    """Remove and return requests, oldest first; damaged files are only removed.

    A file that cannot be read or removed is skipped.

    Raises:
        OSError: the directory cannot be listed; the requests stay there.
    """
    paths = sorted(layout.control.glob("*.json"))
    return [request for path in paths if (request := _take(path)) is not None]


def _take(path: Path) -> Request | None:
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST)
        path.unlink()
        return msgspec.json.decode(content, type=Request)
    except (OSError, *DAMAGE):
        return None


BEAT_SCHEMA = 1

BEAT_SECONDS = 5.0
"""Seconds between signs of life: each is one small write, perhaps to a slow network disk."""

QUIET_SECONDS = 60.0
"""Network disks show a change up to a minute late; until then silence means nothing."""

SILENT_SECONDS = 300.0
"""Recorders that have been silent for so long are assumed to be gone, or cut off."""

_LENGTH = 512
"""Bytes of the file: it is written in place, since a replaced file is lost to readers that have it
open on a network disk, and one write of constant length never shows half of two."""


class Beat(msgspec.Struct, frozen=True):
    """A sign of life, which a recorder writes every few seconds."""

    count: int
    """Signs of life so far."""
    time_ns: int
    """Time of the beat on the recorder's clock, ns since the epoch."""
    host: str
    pid: int | None = None
    """Process of the recorded training; None once that has ended."""
    spool: str = ""
    """Spool of its agents, on its host."""
    schema: int = BEAT_SCHEMA


def write_beat(path: Path, beat: Beat) -> None:
    """Overwrite the file with ``beat``.

    The file is closed each time: only then a network disk shows it to others. Raises OSError if the
    disk does not take it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        content = msgspec.json.encode(beat).ljust(_LENGTH) + b"\n"
        os.write(file, content)
        os.ftruncate(file, len(content))
    finally:
        os.close(file)


def read_beat(path: Path) -> Beat | None:
    """The newest sign of life; None where there is none, or none that can be read now."""
    return read_or_none(path, Beat, BEAT_SCHEMA, "a sign of life")


def silent_seconds(path: Path, now_ns: int) -> float | None:
    """Seconds since the recorder's last sign of life, by one look; None if there was none.

    0 if another clock is ahead of ours."""
    beat = read_beat(path)
    if beat is None:
        return None
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        changed_ns = 0
    return max(now_ns - max(beat.time_ns, changed_ns), 0) / 1e9


class Hearing:
    """Follows the signs of life of one recorder; sets ``silent`` at each ``poll``."""

    def __init__(self, path: Path) -> None:
        self.silent: float | None = None
        """Seconds since its last sign of life; None if there was none."""
        self._path = path
        self._count: int | None = None
        self._heard: float | None = None
        """Time of the last change of the count, on our steady clock."""

    def poll(self) -> None:
        """Look again."""
        beat = read_beat(self._path)
        if beat is None:
            return
        now = time.monotonic()
        if self._count is None:
            self._heard = now - (silent_seconds(self._path, time.time_ns()) or 0.0)
        elif beat.count != self._count:
            self._heard = now
        self._count = beat.count
        self.silent = None if self._heard is None else now - self._heard


def is_elsewhere(manifest: Manifest) -> bool:
    """Whether the run is recorded on another host, and its manifest does not end it."""
    return not manifest.status.is_over and manifest.host != socket.gethostname()


def silence_note(manifest: Manifest, seconds: float | None) -> str | None:
    """The note on a remote recorder whose last sign of life is ``seconds`` old; None for none."""
    if seconds is None or seconds < QUIET_SECONDS:
        return None
    words = heard_label(seconds)
    return f"the recorder on {manifest.host} was {words}: it may have died, or its disk hangs"


def heard_label(seconds: float) -> str:
    """``last heard 3 s ago``, ``not heard of for 5 min``."""
    if seconds < QUIET_SECONDS:
        return f"last heard {seconds:.0f} s ago"
    if seconds < 5400:
        return f"not heard of for {seconds / 60:.0f} min"
    long = f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
    return f"not heard of for {long}"
