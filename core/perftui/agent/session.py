"""What the hooks call: decides whether this process and thread record."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from time import thread_time_ns
from typing import Any
from weakref import WeakKeyDictionary

from . import ring as rings
from .callsite import find_call_site
from .contained import contained
from .cost import inner_call_ns
from .forked_exit import leave_without_destructors
from .loader import UNKNOWN, batches_ready, fetches_itself
from .loaders import Loaders, Origins
from .notes import Notes
from .optimizers import Optimizers
from .options import Options
from .overrides import Arguments, Overrides
from .recording import Recording, start_recording
from .steps import Boundary, StepMachine


class Session:
    """The agent in one process.

    Nothing is made before the script first loads data, calls a module or steps: launchers and
    helpers never do. ``enter_...`` returns when the phase began, 0 where it is not recorded.
    """

    def __init__(self, torch: Any, spool: Path, options: Options) -> None:
        self._torch = torch
        self._spool = spool
        self._options = options
        self._origins: Origins = WeakKeyDictionary()
        self.reset()

    def reset(self) -> None:
        """Be as at the start: a forked child shares nothing with its parent's recording."""
        self.inside = False
        """Whether forward calls pass straight through: one is going on, or recording is off."""
        self.notes = Notes(self._spool)
        self.loaders = Loaders(self._torch, self.notes, self._origins)
        self.optimizers = Optimizers(self._torch)
        self.recording: Recording | None = None
        """None before there is anything to record, and after it has ended."""
        self._is_off = False
        self._inner_call_ns = 0
        self._batches_ready = UNKNOWN
        self._cpu_start: int | None = None
        self._modules: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    @contained
    def after_fork(self) -> None:
        """This is a new child of the process that recorded."""
        recording = self.recording
        has_profiled = recording is not None and recording.has_profiled
        self.reset()
        if has_profiled:
            leave_without_destructors()

    def fail(self, error: Exception) -> None:
        """Record no more, and say why."""
        recording = self.recording
        self._stop()
        message = f"recording stopped: {type(error).__name__}: {error}"
        with suppress(Exception):
            # A window left open would crash the interpreter at its end.
            if recording is not None and recording.windows is not None:
                recording.windows.close()
        with suppress(Exception):
            self.notes.write("error", {"message": message})

    def construct_loader(
        self, overrides: Overrides, loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """The arguments to make ``loader`` with."""
        passed = Arguments(args, kwargs)
        self._override(overrides, loader, passed)
        return passed

    @contained
    def enter_fetch(self, iterator: Any) -> int:
        """The script asks ``iterator`` for a batch."""
        recording = self._on_this_thread()
        if recording is None or self.inside:
            return 0
        self._ended(recording, recording.steps.fetch(recording.now()))
        self._batches_ready = batches_ready(iterator)
        # With workers the thread only waits, which uses nothing worth a system call.
        self._cpu_start = thread_time_ns() if fetches_itself(iterator) else None
        start = recording.begin(rings.INPUT_WAIT)
        self.inside = True
        return start

    @contained
    def leave_fetch(self, iterator: Any, start: int, arrived: bool) -> None:
        """``__next__`` has returned a batch, or raised."""
        self.inside = self._is_off
        recording = self.recording
        if recording is None:
            return
        number = self.loaders.number_of(iterator)
        now = recording.end(rings.INPUT_WAIT, start, self._batches_ready, number)
        if self._cpu_start is not None:
            recording.instant(rings.INPUT_CPU, now, thread_time_ns() - self._cpu_start)
        if arrived:
            recording.steps.fetched()
            self.loaders.use(number)
        else:
            self.loaders.exhausted(iterator)

    @contained
    def enter_loader_start(self) -> int:
        """The script begins an epoch: the loader makes its iterator and its workers."""
        recording = self._on_this_thread()
        if recording is None or self.inside:
            return 0
        self._ended(recording, recording.steps.fetch(recording.now()))
        start = recording.begin(rings.LOADER_START)
        self.inside = True
        return start

    @contained
    def leave_loader_start(self, loader: Any, iterator: Any, start: int) -> None:
        """``__iter__`` has returned ``iterator``, None where it raised."""
        self.inside = self._is_off
        recording = self.recording
        if recording is None:
            return
        recording.end(rings.LOADER_START, start)
        if iterator is not None:
            self.loaders.started(loader, iterator)

    @contained
    def enter_forward(self, module: Any) -> int:
        """The outermost module is called."""
        recording = self._on_this_thread()
        if recording is None or self.inside:
            return 0
        now = recording.now()
        gradients = self._torch.is_grad_enabled()
        ended = recording.steps.forward(now, gradients, self.loaders.any_live())
        if ended:
            self._ended(recording, ended)
        inner = self._modules.get(module)
        if inner is None:
            inner = self._modules[module] = self._inner_cost(module)
        recording.overhead += inner
        start = recording.begin(rings.FORWARD)
        self.inside = True
        return start

    @contained
    def enter_backward(self) -> int:
        """The autograd engine is called."""
        recording = self._on_this_thread()
        if recording is None or self.inside:
            return 0
        recording.steps.backward()
        start = recording.begin(rings.BACKWARD)
        # Checkpointed modules are called again in there.
        self.inside = True
        return start

    @contained
    def leave(self, kind: int, start: int) -> None:
        """A forward or backward pass that was entered has returned or raised."""
        self.inside = self._is_off
        recording = self.recording
        if recording is not None:
            recording.end(kind, start)

    @contained
    def enter_optimizer(self, optimizer: Any) -> None:
        """``optimizer.step`` begins; the thread that does this is the one that trains."""
        recording = self._begin()
        if recording is None or not self._adopt_thread(recording):
            return
        self.optimizers.entered(optimizer, recording.begin(rings.OPTIMIZER))

    @contained
    def leave_optimizer(self, optimizer: Any) -> None:
        """``optimizer.step`` has done its work."""
        recording = self._on_this_thread()
        start = self.optimizers.left(optimizer) if recording is not None else 0
        if recording is None or not start:
            return
        now = recording.end(rings.OPTIMIZER, start)
        self._optimizer_done(recording, optimizer, now)

    @contained
    def skipped_optimizer(self, optimizer: Any) -> None:
        """A gradient scaler left out ``optimizer.step`` because gradients were not finite."""
        recording = self._begin()
        if recording is not None and self._adopt_thread(recording):
            self._optimizer_done(recording, optimizer, recording.now())

    @contained
    def foreign_profiler_begins(self, profiler: Any) -> None:
        """The script starts a profiler of its own."""
        recording = self.recording
        if recording is not None and recording.windows is not None:
            recording.windows.foreign_begins(profiler)

    @contained
    def foreign_profiler_ends(self, profiler: Any) -> None:
        """The script's profiler has ended."""
        recording = self.recording
        if recording is not None and recording.windows is not None:
            recording.windows.foreign_ends(profiler)

    @contained
    def before_fork(self) -> None:
        """End the open window: a child would go on recording into it without end."""
        recording = self.recording
        if recording is None or recording.windows is None or recording.thread != get_ident():
            return
        recording.windows.close()

    @contained
    def finish(self) -> None:
        """The process ends."""
        recording = self.recording
        self._stop()
        if recording is not None:
            recording.close()

    @contained
    def _override(self, overrides: Overrides, loader: Any, passed: Arguments) -> None:
        site = find_call_site()
        passed.args, passed.kwargs, outcome = overrides.apply(
            site, loader, passed.args, passed.kwargs
        )
        self.loaders.constructed(loader, site, outcome)

    def _optimizer_done(self, recording: Recording, optimizer: Any, now: int) -> None:
        number = self.optimizers.number(optimizer)
        ended = recording.steps.optimizer(number, now, self.loaders.any_live())
        if ended:
            self._ended(recording, ended)

    def _ended(self, recording: Recording, boundaries: list[Boundary]) -> None:
        if boundaries:
            self.loaders.step_ended(boundaries[-1].kind)
            recording.ended(boundaries)

    def _on_this_thread(self) -> Recording | None:
        """The recording, begun if need be, where this thread is the one it follows."""
        recording = self.recording or self._begin()
        return recording if recording is not None and recording.thread == get_ident() else None

    def _begin(self) -> Recording | None:
        if self.recording is not None or self._is_off:
            return self.recording
        if self._torch.utils.data.get_worker_info() is not None:
            # A worker of a DataLoader: its modules are transforms.
            self._stop()
            return None
        steps = StepMachine(self.optimizers.exist)
        try:
            recording = start_recording(
                self._torch, self._spool, self._options, self.notes, steps, get_ident()
            )
        except OSError as error:
            self.fail(error)
            return None
        self._inner_call_ns = inner_call_ns(self._torch.compiler.is_compiling)
        self.recording = recording
        _at_exit_of_child(self.finish)
        return recording

    def _adopt_thread(self, recording: Recording) -> bool:
        """Follow the calling thread if none has stepped yet, or the one that did is gone."""
        thread = get_ident()
        if thread != recording.thread:
            alive = {one.ident for one in threading.enumerate()}
            if recording.has_stepped and recording.thread in alive:
                return False
            recording.follow(thread)
        recording.has_stepped = True
        return True

    def _inner_cost(self, module: Any) -> int:
        """Estimated cost of the modules inside ``module``, each called once."""
        return self._inner_call_ns * sum(1 for _ in module.modules())

    def _stop(self) -> None:
        self.recording = None
        self._is_off = self.inside = True


def _at_exit_of_child(finish: Callable[[], None]) -> None:
    """Children of multiprocessing leave by ``os._exit``, past ``atexit``, but run finalizers."""
    multiprocessing = sys.modules.get("multiprocessing")
    util = sys.modules.get("multiprocessing.util")
    if multiprocessing is None or util is None or multiprocessing.parent_process() is None:
        return
    pid = os.getpid()

    def run() -> None:
        if os.getpid() == pid:
            finish()

    util.Finalize(None, run, exitpriority=100)
