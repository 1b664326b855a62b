"""Everything of the ``settings`` note.

Reading must change nothing: no CUDA is initialised, nothing is imported, no object kept alive.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..hooks.call_site import CallSite
from ..safety.signal_handlers import attempt
from .call_places import call_places
from .flags import (
    attention,
    build,
    cudnn,
    devices,
    dynamo,
    matmul,
    mkldnn,
    modes,
    threads,
)
from .model import all_modules, is_compiled, optimizer_settings, parameters, wrappers

VARIABLES = frozenset(
    {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "OMP_WAIT_POLICY",
        "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY",
        "KMP_BLOCKTIME",
        "ATEN_CPU_CAPABILITY",
        "ONEDNN_MAX_CPU_ISA",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_LOGS",
        "TORCH_SHOW_CPP_STACKTRACES",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "NCCL_DEBUG",
        "NCCL_P2P_DISABLE",
        "NCCL_IB_DISABLE",
        "TORCH_DISTRIBUTED_DEBUG",
        "CUBLAS_WORKSPACE_CONFIG",
        "TORCH_CUDA_SANITIZER",
        "PYTHONDEVMODE",
        "PYTHONMALLOC",
        "PYTHONTRACEMALLOC",
    }
)
"""Variables of the environment that are noted: a fixed list, as others may hold secrets."""

PREFIX = "TORCHDYNAMO_"
"""Prefix of further variables that are noted."""

LONGEST = 200
"""Characters of a value."""


def settings_facts(
    torch: Any,
    optimizers: Mapping[Any, CallSite | None],
    modules: Iterable[Any],
    autocast: dict[str, str] | None,
    anomaly: bool = False,
) -> dict[str, Any]:
    """Data of a ``settings`` note; None stands for what could not be read.

    ``modules`` are those that the script calls itself, ``autocast`` what was in use around them,
    ``anomaly`` whether anomalies were looked for there or in a backward pass.
    """
    called: Any = attempt(all_modules, modules)
    readers: dict[str, Callable[[], Any]] = {
        "threads": lambda: {**threads(torch), "python": len(threading._active)},  # type: ignore[attr-defined]
        "cores": cores,
        "environment": environment,
        "matmul": lambda: matmul(torch),
        "cudnn": lambda: cudnn(torch),
        "mkldnn": lambda: mkldnn(torch),
        "attention": lambda: attention(torch),
        "build": lambda: build(torch),
        "devices": lambda: devices(torch),
        "dynamo": dynamo,
        "modes": lambda: {**modes(torch), **({"anomaly": True} if anomaly else {})},
        "autocast": lambda: autocast,
        "gc": garbage_collection,
        "optimizers": lambda: optimizer_settings(optimizers),
        "wrappers": lambda: wrappers(called),
        "parameters": lambda: parameters(torch, called, list(optimizers)),
        "compiled": lambda: is_compiled(called),
        "places": lambda: call_places(VARIABLES),
    }
    return {name: attempt(reader) for name, reader in readers.items()}


def environment() -> dict[str, str]:
    """The variables of the fixed list that are set."""
    return {
        name: value[:LONGEST]
        for name, value in sorted(os.environ.items())
        if name in VARIABLES or name.startswith(PREFIX)
    }


def cores() -> dict[str, Any]:
    """Cores that the training thread may run on, and those of the machine."""
    return {"affinity": len(os.sched_getaffinity(0)), "installed": os.cpu_count()}


def garbage_collection() -> dict[str, Any]:
    """Whether Python's collector runs by itself, when, and what it never looks at."""
    return {
        "enabled": gc.isenabled(),
        "thresholds": list(gc.get_threshold()),
        "frozen": gc.get_freeze_count(),
    }
