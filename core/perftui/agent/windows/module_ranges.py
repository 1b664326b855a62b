"""Ranges that show in which module each operator ran, while a window is open."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from threading import get_ident
from typing import Any

from ..hooks.around import dispatches, pass_by
from .ranges import Marks, Ranges, printable_name

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
