"""One profiled window: torch's own profiler, opened and saved on the training thread, or nsys."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...wire.spool import AgentOptions

KINETO_LOG_LEVEL = "KINETO_LOG_LEVEL"


class EmptyWindowError(RuntimeError):
    """Nothing was recorded; saving such a result would crash the process."""


class Window:
    """A profiler session of CPU activity, and of CUDA's where the script uses it.

    Its results are saved as torch writes them and never turned into Python objects here: that costs
    30 us an event, saving 1.5.
    """

    def __init__(self, torch: Any, options: AgentOptions) -> None:
        self._torch = torch
        self.uses_cuda = bool(torch.cuda.is_initialized())
        """Whether the window should hold kernels: the script has initialised CUDA."""
        self.profiler = torch.autograd.profiler.profile(
            use_device="cuda" if self.uses_cuda else None,
            use_kineto=True,
            record_shapes=options.shapes,
            profile_memory=options.memory,
            with_stack=options.stacks,
        )
        """The torch object, to distinguish it from profilers of the script."""
        self._is_prepared = False
        # torch 2.4 turns the results into Python objects when the recording ends, newer versions on
        # demand, which never comes.
        self.profiler._parse_kineto_results = lambda *_, **__: []

    def prepare(self) -> None:
        """Start the tracing library."""
        with _quiet_kineto():
            self.profiler._prepare_trace()
        self._is_prepared = True

    def start(self) -> None:
        """Begin to record the calling thread."""
        self.profiler._start_trace()

    def stop(self) -> None:
        """End the recording; the calling thread must be the one that started it."""
        self._is_prepared = False
        self.profiler.__exit__(None, None, None)

    def drop(self) -> None:
        """Discard the window, however far it has come; may be called again after an interruption.

        A profiler that stays on crashes the interpreter at its end; one that was prepared and never
        on makes the next one print a warning, ours or the script's.
        """
        if self._is_prepared and not is_profiling(self._torch):
            self.start()
        if is_profiling(self._torch):
            self.stop()

    def abandon(self) -> None:
        """Stop recording the calling thread, which started this, without any result.

        For a session that a profiler of another thread has taken over: torch 2.13 crashes where it
        is ended as usual, and without an end every operator takes up memory for ever. torch prints
        a warning.
        """
        toggle = getattr(self.profiler, "toggle_collection_dynamic", None)
        if toggle is not None:
            toggle(False, {self._torch.profiler.ProfilerActivity.CPU})

    def save(self, path: Path) -> int:
        """Write the trace to ``path``, whole or not at all; returns its bytes.

        Raises:
            EmptyWindowError: nothing was recorded.
            OSError: it cannot be written.
        """
        result = self.profiler.kineto_results
        if result is None or result.trace_start_ns() == 0:
            raise EmptyWindowError("the profiler returned nothing")
        # Kineto chooses the format by the file's extension.
        temporary = path.with_name(f"{path.stem}.new.json")
        result.save(str(temporary))
        size = temporary.stat().st_size
        temporary.chmod(0o600)
        temporary.rename(path)
        return size


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


def is_profiling(torch: Any) -> bool:
    """Whether a profiler is recording the calling thread."""
    enabled = getattr(torch._C._autograd, "_profiler_enabled", None)
    return bool(enabled and enabled())


def may_record_stacks(torch: Any) -> bool:
    """Whether Python frames can be recorded here without harm.

    Two users of the interpreter's profile function would end each other, and before torch 2.8 the
    frames of Python 3.12 and later could crash the process.
    """
    if sys.getprofile() is not None:
        return False
    release = tuple(int(part) for part in str(torch.__version__).split(".")[:2])
    return sys.version_info < (3, 12) or release >= (2, 8)


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """Keep Kineto's own messages out of the script's error stream.

    Kineto reads the log level once, when it is first used in a process; after a profiler of the
    script's own nothing helps. Set for the C library alone, and only meanwhile: the script's
    ``os.environ`` and its children's environment stay as they are.
    """
    if KINETO_LOG_LEVEL in os.environ:
        yield
        return
    os.putenv(KINETO_LOG_LEVEL, "6")
    try:
        yield
    finally:
        os.unsetenv(KINETO_LOG_LEVEL)
