"""The compiled inner loops, where the installation has them: the C files beside this one."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.model import MEMORY_COLUMNS, Int32, Int64, Mask

VERSION = 15
"""Version of the library that fits this file: one compiled from an older source is not used."""

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


_SCANNER = ctypes.c_void_p
_COUNT = ctypes.c_int64
_NUMBER = ctypes.c_int32

_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "sweep": (_COUNT, _COUNT, _NUMBER, _I64, _I64, _U8, _U8, _I32, _I32),
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
    rows = len(start), first, start, duration, is_range.view(np.uint8), outside
    if compiled.perftui_sweep(*rows, *nesting) < 0:
        raise MemoryError
