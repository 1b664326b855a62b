"""A window that Nsight Systems records."""

from __future__ import annotations

import os
from typing import Any


class NsysWindow:
    """Starts and stops the nsys that runs the script.

    Any process below nsys can do that, for all of them: where ranks train side by side, the first
    one of the machine does it, and all open their windows at the same step.
    """

    profiler = None
    """There is no profiler of torch."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self.uses_cuda = True
        self._has_begun = False
        self._leads = os.environ.get("LOCAL_RANK", "0") == "0"

    def prepare(self) -> None:
        """Nothing: nsys has been ready since the start."""

    def start(self) -> None:
        """Have nsys begin."""
        self._has_begun = True
        if self._leads:
            self._cuda.cudart().cudaProfilerStart()

    def stop(self) -> None:
        """Stop nsys once the GPU has done the work of the steps; nsys then writes its report."""
        self._cuda.synchronize()
        if self._leads:
            self._cuda.cudart().cudaProfilerStop()

    def drop(self) -> None:
        """Stop nsys, which writes its report, if it has begun; else nothing waits for the GPU."""
        if self._has_begun:
            self.stop()

    def abandon(self) -> None:
        """Stop nsys, which does not mind other profilers."""
        self.stop()
