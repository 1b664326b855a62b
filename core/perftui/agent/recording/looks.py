"""What slows a process and shows in no trace, looked at a few times a run and noted as ``look``.

Looking changes nothing: no operator of torch runs, nothing of the user's is called, nothing kept.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import sys
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
            "tools": [*(attempt(tools) or ()), *(attempt(modes, torch) or ())],
            "slowed": attempt(slowed),
            **(attempt(counts, torch, modules, optimizers) or {}),
            "subnormal": attempt(subnormal, torch, optimizers),
        }
        cost = perf_counter_ns() - now
        self._next = now + max(LEAST_PAUSE_NS, (now - self._first) // PART, TIMES_COST * cost)
        return note


def tools() -> list[dict[str, Any]]:
    """What traces or checks all of this thread's Python."""
    hooks = (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    found = [{"by": by, **described(hook)} for by, hook in hooks if hook is not None]
    monitoring: Any = getattr(sys, "monitoring", None)
    # Whether a tool has events only for single functions is not known.
    names = map(monitoring.get_tool, range(6)) if monitoring is not None else ()
    found += [{"by": "sys.monitoring", "name": str(name)} for name in names if name is not None]
    memory: Any = sys.modules.get("tracemalloc")
    switches = {
        "-X dev": sys.flags.dev_mode,
        "-X importtime": "importtime" in sys._xoptions,
        "a debug build": hasattr(sys, "gettotalrefcount"),
        "gc.set_debug": gc.get_debug(),
        "tracemalloc": "tracemalloc" in sys._xoptions or (memory and memory.is_tracing()),
    }
    return [*found, *({"by": name} for name, is_on in switches.items() if is_on)]


def modes(torch: Any) -> list[dict[str, Any]]:
    """What each operator or call of torch passes through on its way, in Python."""
    c = torch._C
    stacks = (
        ("TorchDispatchMode", c._len_torch_dispatch_stack(), c._get_dispatch_stack_at),
        ("TorchFunctionMode", c._len_torch_function_stack(), c._get_function_stack_at),
    )
    return [
        {"by": by, "name": type(mode_at(at)).__qualname__}
        for by, length, mode_at in stacks
        for at in range(length)
    ]


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
    called, compared = (min(_timed(call) for _ in range(ROUNDS)) for call in (_add, ZEROS.count))
    return called / max(compared, 1)


def _timed(call: Callable[[int], object]) -> int:
    start = perf_counter_ns()
    for number in range(CALLS):
        call(number)
    return perf_counter_ns() - start


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


TYPES = {
    "torch.float64": (ctypes.c_double, sys.float_info.min),
    "torch.float32": (ctypes.c_float, 2.0**-126),
}
"""Type of the values, and the least that is normal. Numbers of 16 bits are computed in float32,
where theirs are normal."""

TENSORS, RUNS, RUN = 4, 2, 32
"""Of 4 parameters, their gradients and their optimizer's state: twice 32 values of each."""


def subnormal(torch: Any, optimizers: list[Any]) -> list[int]:
    """Subnormal numbers among some values in the memory of this process, and how many were read."""
    small = read = 0
    with torch._C.DisableTorchFunction():
        for tensor in _some_tensors(torch, optimizers):
            kind, normal = TYPES[str(tensor.dtype)]
            first, left = tensor.data_ptr(), tensor.numel() - RUN
            for run in range(RUNS if first and left >= 0 else 0):
                at = first + left * run // (RUNS - 1) * ctypes.sizeof(kind)
                # Each of these calls is one for a tracer, however many values it has.
                values = sorted(map(abs, (kind * RUN).from_address(at)))
                if not math.isnan(math.fsum(values)):
                    small += bisect_left(values, normal) - bisect_right(values, 0.0)
                    read += RUN
    return [small, read]


def _some_tensors(torch: Any, optimizers: list[Any]) -> Iterator[Any]:
    held = [(parameter, of) for of in optimizers for parameter in held_by(of)]
    for parameter, optimizer in held[:: max(len(held) // TENSORS, 1)][:TENSORS]:
        state = optimizer.state.get(parameter)
        for tensor in (parameter, parameter.grad, *(state.values() if type(state) is dict else ())):
            is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
            is_plain = is_plain and tensor.layout is torch.strided and tensor.is_contiguous()
            if is_plain and tensor.device.type == "cpu" and str(tensor.dtype) in TYPES:
                yield tensor
