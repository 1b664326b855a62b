"""One profiled window: torch's own profiler, opened and saved on the training thread, or nsys; and
what is recorded besides: stack samples, calls that wait for the GPU."""

from __future__ import annotations

import _thread
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ...wire.control_page import ControlPage
from ...wire.spool import AgentOptions, Spool

if TYPE_CHECKING:
    from .sync_calls import SyncCounter

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


SAMPLE_NS = 2_000_000
"""Mean time between two samples of a window that is asked for stacks."""

MOST_SAMPLES = 4096
"""Samples after which it ends by itself: no window is meant to last that long."""

SWITCH_SECONDS = 0.0001
"""Pure Python before another thread may run, while samples are taken. With it and samples 5 ms
apart, they gave a pure Python loop 24 % of the time, where it took 28 %; with 0.5 ms 16 of 26 %."""

STOP_SECONDS = 1.0
"""How long to wait for the sampler's thread, which waits for nothing but the interpreter."""


class StackSampler:
    """Samples the stack of ``thread`` at random moments, ``every`` ns apart in the mean.

    For systems that do not let py-spy read it from outside.

    A sample waits until the interpreter releases its lock, which pure Python does after the switch
    interval. With the usual 5 ms, samples would fall mostly on calls that release it by themselves:
    the interval is shorter meanwhile.

    The thread is unknown to ``threading``: scripts that count or list their threads see no
    difference. It handles no signals.
    """

    def __init__(self, thread: int, every: int) -> None:
        self._thread = thread
        self._every = every
        self._samples: list[tuple[int, tuple[tuple[Any, int], ...]]] = []
        self._error: Exception | None = None
        self._stopping = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._end_ns = 0
        self._interval = self._shorter = sys.getswitchinterval()

    def start(self) -> None:
        """Begin. Raises RuntimeError if the system has no room for a thread."""
        self._stopping.acquire()
        self._ended.acquire()
        _thread.start_new_thread(self._run, ())
        sys.setswitchinterval(min(self._interval, SWITCH_SECONDS))
        self._shorter = sys.getswitchinterval()

    def end(self) -> None:
        """End, and wait until the thread is gone. Any thread may call this, once. Raises
        RuntimeError if it failed, or does not end."""
        self._stopping.release()
        if sys.getswitchinterval() == self._shorter:
            # Otherwise the script has chosen another interval meanwhile.
            sys.setswitchinterval(self._interval)
        if not self._ended.acquire(timeout=STOP_SECONDS):
            raise RuntimeError("sampling of the main thread does not stop")
        self._end_ns = time.time_ns()
        if self._error is not None:
            raise RuntimeError("sampling the main thread failed") from self._error

    def save(self, path: Path) -> bool:
        """Write the samples to ``path``, whole or not at all; returns whether there are any.

        ``samples`` are times on the wall clock with indices of ``frames``, the outermost first.
        Raises OSError if it cannot be written."""
        if not self._samples:
            return False
        numbers: dict[tuple[Any, int], int] = {}
        samples = [
            [at, [numbers.setdefault(frame, len(numbers)) for frame in reversed(stack)]]
            for at, stack in self._samples
        ]
        frames = [
            [getattr(code, "co_qualname", code.co_name), code.co_filename, line]
            for code, line in numbers
        ]
        content = {"every": self._every, "end": self._end_ns, "frames": frames, "samples": samples}
        temporary = path.with_name(f"{path.name}.new")
        temporary.write_text(json.dumps(content))
        temporary.chmod(0o600)
        temporary.rename(path)
        return True

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            self._sample_until_stopped()
        except Exception as error:  # noqa: BLE001 - reported by whoever ends it
            self._error = error
        finally:
            self._ended.release()

    def _sample_until_stopped(self) -> None:
        # A separate generator: the script's random numbers stay as they are.
        draw = random.Random().expovariate  # noqa: S311 - nothing secret
        rate = 1e9 / self._every
        for _ in range(MOST_SAMPLES):
            if self._stopping.acquire(timeout=draw(rate)):
                return
            frame = sys._current_frames().get(self._thread)
            at = time.time_ns()
            stack = []
            while frame is not None:
                stack.append((frame.f_code, frame.f_lineno or 0))
                frame = frame.f_back
            if stack:
                self._samples.append((at, tuple(stack)))


class WindowObservers:
    """Begin and end with a window; outside windows nothing is installed.

    Their results are taken with the window they belong to. Where that fails the window goes on
    without them, and ``warn`` is called with the reason.
    """

    def __init__(self, torch: Any, spool: Path, warn: Callable[[str], object]) -> None:
        self._torch = torch
        self._spool = spool
        self._warn = warn
        self._control = ControlPage(Spool(spool).control)
        self._sampler: StackSampler | None = None
        self._counter: SyncCounter | None = None
        self._running: list[StackSampler | SyncCounter] = []

    def begin(self, options: AgentOptions, samples: bool = False) -> None:
        """A window of the calling thread has begun, which records what ``options`` say; its stack
        is sampled too if ``samples``, or if nobody can from outside."""
        self._sampler = self._counter = None
        every = self._control.sample_every or (SAMPLE_NS if samples else 0)
        # Python frames are recorded of all threads: the sampler's would be among them.
        if every and not options.stacks:
            sampler = StackSampler(get_ident(), every)
            try:
                sampler.start()
            except RuntimeError as error:
                self._warn(f"the stacks of the main thread were not sampled: {error}")
            else:
                self._sampler = sampler
                self._running.append(sampler)
        if options.syncs:
            from .sync_calls import SyncCounter

            counter = SyncCounter(self._torch)
            refusal = counter.begin()
            if refusal is not None:
                self._warn(refusal)
                return
            self._counter = counter
            self._running.append(counter)

    def end(self) -> None:
        """Stop observing. Any thread may call this, several times."""
        while self._running:
            running = self._running.pop()
            try:
                running.end()
            except RuntimeError as error:
                self._warn(f"{error}: {error.__cause__ or 'no reason given'}")

    def take(self, number: int) -> dict[str, Any]:
        """Observations in window ``number``, as data of its note. Raises OSError if the spool
        cannot be written."""
        data: dict[str, Any] = {}
        name = f"stacks-{os.getpid()}-{number}.json"
        if self._sampler is not None and self._sampler.save(self._spool / name):
            data["stack_samples"] = name
        if self._counter is not None:
            data["syncs"] = {"gpu": self._counter.uses_gpu, "calls": self._counter.sites.found()}
        self._sampler = self._counter = None
        return data
