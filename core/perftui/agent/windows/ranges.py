"""Named ranges of time, for the profiler that records now and for NVIDIA's tools: of the step, and
of each module while a window is open."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..hooks.watch import dispatches, pass_by
from ..marks import LISTENER
from ..safety.meter import guarded
from .torch_window import is_profiling

if TYPE_CHECKING:
    from ..recording.session import Session
    from ..safety.meter import Meter
    from .windows import Windows

STEP_MARK = "ProfilerStep#"
"""The name by which other tools know steps."""

PHASE_MARK = "perftui::"

MOST_CHARACTERS = 200

# Kineto writes names into its JSON unescaped.
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')


def printable_name(name: str) -> str:
    """``name`` without characters that a range cannot have."""
    return _UNSAFE.sub("?", name)[:MOST_CHARACTERS].encode("utf-8", "replace").decode()


class Ranges:
    """Opens and closes ranges on the calling thread, innermost last.

    ``recorded`` writes them into torch's own profile, ``nvtx`` marks them for nsys, which takes
    CUDA. torch's ``record_function`` goes through its dispatcher: three times as long (5 us, not
    2), and a script's dispatch modes (selective checkpointing is one) would meet our ranges among
    its operators. These functions do not; torch's profiler marks with them, too.
    """

    def __init__(self, torch: Any, recorded: bool, nvtx: bool) -> None:
        self._are_recorded = recorded
        self._torch = torch
        self._begin = torch.autograd._record_function_with_args_enter if recorded else None
        self._end = torch.autograd._record_function_with_args_exit
        self._nvtx = torch.cuda.nvtx if nvtx else None

    def open(self, name: str) -> Any:
        """Begin the range ``name``; returns its handle for ``close``."""
        if self._nvtx is not None:
            self._nvtx.range_push(name)
        return None if self._begin is None else self._begin(name)

    @property
    def are_recorded_elsewhere(self) -> bool:
        """Whether ranges of a thread other than the training thread are recorded: nsys records all
        threads, torch's profiler those of the autograd engine."""
        return not self._are_recorded or is_profiling(self._torch)

    def close(self, handle: Any) -> None:
        """End the innermost open range, which ``open`` has begun."""
        if handle is not None:
            self._end(handle)
        if self._nvtx is not None:
            self._nvtx.range_pop()


class OpenRange:
    """An open range; it is closed and opened again where a step ends within it."""

    def __init__(self, name: str, handle: Any, phase: str, is_of_script: bool) -> None:
        self.name, self.handle = name, handle
        self.phase = phase
        """The phase of the step; empty for other ranges."""
        self.is_of_script = is_of_script


class Marks:
    """Open ranges on the training thread during a window.

    Ranges cost 2 us each, whether or not a profiler listens, so they exist only inside a window.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._open: list[OpenRange] = []
        """Phases, modules and ranges of the script, innermost last."""
        self._step: Any = None
        self._has_step = False

    @property
    def is_in_phase(self) -> bool:
        """Whether a phase of the step is open."""
        return any(entry.phase for entry in self._open)

    def begin_step(self, index: int) -> None:
        """End the step before, if any, and begin step ``index``.

        Ranges of the script that go on are split between both steps.
        """
        of_script = (at for at, entry in enumerate(self._open) if entry.is_of_script)
        depth = next(of_script, len(self._open))
        going_on = self._open[depth:]
        self._end(depth)
        self.end_step()
        self._step = self.ranges.open(f"{STEP_MARK}{index}")
        self._has_step = True
        for entry in going_on:
            entry.handle = self.ranges.open(entry.name)
            self._open.append(entry)

    def end_step(self) -> None:
        """End the current step."""
        if self._has_step:
            self._has_step = False
            self.ranges.close(self._step)

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self.begin_range(PHASE_MARK + phase, phase)

    def end(self, phase: str) -> None:
        """A phase ends; one that began before the window did has no range to end."""
        newest = next((entry for entry in reversed(self._open) if entry.phase), None)
        if newest is not None and newest.phase == phase:
            self.end_range(newest)

    def begin_range(self, name: str, phase: str = "", *, is_of_script: bool = False) -> OpenRange:
        """Begin a range, in a phase or not; returns the argument of ``end_range``."""
        opened = OpenRange(name, self.ranges.open(name), phase, is_of_script)
        self._open.append(opened)
        return opened

    def end_range(self, opened: OpenRange) -> None:
        """End a range and all ranges inside it, unless it has ended together with another."""
        if opened in self._open:
            self._end(self._open.index(opened))

    def end_all(self) -> None:
        """End all open ranges, innermost first."""
        self._end(0)
        self.end_step()

    def _end(self, depth: int) -> None:
        while len(self._open) > depth:
            self.ranges.close(self._open.pop().handle)


class Listener(ModuleType):
    """The module ``LISTENER``, which ``perftui.range`` and ``perftui.step`` look for."""

    def __init__(self, torch: Any, session: Session) -> None:
        super().__init__(LISTENER)
        self._is_compiling = torch.compiler.is_compiling
        self._session = session

    @property
    def meter(self) -> Meter:
        """Counts the time of guarded methods."""
        return self._session.meter

    def guards(self, error: BaseException) -> bool:
        """Stop the recording for an error of ours."""
        return self._session.guards(error)

    def begin(self, name: str) -> Callable[[], object] | None:
        """Begin a range; returns the function that ends it, None where it is not recorded."""
        # First: for the compiler it is a constant, so it makes no guard of what follows.
        if self._is_compiling() or self._open_windows() is None:
            return None
        return self._begin(name) or None

    def step(self, kind: str) -> None:
        """The script says that a step of ``kind`` has ended."""
        if not self._is_compiling():
            self._session.end_step(kind)

    def _open_windows(self) -> Windows | None:
        recording = self._session.recording
        windows = recording.windows if recording is not None else None
        return windows if windows is not None and windows.is_open else None

    @guarded
    def _begin(self, name: str) -> Callable[[], object] | None:
        windows = self._open_windows()
        marks = windows.marks if windows is not None else None
        if windows is None or marks is None:
            return None
        name = printable_name(name)
        if windows.thread == get_ident():
            return partial(self._end, marks.end_range, marks.begin_range(name, is_of_script=True))
        if not marks.ranges.are_recorded_elsewhere:
            return None
        return partial(self._end, marks.ranges.close, marks.ranges.open(name))

    @guarded
    def _end(self, end: Callable[[Any], object], opened: Any) -> None:
        end(opened)


MODULE_MARK = "nn.Module: "
"""Prefix of module names in torch's own profiler, where it records Python stacks."""

WRAPPED = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Attributes of torch's wrappers that hold the wrapped module."""

PARALLEL = ("DistributedDataParallel", "DataParallel")
"""Wrappers that hold the model as ``module``."""


class ModuleNames:
    """Names by place and class: ``nn.Module: encoder.layers.3.attn (MultiheadAttention)``.

    A module at two places has the name of the first, as in ``named_modules()``. The modules are
    kept alive meanwhile, so that no new module gets the id of one that is gone.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._roots: list[Any] = []

    def of(self, module: Any) -> str:
        """The name of ``module`` in the first named model that contains it."""
        if id(module) not in self._names:
            self._learn(module)
        return self._names[id(module)]

    def _learn(self, root: Any) -> None:
        self._roots.append(root)
        is_parallel = type(root).__name__ in PARALLEL
        # A class of the script may leave itself out of its own modules.
        for path, module in (*root.named_modules(), ("", root)):
            parts = path.split(".")
            if is_parallel and parts[0] == "module":
                del parts[0]
            place = ".".join(part for part in parts if part not in WRAPPED)
            kind = type(module).__name__
            name = MODULE_MARK + (f"{place} ({kind})" if place else kind)
            self._names.setdefault(id(module), printable_name(name))


class ModuleRanges:
    """A range around each call of a module, from ``open`` to ``close``.

    ``Module.__call__`` is replaced for that time only, so that modules cost nothing outside
    windows; replacing it, and having all methods of modules looked up anew, takes 0.5 ms.
    What torch.compile has compiled holds no calls of modules, so those have no ranges.

    An error of ours becomes a warning, after which there are no more ranges.
    """

    def __init__(self, torch: Any, ranges: Ranges, warn: Callable[[str], object]) -> None:
        self._torch = torch
        self._ranges = ranges
        self._warn = warn
        self._names = ModuleNames()
        self._marks: Marks | None = None
        self._thread = 0
        self._before: Any = None
        self._replacement: Any = None

    def open(self, marks: Marks) -> None:
        """Begin, with ``marks`` for the calling thread."""
        kind = self._torch.nn.Module
        self._thread = get_ident()
        self._marks = marks
        self._before = kind.__call__
        self._replacement = self._call(self._before)
        kind.__call__ = self._replacement

    def close(self) -> None:
        """Restore ``Module.__call__``; ``marks`` end the ranges that are open."""
        self._marks = None
        self._names = ModuleNames()
        kind = self._torch.nn.Module
        # Code that has wrapped it meanwhile goes on calling ours, which then does nothing.
        if kind.__call__ is self._replacement:
            kind.__call__ = self._before

    def begin_root(self, module: Any) -> None:
        """The outermost ``module`` of a forward pass is called, and its phase has begun."""
        marks = self._marks
        if marks is None:
            return
        try:
            marks.begin_range(self._names.of(module))
        except Exception as error:  # noqa: BLE001 - its phase must still be recorded
            self._fail(error)

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        make = _dispatching_call if dispatches(inspect.unwrap(original)) else _wrapping_call
        call = make(original, self._torch.compiler.is_compiling, self)
        for wrapper in (call, _called):
            pass_by(self._torch, wrapper, with_callees=False)
        return functools.wraps(original)(call)

    def begin(self, module: Any) -> Callable[[], None] | None:
        """Begin a range if one is due; returns the function that ends it."""
        marks = self._marks
        if marks is None:
            return None
        try:
            if get_ident() != self._thread:
                # A thread of the autograd engine, which recomputes checkpointed modules.
                ranges = self._ranges
                if not ranges.are_recorded_elsewhere:
                    return None
                return functools.partial(ranges.close, ranges.open(self._names.of(module)))
            if not marks.is_in_phase:
                # It begins a forward pass, which calls ``begin_root`` inside.
                return None
            return functools.partial(marks.end_range, marks.begin_range(self._names.of(module)))
        except Exception as error:  # noqa: BLE001 - the script's module must still be called
            self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        self._marks = None
        self._warn(f"modules were not marked: {type(error).__name__}: {error}")


def _dispatching_call(
    original: Callable[..., Any], is_compiling: Callable[[], bool], ranges: ModuleRanges
) -> Callable[..., Any]:
    """Do for the compiler what the replaced hook does.

    The compiler looks into whatever it meets, and guards it: it must meet the same things in the
    same places, or it compiles anew when the window opens or closes. That is also why the first of
    the captured variables, by name, is the same.
    """

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        return _called(original, ranges, self, args, kwargs)

    return call


def _wrapping_call(
    original: Callable[..., Any], is_compiling: Callable[[], bool], ranges: ModuleRanges
) -> Callable[..., Any]:
    """Wrap any ``Module.__call__``, for a torch that changed it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        return _called(original, ranges, self, args, kwargs)

    return call


def _called(
    original: Callable[..., Any],
    ranges: ModuleRanges,
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    end = ranges.begin(module)
    if end is None:
        return original(module, *args, **kwargs)
    try:
        return original(module, *args, **kwargs)
    finally:
        end()
