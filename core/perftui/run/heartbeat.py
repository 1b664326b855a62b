"""A sign of life of a recorder, for readers on other hosts, who cannot ask for its process.

Clocks of hosts differ and network disks show a file late, so no age is exact: whoever follows a run
goes by when the count changed on his own clock, whoever looks once by the more recent of the time
in the file and the time of the file, which are of two clocks as a rule.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import msgspec

from perftui.run.files import UnreadableError, decode_versioned, read_regular
from perftui.run.manifest import Manifest

SCHEMA = 1

BEAT_SECONDS = 5.0
"""Between two signs of life: each is one small write to what may be a slow network disk."""

QUIET_SECONDS = 60.0
"""Network disks show a change up to a minute late; until then silence means nothing."""

SILENT_SECONDS = 300.0
"""Recorders that have been silent for so long are believed to be gone, or cut off."""

_LENGTH = 512
"""Bytes of the file: it is written in place, since a file that was replaced is gone for those who
have it open on a network disk, and one write of the same length never shows half of two."""


class Beat(msgspec.Struct, frozen=True):
    """What a recorder writes about itself every few seconds."""

    count: int
    """Signs of life so far."""
    time_ns: int
    """Time of the beat on the recorder's clock, ns since the epoch."""
    host: str
    pid: int | None = None
    """The training it records; None once that has ended."""
    spool: str = ""
    """Where its agents hand over what they record, on its host."""
    schema: int = SCHEMA


def write_beat(path: Path, beat: Beat) -> None:
    """Write ``beat`` over what is there.

    The file is closed each time: only then a network disk shows it to others.

    Raises:
        OSError: the disk does not take it.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        content = msgspec.json.encode(beat).ljust(_LENGTH) + b"\n"
        os.write(file, content)
        os.ftruncate(file, len(content))
    finally:
        os.close(file)


def read_beat(path: Path) -> Beat | None:
    """The newest sign of life; None where there is none, or none that can be read now."""
    try:
        return decode_versioned(read_regular(path), Beat, SCHEMA, "a sign of life")
    except (OSError, UnreadableError):
        return None


def silent_seconds(path: Path, now_ns: int) -> float | None:
    """How long ago the recorder was last heard of, by one look; None where it never was.

    0 where a clock is ahead of ours.
    """
    beat = read_beat(path)
    if beat is None:
        return None
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        changed_ns = 0
    return max(now_ns - max(beat.time_ns, changed_ns), 0) / 1e9


class Hearing:
    """Follows one recorder; ``silent`` after each ``poll``."""

    def __init__(self, path: Path) -> None:
        self.silent: float | None = None
        """Seconds since it was last heard of; None where it never was."""
        self._path = path
        self._count: int | None = None
        self._heard: float | None = None
        """When the count was last seen to change, on our steady clock."""

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
    """Whether the run is recorded on another host, and not over by its manifest."""
    return not manifest.status.is_over and manifest.host != socket.gethostname()


def silence_note(manifest: Manifest, seconds: float | None) -> str | None:
    """The note on a recorder elsewhere that was last heard of ``seconds`` ago; None for none."""
    if seconds is None or seconds < QUIET_SECONDS:
        return None
    words = heard_label(seconds)
    return f"the recorder on {manifest.host} was {words}: it may have died, or its disk hangs"


def heard_label(seconds: float) -> str:
    """``last heard 3 s ago``, ``not heard of for 5 min``."""
    if seconds < QUIET_SECONDS:
        return f"last heard {seconds:.0f} s ago"
    return f"not heard of for {_long(seconds)}"


def _long(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
