"""The agent in one process: when it records, and how each hook is recorded."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

from ...wire import ring as rings
from ...wire.spool import AgentOptions, Spool
from ..dataloader.loaders import Loaders, Origins, batches_ready, fetches_itself
from ..dataloader.padding import PaddingChecks, nearly_empty
from ..dataloader.worker_times import FETCH_CALLS
from ..hooks.call_site import CallSite, find_call_site
from ..native import IS_COMPILED
from ..overrides.request import OverrideNotes
from ..safety.meter import Meter, calibrate, guarded, guarded_and_timed
from ..safety.signal_handlers import TryLock, attempt, raised_by_handler
from ..startup.process import declare, leave_without_destructors, process_facts
from ..windows.torch_window import is_profiling
from ..windows.windows import Windows
from .device import Device
from .fast_path import ASKED, MOST_NUMBERS, MOST_OPTIMIZERS, STEPPED, FastPath
from .losses import terms_times_zero
from .model import all_modules, gradients, own_parameters
from .output import Notes, create_ring
from .recording import GcPauses, Recording
from .settings import Setup
from .side_notes import Compilations, Looks, Saves, file_size
from .steps import TRAIN, Boundary, Optimizers, StepMachine, Weights

if TYPE_CHECKING:
    from .memory_snapshots import MemorySnapshots

SEVERAL = "several threads run optimizers: only the steps of one of them are recorded"

STEPS_WITHOUT_FORWARD = 10
"""Training steps in a row without a call of any module, after which there is a warning."""

UNSEEN = (
    "the time of the forward pass is not known and counts as other: "
    "no module is called outside compiled functions"
)


class Session:
    """Follows one thread of the process, until that ends, forks or something fails.

    No file is made before the script first loads data, calls a module or steps: launchers and
    helpers never do. ``enter_...`` returns when the phase began, 0 where it is not recorded.
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
        """Call site of each optimizer."""
        self.fast_path = FastPath(torch, self.guards)
        self.inner_calls_cost = False
        """Whether calls of inner modules reach the hooks, too."""
        self._reset()

    def _reset(self) -> None:
        """Return to the initial state: a forked child shares no recording with its parent."""
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
        self._steps_without_forward = 0
        self._fetch_kind = rings.INPUT_WAIT
        self._setup = Setup()
        self._noted: WeakSet[Any] = WeakSet()
        """The optimizers in the last note of settings."""
        self._looks = Looks()
        self._stepped_inside: int | None = None
        """The lowest number of an optimizer that has stepped in the current backward pass."""
        self._saves = Saves()
        self._compilations = Compilations()
        self._modules: WeakKeyDictionary[Any, tuple[int, CallSite | None]] = WeakKeyDictionary()
        """For each called module: modules in it, itself included, and its first call."""

    # Beginning and end

    def _begin(self) -> Recording | None:
        """The recording, begun if necessary."""
        if self.recording is not None or self.fast_path.is_off:
            return self.recording
        if self._torch.utils.data.get_worker_info() is not None:
            # A worker of a DataLoader: its modules are transforms.
            self.switch_off()
            return None
        process = sys.modules.get("multiprocessing.process")
        if process is not None and getattr(process.current_process(), "_inheriting", False):
            # A child of multiprocessing that still imports the script of its parent. A script
            # without a guard calls its modules anew there, and fails where it starts its workers.
            return None
        beginner = object()
        try:
            # Several threads may make their first call at once, or a signal handler within that of
            # another: one begins, and what the others do meanwhile is not recorded.
            if not self._begin_lock.acquire(beginner):
                return None
            return self._start()
        finally:
            self._begin_lock.release(beginner)

    def _start(self) -> Recording | None:
        if self.recording is not None:
            # Another thread may have begun since the last look.
            return self.recording
        mark = self.meter.begin_apart()
        try:
            recording = self._new_recording()
        except OSError as error:
            if raised_by_handler(error):
                raise
            self.fail(error)
            return None
        finally:
            self.meter.end_apart(mark)
        self.overrides.begin(self.notes)
        self.recording = recording
        _at_exit_of_child(self.finish)
        return recording

    def _new_recording(self) -> Recording:
        """A recording of this thread, with a ring and its first note. Raises OSError if the spool
        is full or gone."""
        declare(self._options.tracer)
        facts = process_facts(self._torch)
        header = {name: facts[name] for name in ("pid", "rank", "world_size")}
        ring = create_ring(Spool(self._spool).ring(os.getpid()), header)
        self.notes.begin(facts, ring.lose_notes)
        steps = StepMachine(self.optimizers.exist, self.weights.have_changed)
        device = Device(self._torch, ring, self.meter)
        recording = Recording(ring, steps, self.meter, get_ident(), device, self._options)
        if self._options.profile:
            recording.windows = Windows(self._torch, self._spool, self._options, self.notes)
        recording.snapshots, recording.pauses = self.snapshots, GcPauses(get_ident())
        calibrate(self.meter)
        return recording

    @guarded_and_timed
    def before_fork(self) -> None:
        """End the open window: a child would go on recording into it without end."""
        if self.recording is not None:
            self.recording.end_window()

    @guarded_and_timed
    def after_fork(self) -> None:
        """Let go of the parent's recording in a newly forked child."""
        recording = self.recording
        if recording is not None:
            # CUDA cannot be used here: the destructor of an event asks for its device and aborts
            # the process, so the events outlive even the interpreter.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(recording.device.phases))
        self._reset()
        if recording is not None:
            recording.silence()
            if recording.windows is not None and recording.windows.has_profiled:
                leave_without_destructors()

    def guards(self, error: BaseException) -> bool:
        """Stop for an error of ours; re-raise exceptions of the script's handlers, Ctrl-C first."""
        if isinstance(error, Exception) and not raised_by_handler(error):
            self.fail(error)
            return True
        return False

    def fail(self, error: Exception) -> None:
        """Stop recording, and report why."""
        recording = self.switch_off()
        message = f"recording stopped: {type(error).__name__}: {error}"
        # Nothing of ours may fail after the agent has: there is nowhere left to report.
        attempt(self.notes.write, "error", {"message": message})
        if recording is not None:
            self._failed = recording
            # A window left open would crash the interpreter at its end.
            attempt(recording.end_window)

    def finish(self) -> None:
        """The process ends."""
        # Each is guarded by itself: if the first fails the second must still run.
        self._note_last()
        self._close()

    @guarded_and_timed
    def _note_last(self) -> None:
        if self.recording is not None:
            self._note_compilations(self.recording)
            if self._setup.is_late:
                self._note_settings()

    @guarded_and_timed
    def _close(self) -> None:
        recording = self.switch_off()
        if recording is not None:
            recording.close()
        elif self._failed is not None:
            # The recording may have failed in a thread that could not end its window.
            self._failed.end_window()

    def switch_off(self) -> Recording | None:
        """Stop recording; returns the recording so far."""
        self.fast_path.close()
        recording, self.recording = self.recording, None
        self.fast_path.is_off = self.fast_path.inside = True
        self.meter.is_sampling = False
        if recording is not None:
            recording.silence()
        return recording

    # The thread that is followed

    def _on_this_thread(self) -> Recording | None:
        """The recording, begun if necessary, if it follows this thread."""
        recording = self.recording or self._begin()
        if recording is None or not self._is_followed(recording):
            return None
        self._leave_fast_path()
        return recording

    def _is_followed(self, recording: Recording) -> bool:
        """Whether the calling thread is the one that is followed, or works for it.

        Optimizer steps within a backward pass on a GPU happen in a thread of the autograd engine,
        for which the followed thread waits.
        """
        if recording.thread == get_ident():
            return True
        task = getattr(self._torch._C, "_current_graph_task_id", None)
        return self.fast_path.goes_back and task is not None and task() >= 0

    def _begin_in_trainer(self) -> Recording | None:
        """The recording, which follows the calling thread from now on if no thread has stepped yet,
        or that thread is gone. None if it follows another thread."""
        recording = self._begin()
        if recording is None:
            return None
        if not self._is_followed(recording):
            alive = {thread.ident for thread in threading.enumerate()}
            if recording.has_stepped and recording.thread in alive:
                self.notes.warn(SEVERAL)
                return None
            recording.follow(get_ident())
            self.loaders.leave_behind()
        self._leave_fast_path()
        recording.has_stepped = True
        return recording

    # The fast path

    def _leave_fast_path(self) -> None:
        """An event happens that the fast path does not handle."""
        fast_path = self.fast_path
        fast_path.close()
        if fast_path.is_fetching and not fast_path.inside:
            # An exception of a signal handler hid the end of the fetch, as torch's own does for
            # each worker that dies; no step will end there.
            fast_path.is_fetching = False
            self.loaders.exhausted(fast_path.iterator())

    def _is_on_fast_path(self) -> bool:
        """Whether the fast path is open for this thread."""
        recording = self.recording
        if recording is None or not self.fast_path.is_open:
            return False
        return recording.thread == get_ident()

    def _close_fast_path(self, *, is_fed: bool) -> list[int]:
        """Close the fast path; returns the events of the current step, or none if some are unknown
        or its steps end otherwise than asked, by a loader (``is_fed``) or without one."""
        if not self._is_on_fast_path():
            return []
        events = self.fast_path.close()
        return events if self.fast_path.is_fed == is_fed else []

    def _open_fast_path(
        self, recording: Recording, ended: Boundary, events: list[int], *, is_fed: bool
    ) -> None:
        """Let the next step take the fast path; ``events`` are those of the last one."""
        if ended.kind != TRAIN or not ended.forwards or not recording.has_stepped:
            return
        if self.inner_calls_cost or not IS_COMPILED:
            # The cost of inner module calls is counted on the slow path only.
            return
        if is_fed and not self.loaders.feeds_training(self.fast_path.iterator()):
            return
        # The compiled hooks see no batch.
        if recording.knows_all() and not self.padding_checks.is_due(recording.index):
            state = is_fed, recording.steps.state()
            self.fast_path.learn(events, ended.micro_batches, state)
            self.fast_path.open(recording, self.meter, self.optimizers, [], is_fed=is_fed)

    def _open_without_loader(
        self, recording: Recording, ended: list[Boundary], number: int, now: int, events: list[int]
    ) -> None:
        """Optimizer ``number`` has stepped ``now``, after ``events`` on the fast path."""
        if self.loaders.any_live() or number >= MOST_NUMBERS:
            return
        if not recording.steps.ends_by_optimizers():
            return
        if self.optimizers.count > MOST_OPTIMIZERS:
            # Each unknown optimizer would close the fast path: 0.3 ms a step with 48 of them.
            return
        events = [*events, STEPPED + number] if events else []
        if events and not ended:
            self.fast_path.open(recording, self.meter, self.optimizers, events, is_fed=False)
        elif ended and ended[-1].end == now:
            self._open_fast_path(recording, ended[-1], events, is_fed=False)

    # Loaders

    @guarded
    def enter_fetch(self, iterator: Any) -> int:
        """The script asks ``iterator`` for a batch."""
        if self._is_on_fast_path():
            return self._fetch_slow(iterator)
        return self._fetch(iterator, [], is_same=False)

    @guarded_and_timed
    def _fetch_slow(self, iterator: Any) -> int:
        """A step has ended in a new way, or it is time to plan."""
        is_same = self.fast_path.is_fed and self.fast_path.iterator() is iterator
        return self._fetch(iterator, self._close_fast_path(is_fed=True), is_same)

    def _fetch(self, iterator: Any, events: list[int], is_same: bool) -> int:
        """``events`` of the step were on the fast path; ``is_same`` if by the same iterator."""
        fast_path = self.fast_path
        if fast_path.is_fetching and fast_path.iterator() is iterator:
            # Interrupted before, and asked again: it goes on.
            fast_path.is_fetching = False
        recording = self._on_this_thread()
        if recording is None or fast_path.inside:
            return 0
        fast_path.iterator, fast_path.is_fetching = ref(iterator), True
        ended = recording.steps.fetch(recording.now())
        if ended:
            self._ended(recording, ended)
            self._open_fast_path(recording, ended[-1], events, is_fed=True)
        elif events and is_same:
            fast_path.open(recording, self.meter, self.optimizers, [*events, ASKED], is_fed=True)
        fast_path.ready = batches_ready(iterator)
        fast_path.cpu_start = thread_time_ns()
        is_starting = self.loaders.is_starting(iterator)
        self._fetch_kind = rings.LOADER_START if is_starting else rings.INPUT_WAIT
        return recording.begin(self._fetch_kind)

    @guarded
    def leave_fetch(self, iterator: Any, start: int, batch: Any, arrived: bool) -> None:
        """``__next__`` has returned a ``batch``, or raised."""
        if fetches_itself(iterator):
            self.meter.calls += FETCH_CALLS
        # If no batch came, only after everybody has seen the end.
        self.fast_path.is_fetching = not arrived
        if self._is_on_fast_path():
            self.fast_path.close()
        recording = self.recording
        if recording is None:
            return
        now = recording.end(self._fetch_kind, start, self.fast_path.ready)
        if self._fetch_kind == rings.INPUT_WAIT:
            used = thread_time_ns() - self.fast_path.cpu_start
            recording.ring.write(rings.INPUT_CPU, now, 0, recording.index, used)
        if not arrived:
            self.loaders.exhausted(iterator)
            self.fast_path.is_fetching = False
            return
        recording.steps.fetched()
        self.loaders.use(iterator)
        if self.padding_checks.is_due(recording.index) and self.loaders.feeds_training(iterator):
            self._check_padding(recording, batch)

    @guarded_and_timed
    def enter_loader_start(self) -> int:
        """The script begins an epoch: the loader makes its iterator and its workers."""
        recording = self._on_this_thread()
        if recording is None or self.fast_path.inside:
            return 0
        self._ended(recording, recording.steps.fetch(recording.now()))
        return recording.begin(rings.LOADER_START)

    @guarded_and_timed
    def leave_loader_start(self, loader: Any, iterator: Any, start: int) -> None:
        """``__iter__`` has returned ``iterator``, None if it raised."""
        recording = self.recording
        if recording is None:
            return
        recording.end(rings.LOADER_START, start)
        if iterator is not None:
            self.loaders.started(loader, iterator)

    # Modules and the autograd engine

    @guarded
    def enter_forward(self, module: Any, args: Any = (), kwargs: Any = None) -> int:
        """The outermost module is called."""
        recording = self._on_this_thread()
        if recording is None or self.fast_path.inside:
            return 0
        now = recording.now()
        gradients = self._torch.is_grad_enabled()
        if self._setup.until and gradients:
            self._setup.in_forward(self._torch)
        ended = recording.steps.forward(now, gradients, self.loaders.any_live())
        self._ended(recording, ended)
        if gradients and self.padding_checks.is_due(recording.index):
            self._check_padding(recording, (args, kwargs))
            self._note_zeros(recording, module, (args, kwargs))
        modules, _ = self._modules.get(module, (None, None))
        if modules is None:
            mark = self.meter.begin_apart()
            modules = sum(1 for _ in module.modules())
            self._modules[module] = modules, find_call_site()
            self.weights.of(module)
            self.meter.end_apart(mark)
        if self.inner_calls_cost:
            self.meter.estimated += modules * self.meter.frame_ns
        recording.called(modules)
        return recording.begin(rings.FORWARD, module)

    @guarded
    def enter_backward(self, outputs: Any = ()) -> int:
        """The autograd engine is called for ``outputs``."""
        recording = self._on_this_thread()
        if recording is None or self.fast_path.inside:
            return 0
        recording.steps.backward()
        if self._setup.until:
            self._setup.in_backward(self._torch)
        if self.padding_checks.is_due(recording.index):
            self._note_zero_terms(recording, outputs)
        if not recording.steps.has_optimized:
            self.weights.remember()
        return recording.begin(rings.BACKWARD)

    @guarded
    def leave(self, kind: int, start: int) -> None:
        """The forward or backward pass that began at ``start`` has returned or raised."""
        recording = self.recording
        if recording is None:
            return
        now = recording.end(kind, start)
        if kind == rings.BACKWARD and self._stepped_inside is not None:
            number, self._stepped_inside = self._stepped_inside, None
            self._optimizer_done(recording, number, now)

    # Optimizers, and steps

    @guarded
    def enter_optimizer(self, optimizer: Any) -> None:
        """``optimizer.step`` begins; the thread that does this is the one that trains."""
        recording = self._begin_in_trainer()
        if recording is not None:
            # Closures run before its end, and it writes to the weights between them.
            recording.steps.has_optimized = True
            self.optimizers.entered(optimizer, recording.begin(rings.OPTIMIZER))

    @guarded
    def leave_optimizer(self, optimizer: Any) -> None:
        """``optimizer.step`` ends."""
        events = self._close_fast_path(is_fed=False)
        recording = self._on_this_thread()
        start = self.optimizers.left(optimizer) if recording is not None else 0
        if recording is not None and start:
            now = recording.end(rings.OPTIMIZER, start)
            self._optimizer_left(recording, optimizer, now, events)

    @guarded
    def skipped_optimizer(self, optimizer: Any) -> None:
        """A gradient scaler left out ``optimizer.step`` because gradients were not finite."""
        events = self._close_fast_path(is_fed=False)
        recording = self._begin_in_trainer()
        if recording is not None:
            self._optimizer_left(recording, optimizer, recording.now(), events)

    @property
    def optimizer_steps(self) -> int:
        """Number of optimizer steps that were seen to end."""
        return self.optimizers.finished + self.fast_path.finished

    def _optimizer_left(
        self, recording: Recording, optimizer: Any, now: int, events: list[int]
    ) -> None:
        """``events`` of the step were on the fast path before the optimizer step."""
        number = self.optimizers.number(optimizer)
        if not self.fast_path.goes_back:
            ended = self._optimizer_done(recording, number, now)
            self._open_without_loader(recording, ended, number, now, events)
            return
        # Hooks of parameters step while the gradients of others are still to come, hundreds of them
        # in one pass, which is one step of the loop. Nor may torch's profiler start or end there:
        # the autograd engine then restores the state that the thread had when it called.
        before = self._stepped_inside
        self._stepped_inside = number if before is None else min(before, number)

    def _optimizer_done(self, recording: Recording, number: int, now: int) -> list[Boundary]:
        ended = recording.steps.optimizer(number, now, self.loaders.any_live())
        self._ended(recording, ended)
        return ended

    @guarded
    def end_step(self, kind: str) -> None:
        """The script says that a step of ``kind`` has ended; its thread is the one that trains."""
        recording = None if self.fast_path.inside else self._begin_in_trainer()
        if recording is not None:
            has_begun, now = recording.has_begun, recording.now()
            self._ended(recording, recording.steps.end_explicitly(kind, now if has_begun else None))

    def _ended(self, recording: Recording, boundaries: list[Boundary]) -> None:
        if not boundaries:
            return
        last = boundaries[-1]
        self.loaders.step_ended(last.kind)
        is_unseen = last.kind == TRAIN and not last.forwards
        self._steps_without_forward = self._steps_without_forward + 1 if is_unseen else 0
        if self._steps_without_forward == STEPS_WITHOUT_FORWARD:
            self.notes.write("warning", {"message": UNSEEN})
        recording.ended(boundaries)
        if self.padding_checks.is_due(recording.index - 1):
            self.padding_checks.count(recording.index)
        self._note_compilations(recording)
        is_early = self._setup.until and last.kind == TRAIN
        if is_early and self._setup.has_trained(self._torch):
            self._note_settings()
        if not self._setup.until and self._looks.are_due():
            self._note_look(recording)

    # Notes beside the steps

    @guarded_and_timed
    def _check_padding(self, recording: Recording, batch: Any) -> None:
        """Note how much of ``batch``, or of a model's arguments, is padding."""
        note = self.padding_checks.check(self._torch, batch)
        if note is not None:
            self.notes.write("padding", note, recording.index)
            self.padding_checks.count(recording.index)

    @guarded_and_timed
    def _note_zeros(self, recording: Recording, module: Any, given: Any) -> None:
        """Note large matrices among what ``module`` is ``given`` that are nearly all zeros."""
        if not is_profiling(self._torch):
            for note in attempt(nearly_empty, self._torch, module, given) or ():
                self.notes.write("zeros", note, recording.index)

    @guarded_and_timed
    def _note_zero_terms(self, recording: Recording, outputs: Any) -> None:
        if is_profiling(self._torch):
            return
        note = attempt(terms_times_zero, self._torch, outputs)
        if note is not None:
            self.notes.write("zero_terms", note, recording.index)

    def _note_compilations(self, recording: Recording) -> None:
        for duration, data in self._compilations.new():
            self.notes.write("compile", data, recording.index, duration)

    @guarded_and_timed
    def _note_settings(self) -> None:
        optimizers = self.made_optimizers()
        called = {module: site for module, (_, site) in list(self._modules.items())}
        self.notes.write("settings", self._setup.note(self._torch, optimizers, called))
        self._noted, self._setup.left = WeakSet(optimizers), None

    @guarded_and_timed
    def _note_look(self, recording: Recording) -> None:
        modules, optimizers = self.called_modules(), self.made_optimizers()
        note = self._looks.look(self._torch, modules, list(optimizers))
        if note is None:
            return
        self.notes.write("look", note, recording.index)
        if self._setup.left is not None:
            self._note_settings()
        elif any(optimizer not in self._noted for optimizer in optimizers):
            with self._torch._C.DisableTorchFunction():
                self._setup.left = gradients(own_parameters(all_modules(modules)))

    def called_modules(self) -> list[Any]:
        """The outermost modules called so far."""
        return list(self._modules)

    def made_optimizers(self) -> dict[Any, CallSite | None]:
        """All known optimizers, and where they were made."""
        sites = dict(self.optimizer_sites)
        for reference, _ in self.optimizers.known():
            optimizer = reference()
            if optimizer is not None:
                # Not every optimizer is constructed: some are copied or unpickled.
                sites.setdefault(optimizer, None)
        return sites

    @guarded
    def enter_save(self) -> int:
        """``torch.save`` begins; 0 where nothing is recorded."""
        return perf_counter_ns() if self.recording is not None else 0

    @guarded_and_timed
    def leave_save(self, args: tuple[Any, ...], start: int) -> None:
        """``torch.save`` of ``args`` has returned or raised; ``start`` is from ``enter_save``."""
        duration = perf_counter_ns() - start
        recording = self.recording
        note = self._saves.add(find_call_site(), duration) if recording else None
        if recording is not None and note is not None:
            trains = recording.thread == get_ident()
            index = self.fast_path.index if self.fast_path.is_open else recording.index
            size = attempt(file_size, args[1]) if len(args) > 1 else None
            data = {**note[1], "trains": trains, "bytes": size}
            self.notes.write("save", data, index, note[0])

    @guarded_and_timed
    def foreign_profiler(self, profiler: Any, begins: bool) -> None:
        """The script starts a profiler of its own, or has ended it."""
        if self.recording is not None:
            self.recording.foreign_profiler(profiler, begins)

    # Constructors, whose arguments may be overridden

    def construct(
        self, begin: Callable[..., Any], thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to construct ``thing`` with: those that ``begin`` returns, if any."""
        return self._construct(begin, thing, args, kwargs) or (args, kwargs)

    @guarded_and_timed
    def _construct(self, begin: Callable[..., Any], thing: Any, args: Any, kwargs: Any) -> Any:
        return begin(self, thing, args, kwargs, find_call_site())

    @guarded_and_timed
    def constructed(self, end: Callable[[Session, Any], None], thing: Any) -> None:
        """The constructor of ``thing`` has returned."""
        end(self, thing)


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
