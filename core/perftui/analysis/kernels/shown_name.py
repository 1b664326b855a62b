"""How events of a trace are called on screen."""

from __future__ import annotations

from perftui.analysis.kernels.short_name import short_name
from perftui.trace.categories import KERNEL
from perftui.trace.model import Trace


def shown_name(trace: Trace, row: int) -> str:
    """The name of an event of ``trace``, of a kernel the short one."""
    name = trace.name_of(row)
    is_kernel = trace.categories[int(trace.category[row])] == KERNEL
    return short_name(name) if is_kernel else name
