"""Processes by ``/proc``, with as few system calls as it takes: a run may have hundreds."""

from __future__ import annotations

import os
from operator import itemgetter

from perftui.telemetry.files import PROC, count_of, exists, names_in, numbers, read_or_empty, record
from perftui.telemetry.processes.reading import ProcessReading

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

_STATE, _MAJOR_FAULTS, _USER, _SYSTEM, _THREADS, _STARTED, _RSS = 0, 9, 11, 12, 17, 19, 21
"""Places of ``/proc/<pid>/stat`` after the name, which may hold anything (proc_pid_stat(5))."""

_COUNTS = itemgetter(_MAJOR_FAULTS, _USER, _SYSTEM, _THREADS, _STARTED, _RSS)

_ENDED = (b"Z", b"X", b"x")


class Proc:
    """The processes below ``root``."""

    def __init__(self, root: str = PROC) -> None:
        self._root = root

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended."""
        place = f"{self._root}/{pid}"
        words = record(f"{place}/stat").rpartition(b")")[2].split()
        if len(words) <= _RSS or words[_STATE] in _ENDED:
            return None
        found = numbers(_COUNTS(words))
        if found is None:
            return None
        faults, user, system, threads, started, pages = found
        status, io = record(f"{place}/status"), record(f"{place}/io")
        return ProcessReading(
            pid,
            started,
            (user + system) / _TICKS,
            pages * _PAGE,
            threads,
            count_of(b"\nvoluntary_ctxt_switches:", status),
            count_of(b"\nnonvoluntary_ctxt_switches:", status),
            count_of(b"\nread_bytes:", io),
            count_of(b"\nwrite_bytes:", io),
            faults,
        )

    def below(self, pid: int) -> list[int]:
        """By the kernel's own lists: these cost by the size of the tree, while a walk over all
        processes costs by the size of the machine (17 us against 1 ms and more)."""
        found = {pid: None}
        waiting = [pid]
        while waiting:
            # A number may be given to another while this goes on.
            children = [one for one in self._children(waiting.pop()) if one not in found]
            found.update(dict.fromkeys(children))
            waiting += children
        return [*found][1:]

    def _children(self, pid: int) -> list[int]:
        """Processes that any thread of ``pid`` has started."""
        place = f"{self._root}/{pid}/task"
        lists = (read_or_empty(f"{place}/{task}/children").split() for task in names_in(place))
        return [child for words in lists for child in numbers(words) or ()]


def has_process_lists(root: str = PROC) -> bool:
    """Whether the kernel lists the children of a thread (built in since Linux 4.2, mostly)."""
    pid = os.getpid()
    return exists(f"{root}/{pid}/task/{pid}/children")
