"""The training process: facts about it, who may read its memory, how a forked child ends."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import sys
from typing import Any

PR_SET_PTRACER = 0x59616D61


def ranks() -> dict[str, int]:
    """``rank``, ``local_rank`` and ``world_size``; 0, 0 and 1 where nothing is distributed.

    The process group is asked first: processes spawned by hand lack the variables.
    """
    rank, world = _variable("RANK", 0), _variable("WORLD_SIZE", 1)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
    return {"rank": rank, "local_rank": _variable("LOCAL_RANK", 0), "world_size": world}


def process_facts(torch: Any) -> dict[str, Any]:
    """Data of a ``process`` note."""
    uses_cuda = bool(torch.cuda.is_initialized())
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        **ranks(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        # Asking CUDA starts it where the script does not use it.
        "cuda_available": bool(torch.cuda.is_available()) if uses_cuda else None,
        "devices": [
            str(torch.cuda.get_device_name(n))
            for n in range(torch.cuda.device_count() if uses_cuda else 0)
        ],
        "argv0": sys.argv[0] if sys.argv else "",
        "threads": int(torch.get_num_threads()),
        "interop_threads": int(torch.get_num_interop_threads()),
    }


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def declare(tracer: int) -> None:
    """Let the descendants (py-spy) of process ``tracer`` read this process's memory; 0 for nobody.

    Children do not inherit this. Without Yama in the kernel the call fails and is not needed.
    """
    if tracer:
        # torch has loaded ctypes already.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)


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
