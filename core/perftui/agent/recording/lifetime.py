"""When this process records: from its first work on, until it ends, forks or something fails."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...wire.spool import AgentOptions
from ..batches.padding_checks import PaddingChecks
from ..dataloader.loaders import Loaders, Origins
from ..fast_path.fast_path import FastPath
from ..hooks.call_site import CallSite
from ..output.notes import Notes
from ..overhead.meter import Meter
from ..overrides.request import OverrideNotes
from ..safety.guarded import guarded_and_timed
from ..safety.signal_handlers import TryLock, attempt, raised_by_handler
from ..startup.process import leave_without_destructors, never_destroy
from ..steps.detection import Optimizers, StepMachine
from ..steps.weights import Weights
from .recording import Recording, start_recording

if TYPE_CHECKING:
    from ..gpu.memory_snapshots import MemorySnapshots


SEVERAL = "several threads run optimizers: only the steps of one of them are recorded"


class Lifetime:
    """The recording of one process, and the one thread of it that is followed.

    Nothing is made before the script first loads data, calls a module or steps: launchers and
    helpers never do.
    """

    def __init__(self, torch: Any, spool: Path, options: AgentOptions) -> None:
        self.snapshots: MemorySnapshots | None = None
        """Snapshots of the GPU's memory; None where they were not asked for."""
        self._torch = torch
        self._spool = spool
        self._options = options
        self._origins: Origins = WeakKeyDictionary()
        self.overrides = OverrideNotes()
        self.optimizer_sites: WeakKeyDictionary[Any, CallSite | None] = WeakKeyDictionary()
        """Where each optimizer was made."""
        self.fast_path = FastPath(torch, self.guards)
        self.inner_calls_cost = False
        """Whether the hooks are asked at calls of modules inside others, too."""
        self.reset()

    def reset(self) -> None:
        """Be as at the start: a forked child shares nothing with its parent's recording."""
        self.fast_path.reset()
        self.meter = Meter()
        self.notes = Notes(self._spool)
        self.overrides.reset()
        self.loaders = Loaders(self._torch, self.notes, self._origins)
        self.optimizers = Optimizers(self._torch)
        self.weights = Weights(self._torch)
        self.padding_checks = PaddingChecks()
        self.recording: Recording | None = None
        """The recording; None before there is anything to record, and after it has ended."""
        self._failed: Recording | None = None
        self._begin_lock = TryLock()

    @guarded_and_timed
    def before_fork(self) -> None:
        """End the open window: a child would go on recording into it without end."""
        if self.recording is not None:
            self.recording.end_window()

    @guarded_and_timed
    def after_fork(self) -> None:
        """Let go of the parent's recording in a new child of the process that recorded."""
        recording = self.recording
        if recording is not None:
            never_destroy(recording.device.phases)
        self.reset()
        if recording is not None:
            recording.silence()
            if recording.windows is not None and recording.windows.has_profiled:
                leave_without_destructors()

    def guards(self, error: BaseException) -> bool:
        """Stop for an error of ours; pass on what handlers of the script raise, Ctrl-C first."""
        if isinstance(error, Exception) and not raised_by_handler(error):
            self.fail(error)
            return True
        return False

    def fail(self, error: Exception) -> None:
        """Record no more, and say why."""
        recording = self.switch_off()
        message = f"recording stopped: {type(error).__name__}: {error}"
        # Nothing of ours may fail after the agent has: there is nowhere left to report.
        attempt(self.notes.write, "error", {"message": message})
        if recording is not None:
            self._failed = recording
            # A window left open would crash the interpreter at its end.
            attempt(recording.end_window)

    @guarded_and_timed
    def finish(self) -> None:
        """The process ends."""
        recording = self.switch_off()
        if recording is not None:
            recording.close()
        elif self._failed is not None:
            # It may have failed in a thread that could not end its window.
            self._failed.end_window()

    def switch_off(self) -> Recording | None:
        """Record no more; returns what was recorded so far."""
        self.fast_path.close()
        recording, self.recording = self.recording, None
        self.fast_path.is_off = self.fast_path.inside = True
        self.meter.is_sampling = False
        if recording is not None:
            recording.silence()
        return recording

    def _on_this_thread(self) -> Recording | None:
        """The recording, begun if need be, where this thread is the one it follows."""
        recording = self.recording or self._begin()
        if recording is None or not self._is_followed(recording):
            return None
        self._leave_fast_path()
        return recording

    def _leave_fast_path(self) -> None:
        """Something happens that is not for the fast path."""
        fast_path = self.fast_path
        fast_path.close()
        if fast_path.is_fetching and not fast_path.inside:
            # What a signal handler raised kept the end of the fetch from us, as torch's does for
            # each worker that dies; no step will end there.
            fast_path.is_fetching = False
            self.loaders.exhausted(fast_path.iterator())

    def _begin(self) -> Recording | None:
        if self.recording is not None or self.fast_path.is_off:
            return self.recording
        if self._torch.utils.data.get_worker_info() is not None:
            # A worker of a DataLoader: its modules are transforms.
            self.switch_off()
            return None
        if _is_being_made():
            return None
        beginner = object()
        try:
            # Several threads may make the first call of theirs at once, and a signal handler one
            # within another's: one begins, and what the others do meanwhile is not recorded.
            if not self._begin_lock.acquire(beginner):
                return None
            return self._start()
        finally:
            self._begin_lock.release(beginner)

    def _start(self) -> Recording | None:
        if self.recording is not None:
            # Another thread has begun since that was asked.
            return self.recording
        mark = self.meter.begin_apart()
        steps = StepMachine(self.optimizers.exist, self.weights.have_changed)
        try:
            recording = start_recording(
                self._torch, self._spool, self._options, self.notes, steps, self.meter, get_ident()
            )
        except OSError as error:
            if raised_by_handler(error):
                raise
            self.fail(error)
            return None
        finally:
            self.meter.end_apart(mark)
        recording.snapshots = self.snapshots
        self.overrides.begin(self.notes)
        self.recording = recording
        _at_exit_of_child(self.finish)
        return recording

    def _is_followed(self, recording: Recording) -> bool:
        """Whether the calling thread is the one that is followed, or works for it.

        What optimizers do within a backward pass on a GPU happens in a thread of the autograd
        engine, for which the one that is followed waits.
        """
        if recording.thread == get_ident():
            return True
        task = getattr(self._torch._C, "_current_graph_task_id", None)
        return self.fast_path.goes_back and task is not None and task() >= 0

    def _adopt_thread(self, recording: Recording) -> bool:
        """Follow the calling thread if none has stepped yet, or the one that did is gone."""
        thread = get_ident()
        if not self._is_followed(recording):
            alive = {one.ident for one in threading.enumerate()}
            if recording.has_stepped and recording.thread in alive:
                self.notes.warn(SEVERAL)
                return False
            recording.follow(thread)
            self.loaders.leave_behind()
        self._leave_fast_path()
        recording.has_stepped = True
        return True


def _is_being_made() -> bool:
    """Whether this is a child of multiprocessing that still imports the script of its parent.

    A script without a guard calls its modules anew there, and fails where it starts its workers.
    """
    process = sys.modules.get("multiprocessing.process")
    return process is not None and getattr(process.current_process(), "_inheriting", False)


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
