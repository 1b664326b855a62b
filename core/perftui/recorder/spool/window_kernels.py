"""Whether the kernels that a window saw launched are in it: not where others hold CUPTI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CALL = re.compile(rb'"cat": "(?:cuda|hip)_(?:runtime|driver)"')
_KERNEL = re.compile(rb'"cat": "kernel"')
_LAUNCH = re.compile(rb'"name": "(?:cuda|cu|hip|hipExt|hipModule)Launch(?:Cooperative)?Kernel')
"""Calls, kernels and launches as Kineto writes them. Each launch leads to one kernel at least: so
it is in 50 real traces of CUDA and ROCm, but for one of a profiler that shared CUPTI with another,
with 0 kernels for 77."""

_PIECE = 1 << 20

TAKEN = (
    "a window has no kernels, although the script uses the GPU: another profiler (nsys, ncu, "
    "DCGM) holds CUPTI, which only one can use at a time"
)
SOME = "a window has launches without their kernels: CUPTI lost them, so its GPU times are too low"


@dataclass(frozen=True)
class WindowKernels:
    """What the file of a window holds of a GPU."""

    calls: int
    """Calls of the GPU's interface; the end of a window alone makes one, to wait for kernels."""
    launches: int
    kernels: int

    @property
    def problem(self) -> str | None:
        """What is wrong with a window of a script that uses a GPU; None where all is there."""
        if not self.calls or (self.launches and not self.kernels):
            return TAKEN
        return SOME if self.kernels < self.launches else None


def count_kernels(path: Path) -> WindowKernels:
    """Count in the trace at ``path``, a piece of it at a time.

    Raises:
        OSError: it cannot be read.
    """
    calls = launches = kernels = 0
    with path.open("rb") as file:
        # What is looked for stands on one line each.
        while lines := file.readlines(_PIECE):
            text = b"".join(lines)
            calls += len(_CALL.findall(text))
            launches += len(_LAUNCH.findall(text))
            kernels += len(_KERNEL.findall(text))
    return WindowKernels(calls, launches, kernels)
