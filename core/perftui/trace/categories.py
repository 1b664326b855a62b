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

DEVICE_ACTIVITY = (KERNEL, MEMCPY, MEMSET)
"""What keeps a device busy."""

ON_DEVICE = (*DEVICE_ACTIVITY, DEVICE_ANNOTATION, "cuda_sync")
"""Everything that is drawn on a device's tracks."""

LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver")
"""Calls on the CPU whose correlation id device activity carries."""

RANGES = (ANNOTATION, DEVICE_ANNOTATION, "cuda_sync", "mtia_ccp_events", "overhead")
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
