"""Whether the training must declare who may read its memory."""

from __future__ import annotations

import os
from pathlib import Path

from perftui.recorder.stacks.pyspy import find_pyspy

SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
"""Linux' Yama, as Ubuntu sets it up: 1 lets a process be read by its ancestors alone, and by the
descendants of a process that it declares (``PR_SET_PTRACER``). py-spy is neither of itself. From 2
on only administrators may, whatever is declared."""

BY_DECLARATION = "1"


def tracer(looks: int) -> int:
    """The process to declare, which starts py-spy: this one; 0 where that changes nothing."""
    if not looks or _scope() != BY_DECLARATION or find_pyspy() is None:
        return 0
    return os.getpid()


def _scope() -> str:
    try:
        return SCOPE.read_text().strip()
    except OSError:
        # A kernel without Yama.
        return ""
