"""What slows a process and shows in no trace, looked at a few times a run and noted as ``look``.

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
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import Any

from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .model import all_modules, held_by, own_parameters

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
                floats = (ctypes.c_float * RUN).from_address(first + 4 * offset)
                values = sorted(map(abs, floats))
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
