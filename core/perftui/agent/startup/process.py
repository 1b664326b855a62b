"""Facts about the training process."""

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

    The process group is asked first: processes that were spawned by hand have no variables.
    """
    local = _variable("LOCAL_RANK", 0)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank = int(distributed.get_rank())
        world = int(distributed.get_world_size())
        return {"rank": rank, "local_rank": local, "world_size": world}
    return {
        "rank": _variable("RANK", 0),
        "local_rank": local,
        "world_size": _variable("WORLD_SIZE", 1),
    }


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
        # Asking a CUDA that the script does not use would start it.
        "cuda_available": bool(torch.cuda.is_available()) if uses_cuda else None,
        "devices": _devices(torch) if uses_cuda else [],
        "argv0": sys.argv[0] if sys.argv else "",
        "threads": int(torch.get_num_threads()),
        "interop_threads": int(torch.get_num_interop_threads()),
    }


def _devices(torch: Any) -> list[str]:
    return [str(torch.cuda.get_device_name(n)) for n in range(torch.cuda.device_count())]


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def declare(tracer: int) -> None:
    """Let the descendants (py-spy) of process ``tracer`` read this one's memory; nothing for 0.

    A child does not inherit it. Without Yama in the kernel the call fails, and nothing needs it.
    """
    if tracer:
        # torch has loaded ctypes already.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)
