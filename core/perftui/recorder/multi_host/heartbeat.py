"""Gives the signs of life of this recorder, and finds those of others on this host."""

from __future__ import annotations

import glob
import time
from pathlib import Path

from msgspec.structs import replace

from perftui.run.heartbeat import BEAT_SECONDS, Beat, read_beat, write_beat
from perftui.run.layout import RunLayout

FRESH_SECONDS = 3 * BEAT_SECONDS


class Heartbeat:
    """Writes signs of life of the recorder of ``layout``."""

    def __init__(self, layout: RunLayout, host: str, pid: int, spool: Path) -> None:
        self._path = layout.heartbeat
        self._beat = Beat(0, 0, host, pid, str(spool))

    def beat(self) -> None:
        """Give a sign of life.

        Raises:
            OSError: the disk does not take it.
        """
        count = self._beat.count + 1
        self._beat = replace(self._beat, count=count, time_ns=time.time_ns())
        write_beat(self._path, self._beat)

    def end(self) -> None:
        """Give the last one: the training has ended.

        Raises:
            OSError: the disk does not take it.
        """
        self._beat = replace(self._beat, pid=None)
        self.beat()


def others_here(layout: RunLayout, host: str) -> list[Beat]:
    """The signs of life of the other recorders of the run on ``host``.

    One that is older than a few beats may name a process that is another by now. Of a run on many
    hosts only the directories of this one are looked into.
    """
    run = layout.run
    here = (RunLayout(path) for path in run.hosts.glob(f"{glob.escape(host)}-*"))
    found = (read_beat(one.heartbeat) for one in (run, *here) if one.root != layout.root)
    oldest = time.time_ns() - int(FRESH_SECONDS * 1e9)
    return [beat for beat in found if beat and beat.host == host and beat.time_ns > oldest]
