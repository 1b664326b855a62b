"""Files of the data set: those that a process holds open for reading."""

from __future__ import annotations

import os
import re

from perftui.telemetry.files import PROC, link, names_in, read_or_empty

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/", "/etc/")

_PACKAGES = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3")

_FLAGS = re.compile(rb"^flags:\s*([0-7]+)", re.MULTILINE)

_STANDARD = ("0", "1", "2")


def files_read(pid: int, proc: str = PROC) -> list[str]:
    """Paths of regular files that ``pid`` has open for reading only, outside the system's own
    directories and the installation of its interpreter.

    No file system is asked: one on a network that is gone would not answer.
    """
    place = f"{proc}/{pid}"
    installation = _installation(link(f"{place}/exe"))
    found = []
    for file in names_in(f"{place}/fd"):
        path = link(f"{place}/fd/{file}") if file not in _STANDARD else ""
        if not path.startswith("/") or path.startswith(_SYSTEM) or path.endswith(" (deleted)"):
            # A pipe or a socket, or nothing that holds a data set.
            continue
        if _PACKAGES.search(path) or (installation and path.startswith(installation)):
            continue
        if _is_read_only(read_or_empty(f"{place}/fdinfo/{file}")):
            found.append(path)
    return found


def _installation(executable: str) -> str:
    """The directory above ``bin`` of an interpreter; empty if that is the root."""
    directory, _, _ = executable.rpartition("/bin/")
    return f"{directory}/" if directory else ""


def _is_read_only(fdinfo: bytes) -> bool:
    """Whether these flags (proc_pid_fdinfo(5)) are those of a file open for reading only, and of
    no directory."""
    flags = _FLAGS.search(fdinfo)
    if flags is None:
        return False
    bits = int(flags[1], 8)
    return bits & os.O_ACCMODE == os.O_RDONLY and not bits & (os.O_DIRECTORY | os.O_PATH)
