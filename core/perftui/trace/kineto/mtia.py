"""What an MTIA device does, which Kineto writes as events of one category."""

from __future__ import annotations

import re

import numpy as np

from perftui.trace.categories import KERNEL, MEMCPY, MTIA
from perftui.trace.columns.downcast import downcast
from perftui.trace.model import Int32, Ints

_KERNEL = re.compile(r".+-dtype_\w+")
"""``fc-dtype_Float``: an operator, and what it computes in. Other events are commands of the
firmware, as ``merge`` and ``event_wait``, of which some wait for others."""

_COPY = "dma_request"


def with_device_kernels(
    categories: tuple[str, ...], category: Ints, names: tuple[str, ...], name: Int32
) -> tuple[tuple[str, ...], Ints]:
    """``categories`` and the column of indices into them, with operators that the device runs as
    kernels, and its transfers beside them as copies; unchanged where there are none."""
    if MTIA not in categories:
        return categories, category
    is_kernel = np.array([_KERNEL.match(each) is not None for each in names])
    of_device = category == categories.index(MTIA)
    kernels = of_device & is_kernel[name]
    if not kernels.any():
        return categories, category
    copies = of_device & np.array([each == _COPY for each in names])[name]
    known = tuple(dict.fromkeys((*categories, KERNEL, MEMCPY)))
    told = np.where(kernels, known.index(KERNEL), category)
    return known, downcast(np.where(copies, known.index(MEMCPY), told).astype(np.int32))
