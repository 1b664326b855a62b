"""Lets a forked child go on, and end, where its parent had used Kineto or CUDA."""

from __future__ import annotations

import ctypes
from typing import Any


def never_destroy(thing: Any) -> None:
    """Keep ``thing``, and all it refers to, past the end of the interpreter.

    CUDA cannot be used in a forked child: the destructor of an event asks for its device there and
    aborts the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def leave_without_destructors() -> None:
    """End this process, when it exits, before the destructors of its C++ libraries run.

    Kineto keeps a thread once it has been used. A child has no such thread but inherits the
    condition variable it waits on, and Kineto's destructor waits for that waiter for ever. By
    then Python has finalised and all streams are flushed; children of multiprocessing skip the
    destructors too. Only glibc can register this; elsewhere nothing is done.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit") or not hasattr(libc, "__cxa_atexit"):
        return
    # Handlers run in reverse: flush every C stream, then ``_exit`` with the status.
    libc.on_exit(libc._exit, None)
    libc.__cxa_atexit(libc.fflush, None, None)
