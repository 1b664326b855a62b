"""The compiled inner loop, where the installation has it: the C file beside this one."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perftui.trace.model import Int32, Int64, Mask

VERSION = 15
"""Version of the library that fits this file: one compiled from an older source is not used."""

_LIBRARY = Path(__file__).with_name("_native.so")

_I64 = np.ctypeslib.ndpointer(np.int64, flags="C")
_I32 = np.ctypeslib.ndpointer(np.int32, flags="C")
_U8 = np.ctypeslib.ndpointer(np.uint8, flags="C")


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled library; None if there is none and Python does the work."""
    try:
        loaded = ctypes.CDLL(str(_LIBRARY))
    except OSError:
        return None
    if loaded.perftui_native_version() != VERSION:
        return None
    function = loaded.perftui_sweep
    function.restype = ctypes.c_int64
    function.argtypes = (ctypes.c_int64, ctypes.c_int32, _I64, _I64, _U8, _U8, _I32, _I32)
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
