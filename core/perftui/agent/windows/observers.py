"""Further recordings while a window is open: stack samples, calls that wait for the GPU."""

from __future__ import annotations

import _thread
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ...wire.control_page import ControlPage
from ...wire.spool import AgentOptions, Spool

if TYPE_CHECKING:
    from .sync_calls import SyncCounter

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
        """Begin.

        Raises:
            RuntimeError: the system has no room for a thread.
        """
        self._stopping.acquire()
        self._ended.acquire()
        _thread.start_new_thread(self._run, ())
        sys.setswitchinterval(min(self._interval, SWITCH_SECONDS))
        self._shorter = sys.getswitchinterval()

    def end(self) -> None:
        """End, and wait until the thread is gone. Any thread may call this, once.

        Raises:
            RuntimeError: it failed, or does not end.
        """
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

        Raises:
            OSError: it cannot be written.
        """
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
        """Observations in window ``number``, as data of its note.

        Raises:
            OSError: the spool cannot be written.
        """
        data: dict[str, Any] = {}
        name = f"stacks-{os.getpid()}-{number}.json"
        if self._sampler is not None and self._sampler.save(self._spool / name):
            data["stack_samples"] = name
        if self._counter is not None:
            data["syncs"] = {"gpu": self._counter.uses_gpu, "calls": self._counter.sites.found()}
        self._sampler = self._counter = None
        return data
