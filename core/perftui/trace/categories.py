"""Event categories: legacy spellings, and what each stands for."""

from __future__ import annotations

from functools import lru_cache

KERNEL = "kernel"
MEMCPY = "gpu_memcpy"
MEMSET = "gpu_memset"
CPU_OP = "cpu_op"
PYTHON = "python_function"
ANNOTATION = "user_annotation"
DEVICE_ANNOTATION = "gpu_user_annotation"
SPAN = "trace"
"""The recording itself drawn as an event; as long as the file, and no activity."""

STEP, PHASE = "training step", "training phase"
DERIVED = (STEP, PHASE)
"""What analysis found and draws beside the rows that it found it in; no file holds them."""

DEVICE_ACTIVITY = (KERNEL, MEMCPY, MEMSET)
"""What keeps a device busy."""

MTIA = "mtia_ccp_events"
"""What an MTIA device does, whatever it is."""

ON_DEVICE = (*DEVICE_ACTIVITY, DEVICE_ANNOTATION, "cuda_sync", "cuda_event", MTIA)
"""Everything that is drawn on a device's tracks."""

LAUNCHES = (
    "cuda_runtime",
    "cuda_driver",
    "hip_runtime",
    "hip_driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "glow_runtime",
    "hpu_op",
    "privateuse1_runtime",
    "privateuse1_driver",
)
"""Calls on the CPU whose correlation id device activity carries; of Kineto's activity types
(``ActivityType.h``) those that it calls runtime and driver. Calls of HIP are ``cuda_runtime``."""

XPU_WAIT = "xpu_sync"
"""Waits of the host for an Intel GPU, beside the calls that they happen in, and barriers on it."""

RANGES = (
    ANNOTATION,
    DEVICE_ANNOTATION,
    XPU_WAIT,
    "cuda_sync",
    "cuda_event",
    MTIA,
    "collective_comm",
    "overhead",
)
"""Ranges that are not calls: they may overlap calls partially, and then leave the call stack."""

_LEGACY = {
    "operator": CPU_OP,
    "runtime": "cuda_runtime",
    "memcpy": MEMCPY,
    "memset": MEMSET,
    "python": PYTHON,
}

_BY_PROCESS = {"CPU functions": CPU_OP, "CUDA functions": KERNEL}
"""The first autograd profiler wrote no category but named its two processes so."""


@lru_cache(1024)
def normalise(category: str | None, process: str) -> str:
    """Today's name of a category, lower-cased; by the process where the file names none."""
    if category is None:
        return _BY_PROCESS.get(process, "")
    lowered = category.lower()
    return _LEGACY.get(lowered, lowered)
