"""Lets py-spy read this process where Linux asks that to be declared."""

from __future__ import annotations

import ctypes

PR_SET_PTRACER = 0x59616D61


def declare(tracer: int) -> None:
    """Let the descendants of process ``tracer`` read this one's memory; nothing for 0.

    A child does not inherit it. Without Yama in the kernel the call fails, and nothing needs it.
    """
    if tracer:
        # torch has loaded ctypes already.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)
