"""Named ranges of time, for the profiler that records now and for NVIDIA's tools."""

from __future__ import annotations

from typing import Any


class Ranges:
    """Opens and closes ranges on the calling thread, innermost last.

    ``recorded`` writes them into torch's own profile, ``nvtx`` marks them for nsys, which takes
    CUDA. torch's ``record_function`` goes through its dispatcher: three times as long (5 us, not
    2), and a script's dispatch modes (selective checkpointing is one) would meet our ranges among
    its operators. These functions do not; torch's profiler marks with them, too.
    """

    def __init__(self, torch: Any, recorded: bool, nvtx: bool) -> None:
        self.are_recorded = recorded
        self._begin = torch.autograd._record_function_with_args_enter if recorded else None
        self._end = torch.autograd._record_function_with_args_exit
        self._nvtx = torch.cuda.nvtx if nvtx else None

    def open(self, name: str) -> Any:
        """Begin the range ``name``; returns what ends it."""
        if self._nvtx is not None:
            self._nvtx.range_push(name)
        return None if self._begin is None else self._begin(name)

    def close(self, handle: Any) -> None:
        """End the range that ``open`` has begun last of those that are open."""
        if handle is not None:
            self._end(handle)
        if self._nvtx is not None:
            self._nvtx.range_pop()
