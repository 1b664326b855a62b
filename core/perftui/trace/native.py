"""The compiled inner loops, where the installation has them: ``native.c`` beside this file."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perftui.trace.model import Int32, Int64

VERSION = 1
"""Of the library that fits this file: one that was compiled from an older source is not used."""

_LIBRARY = Path(__file__).with_name("_native.so")

_I64 = np.ctypeslib.ndpointer(np.int64, flags="C")
_I32 = np.ctypeslib.ndpointer(np.int32, flags="C")
_U8 = np.ctypeslib.ndpointer(np.uint8, flags="C")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where there is none, and Python does its work."""
    try:
        loaded = ctypes.CDLL(str(_LIBRARY))
    except OSError:
        return None
    if loaded.perftui_native_version() != VERSION:
        return None
    loaded.perftui_sweep.restype = ctypes.c_int64
    loaded.perftui_sweep.argtypes = [ctypes.c_int64, _I64, _I64, _U8, _U8, _I32, _I32]
    return loaded


def sweep(
    compiled: ctypes.CDLL,
    start: Int64,
    end: Int64,
    is_range: npt.NDArray[np.bool_],
    outside: npt.NDArray[np.uint8],
) -> tuple[Int32, Int32]:
    """Parent and depth of the rows of one track; rows to be taken out become 2 in ``outside``."""
    parent = np.empty(len(start), dtype=np.int32)
    depth = np.empty(len(start), dtype=np.int32)
    columns = np.ascontiguousarray(start), np.ascontiguousarray(end)
    ranges = np.ascontiguousarray(is_range).view(np.uint8)
    found = compiled.perftui_sweep(len(start), *columns, ranges, outside, parent, depth)
    if found < 0:
        raise MemoryError
    return parent, depth
