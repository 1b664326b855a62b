"""Notes beside the steps: compilations by ``torch.compile``, calls of ``torch.save``, and looks at
what slows a process and shows in no trace, a few times a run.

Looking changes nothing: no operator of torch runs, nothing of the user's is called, nothing kept.
"""

from __future__ import annotations

import _tracemalloc
import ctypes
import gc
import math
import os
import sys
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePath
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import Any

from ..hooks.call_site import CallSite
from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .model import all_modules, held_by, own_parameters

MOST_NOTED = 500
"""Compilations that are noted: each function is compiled a few times before torch gives it up."""

LONGEST = 300
"""Most characters of a reason."""


class Compilations:
    """New compilations of this process, each reported once; none from before a fork.

    They are read from a list that torch keeps anyway. Nothing listens to the compiler, and it is
    not imported where the script does not.
    """

    def __init__(self) -> None:
        compilations = _compilations()
        self._last: Any = compilations[-1] if compilations else None
        self._noted = 0

    def new(self) -> list[tuple[int, dict[str, Any]]]:
        """Duration in ns and data of a ``compile`` note for each new compilation."""
        newest = _compilations()
        # Usually there are none: this runs after many steps.
        if not newest or newest[-1] is self._last or self._noted >= MOST_NOTED:
            return []
        compilations = list(newest)
        last = next((at for at, entry in enumerate(compilations) if entry is self._last), -1)
        self._last = compilations[-1]
        new = compilations[last + 1 :][: MOST_NOTED - self._noted]
        self._noted += len(new)
        return [_note(entry) for entry in new]


def _compilations() -> Any:
    """The newest few compilations, oldest first; None if there were none."""
    return getattr(sys.modules.get("torch._dynamo.utils"), "_compilation_metrics", None)


def _note(metrics: Any) -> tuple[int, dict[str, Any]]:
    """Attributes differ between versions of torch; missing ones are None."""
    seconds = getattr(metrics, "entire_frame_compile_time_s", None) or 0.0
    microseconds = getattr(metrics, "duration_us", None)
    start = getattr(metrics, "start_time", None)
    duration = microseconds * 1000 if microseconds else round(seconds * 1e9)
    return duration, {
        "start": None if start is None else round(start * 1e9),
        "id": _text(getattr(metrics, "compile_id", None)),
        "function": _text(getattr(metrics, "co_name", None)),
        "file": _text(getattr(metrics, "co_filename", None)),
        "line": getattr(metrics, "co_firstlineno", None),
        "reason": _text(getattr(metrics, "recompile_reason", None)),
        "failure": _text(getattr(metrics, "fail_type", None)),
        "forward": getattr(metrics, "is_forward", None),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:LONGEST]


LEAST_SAVING_NS = 5_000_000
SHARE = 200
"""A note covers at least this part of all saving so far: some scripts save small things at every
step, for weeks."""


class Saves:
    """Sums up calls until they are worth a note."""

    def __init__(self) -> None:
        self._waiting: dict[CallSite | None, list[int]] = {}
        self._all = 0

    def add(self, site: CallSite | None, duration: int) -> tuple[int, dict[str, Any]] | None:
        """Duration in ns and data of a ``save`` note, None while calls are too short for one."""
        count_and_time = self._waiting.setdefault(site, [0, 0])
        count_and_time[0] += 1
        count_and_time[1] += duration
        self._all += duration
        count, together = count_and_time
        if together < max(LEAST_SAVING_NS, self._all // SHARE):
            return None
        del self._waiting[site]
        place = site._asdict() if site else {"file": None, "line": None}
        return together, {"count": count, **place}


def file_size(path: Any) -> int | None:
    """Bytes of what was written to ``path``; None where it is no path of a file."""
    return Path(path).stat().st_size if isinstance(path, (str, PurePath)) else None


LEAST_PAUSE_NS = 1_000_000_000
PART = 8
"""A look comes a second after the last one, or an eighth of the time since the first: some 90 in a
day."""

TIMES_COST = 1000
"""Least pause, as a multiple of what the last look took: large models take longer to go through."""


class Looks:
    """When to look, and what is seen."""

    def __init__(self) -> None:
        self._first = self._next = 0

    def are_due(self) -> bool:
        """Whether it is time to look again."""
        return perf_counter_ns() >= self._next

    def look(self, torch: Any, modules: list[Any], optimizers: list[Any]) -> dict[str, Any] | None:
        """The data of a ``look`` note; None while a profiler runs, which may trace calls itself."""
        if is_profiling(torch):
            return None
        now = perf_counter_ns()
        self._first = self._first or now
        note = {
            "tools": attempt(tools, torch),
            "slowed": attempt(slowed),
            **(attempt(counts, torch, modules, optimizers) or {}),
            "subnormal": attempt(subnormal, torch, optimizers),
        }
        cost = perf_counter_ns() - now
        self._next = now + max(LEAST_PAUSE_NS, (now - self._first) // PART, TIMES_COST * cost)
        return note


def tools(torch: Any) -> list[dict[str, Any]]:
    """What traces or checks all of this thread's Python, or each operator or call of torch."""
    c, monitoring = torch._C, getattr(sys, "monitoring", None)
    hooks = (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    found = [{"by": by, **described(hook)} for by, hook in hooks if hook is not None]
    # Whether a tool has events only for single functions is not known.
    names = map(monitoring.get_tool, range(6)) if monitoring is not None else ()
    found += [{"by": "sys.monitoring", "name": str(name)} for name in names if name is not None]
    for by, length, mode_at in (
        ("TorchDispatchMode", c._len_torch_dispatch_stack(), c._get_dispatch_stack_at),
        ("TorchFunctionMode", c._len_torch_function_stack(), c._get_function_stack_at),
    ):
        modes = map(mode_at, range(length))
        found += [{"by": by, "name": type(mode).__qualname__} for mode in modes]
    switches = {
        "-X dev": sys.flags.dev_mode,
        "a debug build": hasattr(sys, "gettotalrefcount"),
        "gc.set_debug": gc.get_debug(),
        "tracemalloc": _tracemalloc.is_tracing(),
    }
    return [*found, *({"by": name} for name, is_on in switches.items() if is_on)]


def described(function: Any) -> dict[str, Any]:
    """Name and place of a function; of any other object only its class: more would call it."""
    while type(function) in (partial, MethodType):
        function = function.func if type(function) is partial else function.__func__
    if type(function) is not FunctionType:
        kind = type(function)
        return {"name": f"{kind.__module__}.{kind.__qualname__}"}
    code = function.__code__
    file = os.path.realpath(code.co_filename)
    return {"name": function.__qualname__, "file": file, "line": code.co_firstlineno}


ROUNDS, CALLS = 4, 10
ZEROS = (0,) * 500


def slowed() -> float:
    """Time of a short Python function, in times of 500 comparisons in C, which nothing traces."""
    least: dict[Any, int] = {}
    for call in [_add, ZEROS.count] * ROUNDS:
        start = perf_counter_ns()
        for number in range(CALLS):
            call(number)
        took = perf_counter_ns() - start
        least[call] = min(took, least.get(call, took))
    called, compared = least.values()
    return called / max(compared, 1)


def _add(number: int) -> int:
    added = number + 3
    both = [added, number]
    if both:
        added = both[0] - number
    return added


MOST_MODULES = 1000


def counts(torch: Any, modules: Iterable[Any], optimizers: list[Any]) -> dict[str, Any]:
    """Numbers of things that a script may add to in each step, and where the newest of the hooks
    that are most is defined."""
    every = all_modules(modules)[:MOST_MODULES]
    hooks = [item for at in (*every, *optimizers) for item in vars(at).items()]
    with torch._C.DisableTorchFunction():
        of_gradients = [p._backward_hooks for p in own_parameters(every).values()]
    hooks += [("gradient_hooks", held) for held in of_gradients]
    found: Counter[str] = Counter()
    most: dict[Any, Any] = {}
    for name, held in hooks:
        if name.endswith("_hooks") and held:
            found[name.strip("_").replace("_", " ")] += len(held)
            most = max(most, held, key=len)
    found["parameter groups"] = sum(len(optimizer.param_groups) for optimizer in optimizers)
    found["threads"] = len(threading._active)  # type: ignore[attr-defined]
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        loggers = [logging.root, *logging.root.manager.loggerDict.values()]
        found["log handlers"] = sum(len(vars(logger).get("handlers", ())) for logger in loggers)
    newest = next(reversed(most.values()), None) if most else None
    return {"counts": found, "hook": None if newest is None else described(newest)}


LEAST_NORMAL = 2.0**-126
"""Of numbers of 32 bits. Those of 16 bits are computed in these, where theirs are normal."""

TENSORS, RUN = 4, 32
"""Of 4 parameters, their gradients and their optimizer's state: the first and last 32 values."""


def subnormal(torch: Any, optimizers: list[Any]) -> list[int]:
    """Subnormal numbers among some values in the memory of this process, and how many were read."""
    small = read = 0
    with torch._C.DisableTorchFunction():
        for tensor in _some_tensors(torch, optimizers):
            first, left = tensor.data_ptr(), tensor.numel() - RUN
            for offset in (0, left) if first and left >= 0 else ():
                # Each of these calls is one for a tracer, however many values it has.
                values = sorted(map(abs, (ctypes.c_float * RUN).from_address(first + 4 * offset)))
                if not math.isnan(math.fsum(values)):
                    small += bisect_left(values, LEAST_NORMAL) - bisect_right(values, 0.0)
                    read += RUN
    return [small, read]


def _some_tensors(torch: Any, optimizers: list[Any]) -> Iterator[Any]:
    held = [(parameter, of) for of in optimizers for parameter in held_by(of)]
    for parameter, optimizer in held[:: max(len(held) // TENSORS, 1)][:TENSORS]:
        state = optimizer.state.get(parameter)
        for tensor in (parameter, parameter.grad, *(state.values() if type(state) is dict else ())):
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                continue
            is_strided = tensor.layout is torch.strided and tensor.is_contiguous()
            if is_strided and tensor.device.type == "cpu" and tensor.dtype is torch.float32:
                # Sharding frees the storage of tensors that still have a size and an offset.
                end = 4 * (tensor.storage_offset() + tensor.numel())
                if end <= tensor.untyped_storage().nbytes():
                    yield tensor
