"""Counts the calls that make the host wait for the GPU, by the line that makes them.

Opt-in, and only while a window is open: functions of torch are replaced for those steps and put
back exactly. ``Tensor.item`` then takes 1.4 us instead of 0.14, an index 3.0 instead of 0.8.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, FrameType, MethodType
from typing import Any

from ..safety.signal_handlers import raised_by_handler

MOST_SITES = 50
"""Sites handed over, the longest first."""

UNKNOWN = -1
"""Duration in ns of a call that was only counted."""


class Sites:
    """Calls by the user's innermost line; code that is installed or of Python is skipped."""

    def __init__(self, torch: Any) -> None:
        self._sites: dict[tuple[int, int, str], dict[str, Any]] = {}
        self._is_own: dict[int, bool] = {}
        """By id of a code object, as its hash covers all its content."""
        self._codes: list[CodeType] = []
        # Directories with code that is not the user's, besides installed packages: a checkout of
        # torch, and code that Python runs without a file.
        directories = (
            Path(torch.__file__).parent,
            Path(__file__).parents[1],
            Path(os.__file__).parent,
        )
        self._libraries = (*(f"{directory}{os.sep}" for directory in directories), "<frozen")

    def add(self, name: str, frame: FrameType | None, time: int) -> None:
        """A call of ``name`` from ``frame`` has taken ``time`` ns, or ``UNKNOWN``."""
        while frame is not None:
            code = frame.f_code
            own = self._is_own.get(id(code))
            if own or (own is None and self._learn(code)):
                break
            frame = frame.f_back
        else:
            return
        key = (id(code), frame.f_lasti, name)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = {
                "call": name,
                "file": code.co_filename,
                "line": frame.f_lineno or 0,
                "function": getattr(code, "co_qualname", code.co_name),
                "count": 0,
                "time": 0,
                "longest": 0,
            }
        site["count"] += 1
        if time == UNKNOWN:
            site["time"] = site["longest"] = UNKNOWN
        else:
            site["time"] += time
            site["longest"] = max(site["longest"], time)

    def found(self) -> list[dict[str, Any]]:
        """Calls by line: ``count``, ``time`` in all and ``longest`` in ns, -1 if unknown."""
        return sorted(self._sites.values(), key=lambda site: -site["time"])[:MOST_SITES]

    def _learn(self, code: CodeType) -> bool:
        """Whether ``code`` is the user's own."""
        file = code.co_filename
        is_installed = "/site-packages/" in file or "/dist-packages/" in file
        own = not (is_installed or file.startswith(self._libraries))
        self._is_own[id(code)] = own
        self._codes.append(code)
        return own


_TEXT = re.compile(
    "called a synchronizing CUDA operation|Synchronization debug mode is a prototype"
)

_WARNS = 1
"""The mode that warns, by torch's number."""


class SyncWarnings:
    """Calls ``report`` with the calling frame of each operation that waited.

    ``torch.cuda.set_sync_debug_mode`` has torch warn of each, also of those without a name. These
    warnings are kept from the script: they are counted and never shown, whatever its filters are.
    """

    def __init__(self, torch: Any, report: Callable[[FrameType | None], object]) -> None:
        self._torch = torch
        self._report = report
        self._filter = ("always", _TEXT, Warning, None, 0)
        self._show = self._on_warning
        self._before: Callable[..., Any] = warnings.showwarning
        self._is_on = False

    def begin(self) -> None:
        """Begin, unless the script itself has turned these warnings on."""
        if self._torch.cuda.get_sync_debug_mode():
            return
        self._is_on = True
        self._before = warnings.showwarning
        # Not by ``warnings.filterwarnings``: that would show again all warnings that the
        # interpreter shows once a line.
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        warnings.showwarning = self._show
        self._torch._C._cuda_set_sync_debug_mode(_WARNS)

    def end(self) -> None:
        """Restore everything, except what the script has changed meanwhile."""
        if not self._is_on:
            return
        self._is_on = False
        if self._torch.cuda.get_sync_debug_mode() == _WARNS:
            self._torch._C._cuda_set_sync_debug_mode(0)
        if warnings.showwarning is self._show:
            warnings.showwarning = self._before
        filters: Any = warnings.filters
        for at, entry in enumerate(filters):
            if entry is self._filter:
                del filters[at]
                break

    def _on_warning(self, message: Any, *args: Any, **kwargs: Any) -> None:
        if not _TEXT.search(str(message)):
            self._before(message, *args, **kwargs)
        elif self._is_on and "called" in str(message):
            self._report(sys._getframe(1))


class CountedCall:
    """Takes the place of ``original``, and is equal to it: tables of functions that subclasses of
    tensors keep (``__torch_function__``) find it under the same key."""

    def __init__(
        self, counter: SyncCounter, original: Any, name: str, counts: Callable[..., bool]
    ) -> None:
        self._counter = counter
        self._original = original
        self._name = name
        self._counts = counts

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, and count the call."""
        counter = self._counter
        if counter.is_counting or get_ident() != counter.thread:
            return self._original(*args, **kwargs)
        counter.is_counting = True
        counter.has_waited = False
        start = perf_counter_ns()
        try:
            result = self._original(*args, **kwargs)
            self._count(args, kwargs, result, perf_counter_ns() - start)
            return result
        finally:
            counter.is_counting = False

    def _count(self, args: tuple[Any, ...], kwargs: Any, result: Any, time: int) -> None:
        counter = self._counter
        try:
            if counter.has_waited or self._counts(args, kwargs, result):
                counter.sites.add(self._name, sys._getframe(2), time)
        except Exception as error:
            if raised_by_handler(error):
                raise
            # The script's call has succeeded already.
            counter.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._original == other) or self is other

    def __hash__(self) -> int:
        return hash(self._original)


class CountedMethod(CountedCall):
    """Takes the place of a method, and binds as one."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)


READING = (
    *("item", "tolist", "cpu", "numpy", "nonzero"),
    *("__bool__", "__float__", "__int__", "__index__"),
)
"""Methods of a tensor that need its values on the host."""

COPYING = ("to", "cuda")
"""Methods of a tensor that wait where they copy between the host and a device."""

INDEXING = ("__getitem__", "__setitem__")
"""Methods of a tensor that wait where a mask decides how many elements are chosen."""

FUNCTIONS = ("nonzero", "equal")
"""Functions of torch that need values on the host."""

OPERATION = "an operation"
"""Name for calls that only torch knows to have waited."""

COMPILED = (
    "synchronizing calls were not counted: the training runs compiled functions, and counting "
    "would cause more graph breaks"
)
"""Name by the warning without a GPU. With one, torch itself warns, of compiled operations too."""

_MISSING = object()


class SyncCounter:
    """Counts calls of the thread that begins it, without changing what they do."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.uses_gpu = bool(torch.cuda.is_initialized())
        """Whether calls that wait for a GPU are counted; else those that would if there was one."""
        self.is_counting = False
        """Whether a counted call is in progress: calls inside it are part of it."""
        self.thread = get_ident()
        self._replaced: list[tuple[Any, str, Any]] = []
        self.sites = Sites(torch)
        self.error: Exception | None = None
        """Why a call could not be counted; the call itself succeeds."""
        self.has_waited = False
        """Whether torch has warned of the current counted call."""
        self._warnings = SyncWarnings(torch, self._waited) if self.uses_gpu else None

    def begin(self) -> str | None:
        """Begin to count; returns the reason if that is not possible here."""
        is_compiled = _runs_compiled()
        if is_compiled and not self.uses_gpu:
            return COMPILED
        try:
            if not is_compiled:
                self._replace_all()
            if self._warnings is not None:
                self._warnings.begin()
        except BaseException:
            self.end()
            raise
        return None

    def end(self) -> None:
        """Restore everything. Any thread may call this, several times.

        Raises:
            RuntimeError: a call could not be counted; everything is restored all the same.
        """
        if self._warnings is not None:
            self._warnings.end()
        while self._replaced:
            owner, name, before = self._replaced.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        error, self.error = self.error, None
        if error is not None:
            raise RuntimeError("not all synchronizing calls were counted") from error

    def waits(self, tensor: Any) -> bool:
        """Whether reading the values of ``tensor`` is counted."""
        is_cpu: bool = tensor.is_cpu
        return is_cpu is not self.uses_gpu

    def _waited(self, frame: FrameType | None) -> None:
        if get_ident() != self.thread:
            return
        if self.is_counting:
            self.has_waited = True
        else:
            self.sites.add(OPERATION, frame, UNKNOWN)

    def _replace_all(self) -> None:
        torch, cuda = self._torch, self._torch.cuda
        calls: list[tuple[Any, tuple[str, ...], Callable[..., bool]]] = [
            (torch.Tensor, READING, self._reads),
            (torch.Tensor, COPYING, self._copies),
            (torch.Tensor, INDEXING, self._chooses),
            (torch, FUNCTIONS, self._reads),
        ]
        if self.uses_gpu:
            waiting = (cuda, cuda.Event, cuda.Stream)
            calls += [(owner, ("synchronize",), lambda *_: True) for owner in waiting]
        for owner, names, counts in calls:
            for name in names:
                self._replace(owner, name, counts)

    def _replace(self, owner: Any, name: str, counts: Callable[..., bool]) -> None:
        original = getattr(owner, name)
        before = vars(owner).get(name, _MISSING)
        is_method = isinstance(owner, type)
        shown = {"__getitem__": "x[mask]", "__setitem__": "x[mask] = y"}.get(name, name.strip("_"))
        call = (CountedMethod if is_method else CountedCall)(self, original, shown, counts)
        setattr(owner, name, call)
        self._replaced.append((owner, name, before))

    def _reads(self, args: tuple[Any, ...], _: dict[str, Any], __: Any) -> bool:
        first = args[0] if args else None
        return isinstance(first, self._torch.Tensor) and self.waits(first)

    def _copies(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """``non_blocking`` copies do not wait."""
        flags = [value for value in args[1:] if isinstance(value, bool)]
        if kwargs.get("non_blocking") or (flags and flags[0]):
            return False
        return bool(args[0].is_cpu) is not bool(getattr(result, "is_cpu", args[0].is_cpu))

    def _chooses(self, args: tuple[Any, ...], _: dict[str, Any], __: Any) -> bool:
        if len(args) < 2 or not self.waits(args[0]):
            return False
        index = args[1] if isinstance(args[1], tuple) else args[1:2]
        kinds = (self._torch.bool, self._torch.uint8)
        return any(isinstance(part, self._torch.Tensor) and part.dtype in kinds for part in index)


def _runs_compiled() -> bool:
    """Whether torch.compile has compiled any frame in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames", {}).get("total"))
