"""The columnar form of all trace formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Ints = npt.NDArray[np.signedinteger[Any]]
Mask = npt.NDArray[np.bool_]
"""Integers of any width: not to be added or multiplied without widening."""

NONE = -1
"""Stands for "absent" in every integer column (no correlation, no stream, no parent...)."""

NOT_READ = "perftui.notRead"
"""Key of a trace's metadata: by name, the number of rows in each table of the file that is not
read, or a word if they cannot be counted."""


def no_arguments(row: int) -> Mapping[str, Any]:  # noqa: ARG001 - the signature of a reader
    """Arguments of a trace without a file: none."""
    return {}


@dataclass(frozen=True)
class Track:
    """A row of the trace file: one thread of one process, or one stream of one device.

    ``process`` and ``thread`` are the file's own ids as text, since files use both numbers and
    words. ``device`` and ``stream`` are set where the track holds GPU activity.
    """

    process: str
    thread: str
    process_name: str = ""
    thread_name: str = ""
    device: int = NONE
    stream: int = NONE
    rank: int = NONE
    """Its rank, if traces of several ranks were combined."""
    own_device: int = NONE
    """The rank's own number of the device, if ``rank`` is set."""

    @property
    def is_device(self) -> bool:
        """Whether kernels and copies run here."""
        return self.device != NONE


@dataclass(frozen=True)
class LoadWarning:
    """Which part could not be read, in words with its place, and where (byte offset, inflated)."""

    message: str
    offset: int | None = None
    is_cut: bool = False
    """Whether the file goes on no further: what is behind that place is not known."""


def _none() -> Int64:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """Actions of PyTorch's allocators, in order of time, as ``profile_memory`` records them.

    Every column is as long as ``start``. NONE stands for a value missing in the file.
    """

    start: Int64 = field(default_factory=_none)
    """ns since the trace's origin."""
    change: Int64 = field(default_factory=_none)
    """Bytes, below zero for a release."""
    device_type: Int64 = field(default_factory=_none)
    """0 the CPU, 1 CUDA, as PyTorch numbers them."""
    device: Int64 = field(default_factory=_none)
    allocated: Int64 = field(default_factory=_none)
    """Bytes in use on that device afterwards."""
    reserved: Int64 = field(default_factory=_none)
    """Bytes that the caching allocator holds afterwards."""
    address: Int64 = field(default_factory=_none)
    """Address of the block: a release has that of its allocation."""
    track: Int64 = field(default_factory=_none)
    """Index into ``Trace.tracks`` of the acting thread, NONE if that has no rows."""

    def __len__(self) -> int:
        return len(self.start)


MEMORY_COLUMNS = tuple(each.name for each in fields(MemoryEvents))


@dataclass(frozen=True, eq=False)
class Trace:
    """Events with a duration, ordered by (track, start, longest first, file order).

    All columns have the same length. Times are exact integer nanoseconds: ``start`` since
    ``origin``, ``duration`` >= 0. ``depth`` and ``parent`` (a row index) nest the rows of one
    track; rows outside the call stack (async ranges) have parent NONE and depth 0.
    """

    path: Path
    start: Int64
    duration: Int64
    name: Int32
    """Index into ``names``."""
    category: Ints
    """Index into ``categories``."""
    track: Ints
    """Index into ``tracks``."""
    correlation: Ints
    """Joins a launch on the CPU to its activity on the device."""
    external_id: Ints
    """Joins device activity to the operator that caused it."""
    bytes: Ints
    """Size of copies and sets."""
    parent: Int32
    depth: Ints
    names: tuple[str, ...]
    categories: tuple[str, ...]
    """Lower-cased, legacy spellings mapped to today's (``cpu_op``, ``kernel``, ...)."""
    tracks: tuple[Track, ...]
    origin: int
    """Nanoseconds to add to ``start`` for the file's absolute time."""
    wall_origin: int | None
    """Wall-clock nanoseconds since the epoch at ``start`` 0; None if the file lacks it."""
    complete_events: int = 0
    """Events with a duration in the file, including spans of the recording, which are no rows."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """``deviceProperties``, ``distributedInfo`` and the file's other top-level fields."""
    warnings: tuple[LoadWarning, ...] = ()
    read_arguments: Callable[[int], Mapping[str, Any]] = no_arguments
    """Arguments of one row, read from the file on demand."""
    memory: MemoryEvents = field(default_factory=MemoryEvents)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def is_cut(self) -> bool:
        """Whether the end of the file is missing: kernels stand behind what launched them."""
        return any(warning.is_cut for warning in self.warnings)

    @property
    def end(self) -> Int64:
        """Start plus duration."""
        return self.start + self.duration

    def ends_of(self, rows: Ints | npt.NDArray[np.bool_] | slice) -> Int64:
        """``end`` of some rows, without computing that of all."""
        return self.start[rows] + self.duration[rows]

    def in_category(self, *categories: str) -> npt.NDArray[np.bool_]:
        """Mask of the rows whose category is one of ``categories``."""
        chosen = np.zeros(len(self), dtype=bool)
        for number, name in enumerate(self.categories):
            if name in categories:
                # Looking up answers in a table by number takes six times as long.
                chosen |= self.category == number
        return chosen

    def name_of(self, row: int) -> str:
        """Name of one event."""
        return self.names[int(self.name[row])]


class TraceError(ValueError):
    """The file cannot be read as a trace; the message says why and what to do."""


class LoadCancelled(Exception):  # noqa: N818 - an outcome that was asked for, not an error
    """Loading stopped because the caller asked it to."""


Progress = Callable[[int, int], None]
"""Called with the bytes read so far and in all, as they are on disk."""


def as_share(tell: Callable[[float], object]) -> Progress:
    """What tells the share that was read, 0 to 1."""

    def progressed(read: int, whole: int) -> None:
        tell(read / whole if whole else 1.0)

    return progressed


Cancelled = Callable[[], bool]
"""Returns whether to stop."""

Preview = Callable[[Trace], None]
"""Called with the trace of the rows read so far."""

Loader = Callable[[Path, Progress | None, Cancelled | None, Preview | None], Trace]
"""Reads a file of one format."""

FIRST_PREVIEW = 64_000
"""Rows of the first preview: read in 0.1 to 0.2 s, and more than a screen can distinguish."""

PREVIEW_GROWTH = 8
"""Growth in rows from one preview to the next: all of them cost a seventh of the last."""


KERNEL = "kernel"
MEMCPY = "gpu_memcpy"
MEMSET = "gpu_memset"
CPU_OP = "cpu_op"
PYTHON = "python_function"
ANNOTATION = "user_annotation"
DEVICE_ANNOTATION = "gpu_user_annotation"
SPAN = "trace"
"""The recording itself as an event, as long as the file; no activity."""

STEP, PHASE = "training step", "training phase"
DERIVED = (STEP, PHASE)
"""Results of analysis, drawn beside the rows they come from; no file holds them."""

DEVICE_ACTIVITY = (KERNEL, MEMCPY, MEMSET)
"""Activity that keeps a device busy."""

MTIA = "mtia_ccp_events"
"""Any activity of an MTIA device."""

ON_DEVICE = (*DEVICE_ACTIVITY, DEVICE_ANNOTATION, "cuda_sync", "cuda_event", MTIA)
"""Everything on a device's tracks."""

LAUNCHES = (
    *("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "xpu_driver"),
    *("mtia_runtime", "glow_runtime", "hpu_op", "privateuse1_runtime", "privateuse1_driver"),
)
"""Calls on the CPU whose correlation id device activity carries; of Kineto's activity types
(``ActivityType.h``) those of runtime and driver. Calls of HIP are ``cuda_runtime``."""

XPU_WAIT = "xpu_sync"
"""Waits of the host for an Intel GPU, beside the calls that contain them, and barriers on it."""

RANGES = (
    *(ANNOTATION, DEVICE_ANNOTATION, XPU_WAIT, "cuda_sync", "cuda_event", MTIA),
    *("collective_comm", "overhead"),
)
"""Ranges that are not calls: they may overlap calls partially, and then leave the call stack."""

OF_PYTORCH = frozenset((CPU_OP, PYTHON, *DEVICE_ACTIVITY, *LAUNCHES, *RANGES))
"""Without any of these, a file is a trace of something else."""

_LEGACY = {"operator": CPU_OP, "runtime": "cuda_runtime", "python": PYTHON}
_LEGACY |= {"memcpy": MEMCPY, "memset": MEMSET}

_BY_PROCESS = {"CPU functions": CPU_OP, "CUDA functions": KERNEL}
"""The first autograd profiler wrote no category but named its two processes like this."""


@lru_cache(1024)
def normalise(category: str | None, process: str) -> str:
    """Current name of a category, in lower case; by the process if the file names none."""
    if category is None:
        return _BY_PROCESS.get(process, "")
    lowered = category.lower()
    return _LEGACY.get(lowered, lowered)
