"""What the threads of a trace are for, by their names and by what they run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.once import once
from perftui.trace.model import NONE, PYTHON, Trace

MAIN = "main thread"
AUTOGRAD = "autograd"
PIN_MEMORY = "pin memory thread"
WORKER = "data loader worker"

_GIVEN = re.compile(r"(?:thread -?\d+(?: \((?P<name>.*)\))?|(?P<alone>pt_\w+|python[\d.]*|))$")
"""A name that nobody chose: the profiler's, with the one that the system knows the thread by."""
_MAIN_NAME = re.compile(r"python[\d.]*|pt_main_thread|")
_BY_NAME = (
    (re.compile(r"pt_autograd_\d+"), AUTOGRAD),
    (re.compile(r"pt_data_pin"), PIN_MEMORY),
    (re.compile(r"pt_data_worker"), WORKER),
    (re.compile(r"pt_nccl_watchdg"), "NCCL watchdog"),
    (re.compile(r"pt_nccl_heartbt"), "NCCL heartbeat"),
)
_BY_CALL: tuple[tuple[str, Callable[[str], object]], ...] = (
    (PIN_MEMORY, re.compile(r"aten::pin_memory|torch/utils/data/_utils/pin_memory\.py\(").match),
    (WORKER, re.compile(r"torch/utils/data/_utils/worker\.py\(\d+\): _worker_loop").match),
)


@once
def thread_roles(trace: Trace) -> Mapping[int, str]:
    """The role of threads, by their numbers in ``Trace.tracks``; without those that have a name of
    their own, and those of which nothing shows what they are for. Several of one role are numbered
    in order of their first event."""
    mains, by_work = _mains(trace), _by_work(trace)
    first: dict[int, int] = {}
    for number, track in enumerate(trace.tracks):
        given = None if track.is_device else _GIVEN.match(track.thread_name or "")
        rows = slice(*np.searchsorted(trace.track, (number, number + 1)).tolist())
        if given is not None and len(trace.start[rows]):
            first[number] = int(trace.start[rows].min())
    found: dict[int, str] = {}
    for number in sorted(first, key=lambda one: (first[one], one)):
        given = _GIVEN.match(trace.tracks[number].thread_name or "")
        name = ((given["name"] or given["alone"]) if given else None) or ""
        named = next((role for pattern, role in _BY_NAME if pattern.fullmatch(name)), None)
        if number in mains and _MAIN_NAME.fullmatch(name):
            found[number] = MAIN
        elif role := named or by_work.get(number):
            found[number] = role
    return _numbered(trace, found)


def _mains(trace: Trace) -> set[int]:
    """The thread that trains; of several ranks put together that of each with most work."""
    of_rank = np.array([track.rank for track in trace.tracks], dtype=np.int64)
    if np.all(of_rank == NONE):
        return {main_track(trace)}
    rows = np.flatnonzero(kinds.operators(trace) | kinds.launches(trace))
    work = np.bincount(trace.track[rows], trace.duration[rows] + 1.0, len(trace.tracks))
    return {int(np.argmax(np.where(of_rank == rank, work, -1))) for rank in np.unique(of_rank)}


def _by_work(trace: Trace) -> Mapping[int, str]:
    """The first role that an event of a thread shows."""
    found: dict[int, str] = {}
    host = kinds.operators(trace) | trace.in_category(PYTHON)
    rows = {AUTOGRAD: kinds.of_autograd(trace)}
    rows |= {role: host & kinds.named(trace, matches) for role, matches in _BY_CALL}
    for role, mask in rows.items():
        for number in np.unique(trace.track[mask]).tolist():
            found.setdefault(number, role)
    return found


def _numbered(trace: Trace, roles: Mapping[int, str]) -> Mapping[int, str]:
    """The roles by track, with a number appended where several threads of a rank share one."""
    owners = {number: (trace.tracks[number].rank, role) for number, role in roles.items()}
    counts, seen = Counter(owners.values()), Counter[tuple[int, str]]()
    found = {}
    for number, owner in owners.items():
        seen[owner] += 1
        found[number] = f"{owner[1]} {seen[owner]}" if counts[owner] > 1 else owner[1]
    return found
