"""Where the data set of a run lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from perftui.telemetry.disk.open_files import files_read
from perftui.telemetry.files import PROC, link, read_or_empty
from perftui.telemetry.mounts import Mount, mount_holding, mounts_in
from perftui.telemetry.pace import Pace
from perftui.telemetry.processes.roles import Roles

EVERY_SECONDS, MOST_SHARE = 5.0, 0.001
"""Between two searches: files of a data set are often open for a moment only."""

OPEN_FILES = "files that the run reads"
DIRECTORY = "its working directory"


@dataclass(frozen=True)
class Place:
    """The file system that holds the data, and how that is known."""

    mount: Mount
    found_by: str
    """``OPEN_FILES`` or ``DIRECTORY``."""


class DataPlace:
    """Follows where the files lie that training processes and their workers read.

    The mount on which most were seen since the beginning is the one; until there is any, that of
    the working directory of ``pid``.
    """

    def __init__(self, pid: int, roles: Callable[[], Roles], proc: str = PROC) -> None:
        self._pid = pid
        self._roles = roles
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._seen: Counter[Mount] = Counter()
        self.found: Place | None = None
        """As of the last search."""

    def search(self, now: float) -> Place | None:
        """Where it lies, looked for anew where that is due."""
        if self._pace.is_due(now):
            with self._pace.reading(now):
                self.found = self._search() or self.found
        return self.found

    def _search(self) -> Place | None:
        mounts = mounts_in(read_or_empty(f"{self._proc}/{self._pid}/mountinfo"))
        roles = self._roles()
        for pid in roles.ranks | roles.workers or {self._pid}:
            for path in files_read(pid, self._proc):
                mount = mount_holding(path, mounts)
                if mount is not None:
                    self._seen[mount] += 1
        if self._seen:
            return Place(self._seen.most_common(1)[0][0], OPEN_FILES)
        directory = link(f"{self._proc}/{self._pid}/cwd")
        mount = mount_holding(directory, mounts) if directory else None
        return None if mount is None else Place(mount, DIRECTORY)
