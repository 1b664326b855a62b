"""The compiled inner loops, where the installation has them: the C files beside this one."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.model import MEMORY_COLUMNS, Int32, Int64, Trace

VERSION = 15
"""Version of the library that fits this file: one compiled from an older source is not used."""

Mask = npt.NDArray[np.bool_]

_LIBRARY = Path(__file__).with_name("_native.so")

_I64 = np.ctypeslib.ndpointer(np.int64, flags="C")
_I32 = np.ctypeslib.ndpointer(np.int32, flags="C")
_U8 = np.ctypeslib.ndpointer(np.uint8, flags="C")


class Output(ctypes.Structure):
    """Columns that ``perftui_scan`` fills, with space for ``room`` rows, and its counts."""

    WIDE = ("start", "duration", "correlation", "external_id", "bytes")
    NARROW = ("name", "category", "track", "begin", "stop", "metadata_begin", "metadata_stop")
    MEMORY = tuple(f"memory_{name}" for name in MEMORY_COLUMNS)
    COUNTS = ("room", "rows", "metadata", "memory", "events", "complete")
    _fields_ = (
        *((name, ctypes.c_void_p) for name in (*WIDE, *NARROW, *MEMORY)),
        *((name, ctypes.c_int64) for name in COUNTS),
    )


class Sums(ctypes.Structure):
    """Columns by name that ``perftui_calls`` fills."""

    NAMES = ("calls", "cpu_total", "cpu_self", "device_total", "device_self", "first_row")
    _fields_ = tuple((name, ctypes.c_void_p) for name in NAMES)


class Blocks(ctypes.Structure):
    """Largest values of blocks of many widths, arranged as by ``timeline.longest``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("shift", "n_levels")),
        *((name, ctypes.c_void_p) for name in ("values", "maxima", "places", "levels")),
    )

    def __init__(
        self, shift: int, values: Int64, maxima: Int64, places: Int64, levels: Int64
    ) -> None:
        columns = [np.ascontiguousarray(column) for column in (values, maxima, places, levels)]
        super().__init__(shift, len(levels), *[column.ctypes.data for column in columns])
        self._kept_alive = columns


_SCANNER = ctypes.c_void_p
_COUNT = ctypes.c_int64
_NUMBER = ctypes.c_int32

_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "sweep": (_COUNT, _COUNT, _NUMBER, _I64, _I64, _U8, _U8, _I32, _I32),
    "dominant": (None, ctypes.POINTER(Blocks), _COUNT, _I64, _I64, _COUNT, _I64, _I64),
    "by_track": (None, _COUNT, _I32, _I64, _I64, _COUNT, _I64, _I32, _I32, _U8),
    "sort": (None, _COUNT, _I64, _I64, _I32, _I32),
    "innermost": (None, _COUNT, _I32, _U8, _I32),
    "calls": (_NUMBER, _COUNT, _I64, _I64, _I32, _COUNT, _I32, _I32, _I64, ctypes.POINTER(Sums)),
    "called": (_COUNT, _COUNT, _I64, _I32, _I32, _U8, _I32, _I64, _I32, _I64),
    "scanner_open": (_SCANNER,),
    "scanner_close": (None, _SCANNER),
    "scanner_count": (_COUNT, _SCANNER, _NUMBER),
    "scanner_text": (ctypes.c_void_p, _SCANNER, _NUMBER, _COUNT, ctypes.POINTER(_COUNT)),
    "scan": (_NUMBER, _SCANNER, ctypes.c_char_p, _COUNT, ctypes.POINTER(Output)),
}
"""Result and argument types of each function."""


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled library; None if there is none and Python does the work."""
    try:
        loaded = ctypes.CDLL(str(_LIBRARY))
    except OSError:
        return None
    if loaded.perftui_native_version() != VERSION:
        return None
    for name, (gives, *takes) in _SIGNATURES.items():
        function = getattr(loaded, f"perftui_{name}")
        function.restype, function.argtypes = gives, takes
    return loaded


def sweep(
    compiled: ctypes.CDLL,
    columns: tuple[Int64, Int64, Mask],
    outside: npt.NDArray[np.uint8],
    first: int,
    nesting: tuple[Int32, Int32],
) -> None:
    """Fill parent and depth of the rows of one track, of which the first is row ``first``.

    ``columns`` are start, duration, and whether a row is a range; rows to be taken out become 2 in
    ``outside``.
    """
    start, duration, is_range = (np.ascontiguousarray(column) for column in columns)
    ranges = is_range.view(np.uint8)
    rows = len(start), first, start, duration, ranges, outside
    if compiled.perftui_sweep(*rows, *nesting) < 0:
        raise MemoryError


def dominant(
    compiled: ctypes.CDLL, blocks: Blocks, start: Int64, end: Int64, times: Int64
) -> Int64:
    """The event that covers most between each of ``times`` and the next, -1 for none.

    Events are ordered by start and do not overlap; ``blocks`` are those of their durations.
    """
    result = np.empty(len(times) - 1, dtype=np.int64)
    events = np.ascontiguousarray(start), np.ascontiguousarray(end)
    compiled.perftui_dominant(blocks, len(start), *events, len(result), times, result)
    return result


def by_track(
    compiled: ctypes.CDLL, track: Int32, start: Int64, duration: Int64
) -> tuple[Int32, Int64, Mask]:
    """Rows by track, in file order within each; where each track begins among them; and which
    tracks are not in order of (start, longest first)."""
    counts = np.bincount(track)
    begins = np.cumsum(counts) - counts
    rows = np.empty(len(track), dtype=np.int32)
    last, mixed = np.empty(len(counts), dtype=np.int32), np.empty(len(counts), dtype=np.uint8)
    columns = [np.ascontiguousarray(column) for column in (track, start, duration)]
    compiled.perftui_by_track(len(track), *columns, len(counts), begins.copy(), rows, last, mixed)
    return rows, begins, mixed.view(np.bool_)


def sort(compiled: ctypes.CDLL, rows: Int32, start: Int64, duration: Int64) -> None:
    """Sort ``rows`` by start, the longest first; stable."""
    times = np.ascontiguousarray(start), np.ascontiguousarray(duration)
    compiled.perftui_sort(len(rows), *times, rows, np.empty(len(rows), dtype=np.int32))


def innermost(compiled: ctypes.CDLL, parent: Int32, wanted: Mask) -> Int32:
    """The nearest wanted row among each row and its callers, -1 for none."""
    result = np.empty(len(parent), dtype=np.int32)
    compiled.perftui_innermost(len(parent), parent, wanted.view(np.uint8), result)
    return result


def called(
    compiled: ctypes.CDLL, trace: Trace, around: Int32, chosen: Mask
) -> tuple[Int64, Int32, Int64]:
    """The ``chosen`` rows, the position of each one's caller among them (-1 for none), and the self
    time of each; ``around`` is ``innermost`` of rows that include them all."""
    count = int(np.count_nonzero(chosen))
    rows, own = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    caller, position = np.empty(count, dtype=np.int32), np.empty(len(trace), dtype=np.int32)
    columns = trace.duration, trace.parent, around, chosen.view(np.uint8)
    compiled.perftui_called(len(trace), *columns, position, rows, caller, own)
    return rows, caller, own


def sums_by_name(
    compiled: ctypes.CDLL, trace: Trace, around: Int32, device: Int64
) -> dict[str, Int64]:
    """``Sums`` by name, over the rows that are their own innermost in ``around``."""
    columns = {name: np.zeros(len(trace.names), dtype=np.int64) for name in Sums.NAMES}
    sums = Sums(*[column.ctypes.data for column in columns.values()])
    if not compiled.perftui_calls(
        len(trace), trace.start, trace.duration, trace.name, len(trace.names), trace.parent, around,
        device, sums,
    ):  # fmt: skip
        raise MemoryError
    return columns
