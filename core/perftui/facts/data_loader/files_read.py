"""What workers read, in words, and whether it was for the first time."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_use import WorkerUse, worker_rows, worker_use
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.step.steps import steady_rows

REMOTE = (
    "nfs",
    "cifs",
    "smb",
    "fuse",
    "lustre",
    "ceph",
    "gpfs",
    "beegfs",
    "9p",
    "afs",
    "glusterfs",
)
"""How the names of file systems begin that are, or may be, on another machine."""

LOCAL_SCHEMES = ("file",)

SMALL_READ = 64 * 1024
MANY_READS = 500.0
"""Bytes of a read and reads a second that mark many small files; datapath-doctor's."""

READS = 1e6
"""Bytes a second from storage, from which on workers count as reading."""

PAGE_FAULTS = 100.0
"""A second, from which on memory is too small for what is mapped or held."""

COLD = 3.0
"""Times as much is read in the first third than in the last where files are read for the first
time; gpuprof's."""

WARM_WAIT = 0.10
"""Share of the step that the last third waits at most, where the wait was about a cold cache."""


@fact
def reading(facts: Facts) -> str:
    """What the workers wait for while they make batches: the end of a sentence,
    with the disk or mount and the read rate where known."""
    use, feeds = worker_use(facts), training_loader(facts)
    where = _where(feeds)
    if use.faults >= PAGE_FAULTS and use.read >= READS:
        return f"for pages that do not fit in memory ({fmt.size(use.read)} a second){where}"
    if use.read >= READS:
        return f"for the disk{where}: {fmt.size(use.read)} a second{_small(use)}"
    if _is_remote(feeds):
        return f"for files of another machine{where}{_small(use)}"
    if _is_small(use):
        return f"for files{where}{_small(use)}"
    return f"for a network, a lock or a clock{where} instead of computing"


def _is_remote(feeds: LoaderFacts | None) -> bool:
    kind = (feeds.filesystem if feeds else None) or ""
    mounted = feeds is not None and feeds.mount is not None
    return kind.startswith(REMOTE) if mounted else bool(kind) and kind not in LOCAL_SCHEMES


def _where(feeds: LoaderFacts | None) -> str:
    if feeds is None or not feeds.filesystem:
        return ""
    place = feeds.mount or feeds.path
    return f" ({feeds.filesystem} at {place})"


def _is_small(use: WorkerUse) -> bool:
    small = use.mean_read is not None and use.mean_read < SMALL_READ
    return small and use.reads >= MANY_READS


def _small(use: WorkerUse) -> str:
    if not _is_small(use) or use.mean_read is None:
        return ""
    return f", {use.reads:.0f} reads of {fmt.size(use.mean_read)} a second"


@fact
def is_first_reading(facts: Facts) -> bool:
    """Whether files were read for the first time, and later steps hardly wait: no fault of the
    training's."""
    try:
        rows = worker_rows(facts)
    except UnknownError:
        return False
    steps = steady_rows(facts)
    if "read" not in rows or len(rows) < 6 or len(steps) < 6:
        return False
    ordered = np.argsort(rows["time"], kind="stable")
    third = len(ordered) // 3
    first, last = (int(rows["read"][part].sum()) for part in (ordered[:third], ordered[-third:]))
    late = slice(-(len(steps) // 3), None)
    whole = int(steps["duration"][late].sum())
    waits = int(steps["input_wait"][late].sum())
    return first >= READS and first >= COLD * last and waits < WARM_WAIT * whole
