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
from collections.abc import Iterable, Iterator
from functools import partial
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import Any

from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .model import all_modules, held_by, own_parameters

LEAST_PAUSE_NS = 500_000_000
PART = 8
"""A look comes half a second after the last one, or an eighth of the time since the first: some 90
in a day."""

TIMES_COST = 500
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
            "tools": attempt(tools),
            "interpreter": attempt(interpreter),
            "slowed": attempt(slowed),
            **(attempt(counts, torch, modules, optimizers) or {}),
            "subnormal": attempt(subnormal, torch, optimizers),
        }
        cost = perf_counter_ns() - now
        self._next = now + max(LEAST_PAUSE_NS, (now - self._first) // PART, TIMES_COST * cost)
        return note


def tools() -> list[dict[str, Any]]:
    """What is called for each line or function of this thread's Python, by what it uses."""
    hooks = (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    found = [{"by": by, **described(hook)} for by, hook in hooks if hook is not None]
    monitoring: Any = getattr(sys, "monitoring", None)
    for number in range(6) if monitoring is not None else ():
        name = monitoring.get_tool(number)
        # Events of single functions are not listed: a tool may have only such.
        if name is not None:
            found.append({"by": "sys.monitoring", "name": str(name)})
    return found


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


def interpreter() -> dict[str, Any]:
    """Debugging switches of Python that are on."""
    memory = sys.modules.get("tracemalloc")
    asked = {name: True for name in ("importtime", "tracemalloc") if name in sys._xoptions}
    switches = {
        "dev": sys.flags.dev_mode,
        "debug build": hasattr(sys, "gettotalrefcount"),
        "tracemalloc": memory is not None and memory.is_tracing(),
        "gc.set_debug": gc.get_debug(),
    }
    return {**asked, **{name: value for name, value in switches.items() if value}}


ROUNDS, CALLS = 5, 10
ZEROS = (0,) * 1000


def slowed() -> float:
    """Time of a short Python function, in times of 100 comparisons in C, which nothing traces."""
    call = min(_called() for _ in range(ROUNDS))
    return call * len(ZEROS) / 100 / CALLS / max(min(_compared() for _ in range(ROUNDS)), 1)


def _called() -> int:
    start = perf_counter_ns()
    for number in range(CALLS):
        _typical(number, 3)
    return perf_counter_ns() - start


def _typical(first: int, second: int) -> int:
    added = first + second
    both = [added, first]
    if second:
        added = both[0] - first
    return added


def _compared() -> int:
    start = perf_counter_ns()
    ZEROS.count(1)
    return perf_counter_ns() - start


HOOKS = {
    "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward pre-hooks",
    "_backward_hooks": "backward hooks",
    "_backward_pre_hooks": "backward pre-hooks",
    "_optimizer_step_pre_hooks": "optimizer hooks",
    "_optimizer_step_post_hooks": "optimizer hooks",
}
"""Attributes of modules and optimizers that hold hooks."""

MOST_MODULES = 1000


def counts(torch: Any, modules: Iterable[Any], optimizers: list[Any]) -> dict[str, Any]:
    """Numbers of things that a script may add to in each step, and where the newest of the hooks
    that are most is defined."""
    every = all_modules(modules)[:MOST_MODULES]
    hooks = [(w, vars(at).get(name)) for at in (*every, *optimizers) for name, w in HOOKS.items()]
    with torch._C.DisableTorchFunction():
        of_gradients = [p._backward_hooks for p in own_parameters(every).values()]
    hooks += [("hooks of gradients", held) for held in of_gradients]
    found: Counter[str] = Counter()
    most: dict[Any, Any] = {}
    for what, held in hooks:
        if held:
            found[what] += len(held)
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
