"""Joins device activity to the call that launched it and to the operator that called that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.once import once
from perftui.analysis.ops.call_tree import innermost_operator
from perftui.trace.model import NONE, Int32, Int64, Ints, Mask, Trace


@dataclass(frozen=True, eq=False)
class Links:
    """Columns as long as ``activity``, the rows of kernels, copies and sets by start."""

    activity: Int64
    launch: Int64
    """Row of the launching call; many kernels of one graph launch share it. NONE if not there."""
    operator: Int64
    """Innermost operator around the launch, or by external id where the launch is not in the file;
    NONE if neither is."""


@once
def link(trace: Trace) -> Links:
    """Find launches by correlation id, operators by nesting or external id."""
    rows = np.flatnonzero(kinds.device_activity(trace))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    launch = matching(trace.correlation, rows, kinds.launches(trace))
    by_id = matching(trace.external_id, rows, kinds.operators(trace))
    operator = np.where(launch == NONE, NONE, innermost_operator(trace)[launch])
    return Links(rows, launch, np.where(operator == NONE, by_id, operator))


@once
def _launches(trace: Trace) -> Int32:
    links = link(trace)
    found = np.full(len(trace), NONE, dtype=np.int32)
    found[links.activity] = links.launch
    return found


def launch_of(trace: Trace, rows: Int64) -> Int64:
    """The call that launched each of ``rows``, NONE where the file does not hold it."""
    return _launches(trace)[rows].astype(np.int64)


def matching(key: Ints, rows: Int64, among: Mask) -> Int64:
    """For each of ``rows`` the first of those ``among`` that has its key, NONE without one."""
    candidates = np.flatnonzero(among & (key != NONE))
    if not len(candidates) or not len(rows):
        return np.full(len(rows), NONE, dtype=np.int64)
    ordered = candidates[np.argsort(key[candidates], kind="stable")]
    index = np.searchsorted(key[ordered], key[rows])
    found = ordered[np.minimum(index, len(ordered) - 1)]
    return np.where(key[found] == key[rows], found, NONE)


def shared_correlations(trace: Trace) -> int:
    """How many correlation ids calls of several processes share, as in files that were merged:
    which of them launched an activity is not known."""
    processes: dict[str, int] = {}
    of_track = [processes.setdefault(track.process, len(processes)) for track in trace.tracks]
    calls = np.flatnonzero(kinds.launches(trace) & (trace.correlation != NONE))
    process = np.array(of_track, dtype=np.int64)[trace.track[calls]]
    if not len(calls) or np.all(process == process[0]):
        return 0
    # Of calls in order of their ids, two neighbours with one id and two processes are enough.
    order = np.argsort(trace.correlation[calls], kind="stable")
    ids, process = trace.correlation[calls][order], process[order]
    shared = (ids[1:] == ids[:-1]) & (process[1:] != process[:-1])
    return len(np.unique(ids[1:][shared]))
