"""The kind of each event, by its category and name; and values computed once per trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import Intervals, mask_of, numbered, union, unite
from perftui.trace.columns.arrays import FAR, downcast, time_outliers
from perftui.trace.model import (
    ANNOTATION,
    CPU_OP,
    DERIVED,
    DEVICE_ACTIVITY,
    KERNEL,
    LAUNCHES,
    NONE,
    PYTHON,
    XPU_WAIT,
    Int64,
    Ints,
    Mask,
    Trace,
)

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def once(
    compute: Callable[Concatenate[Trace, Arguments], Found],
) -> Callable[Concatenate[Trace, Arguments], Found]:
    """Compute ``compute`` once for each trace and arguments, which must be hashable.

    Returned arrays are read-only. A result must not refer to the trace: that would keep both in
    memory for ever.
    """
    results: WeakKeyDictionary[Trace, dict[object, Found]] = WeakKeyDictionary()

    @wraps(compute)
    def found(trace: Trace, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        of_trace = results.setdefault(trace, {})
        key = (args, tuple(kwargs.items()))
        if key not in of_trace:
            result = compute(trace, *args, **kwargs)
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
            of_trace[key] = result
        return of_trace[key]

    return found


OWN_MARK = "perftui::"
"""Prefix of ranges that the recorder's agent marks in a window: ``perftui::forward`` ..."""

STEP = re.compile(r"ProfilerStep#(\d+)$")
FETCH = re.compile(r"enumerate\(DataLoader\)#.*__next__$")
OPTIMIZER_STEP = "Optimizer.step#"
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
_MARKS = re.compile(
    rf"ProfilerStep|enumerate\(DataLoader\)|Optimizer\.(step|zero_grad)|{OWN_MARK}|\[pytorch\|"
)
_MODULE = re.compile(r"nn\.Module: ")
_BACKWARD = re.compile(r"autograd::engine::|torch::autograd::|.*Backward\d*$")
_ENGINE = re.compile(r"autograd::engine::|torch::autograd::|\w*Backward\d+$")
_OF_GPU = re.compile(r"aten::_?(cudnn|miopen)_(?!is_acceptable)")
COMMUNICATION_KERNEL = re.compile(
    r"nccl|rccl|hccl|msccl|oneccl|xccl|nvshmem|userbuffers|\b(dpsk|deep_?ep)::|multimem_"
    r"|cross_device_reduce|(one|two)_?shot_?(all|reduce)|(?<!block)(?<!warp)all_?reduce",
    re.IGNORECASE,
)
"""Kernels of the libraries, of DeepEP (``dpsk::ep``), of NVSHMEM and symmetric memory, and the
all-reduces of vLLM, SGLang, FlashInfer, TensorRT-LLM and Transformer Engine."""
_HOST_COLLECTIVE = re.compile(r"(gloo|mpi|ucc|xccl|ccl):")
_COLLECTIVE_CALL = re.compile(r"c10d::|_c10d_functional::")
_SYNCHRONISING_CALL = re.compile(
    r"(\w*[sS]ynchronize(Stream|Device|Event)?"
    r"|(cuda|hip)Memcpy(ToSymbol|FromSymbol|2D|WithStream|DtoH|HtoD|DtoD)?"
    r"|cuMemcpy(DtoH|HtoD|DtoD)?_v2"
    r"|(ur|pi)(QueueFinish|Events?Wait))"
    r"(_ptsz|_ptds|_spt|_v\d+)*$"
)
"""In CUDA, HIP, Level Zero (``zeEventHostSynchronize``), SYCL's runtimes (``urQueueFinish``), MTIA
(``synchronizeStream``) and most others; the suffixes stand for versions and per-thread streams."""

_SYNCHRONISING_OP = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"}
)
_ALLOCATION = re.compile(
    r"(cuda|hip)(Malloc|Free|HostAlloc|HostFree|FreeHost|MallocHost|HostMalloc|ExtMalloc)\w*$"
    r"|(cuda|hip|cuMem)Host(Unr|R)egister"
    r"|cuMem(?!cpy|set)|hipMem(Create|Release|Map|Unmap|SetAccess|Address)"
    r"|ze(Mem(Alloc|Free)|VirtualMem|PhysicalMem)|(ur|piext|pi)USM\w*(Alloc|Free)"
)
DRIVER_LOADING = frozenset(
    {"Driver Compiler", "Runtime Triggered Module Loading", "Lazy Function Loading"}
)
_DRIVER_OVERHEAD = DRIVER_LOADING | {"Command Buffer Full"}
"""Work that CUPTI lists as overhead though the driver also does it without a profiler."""

_COPY = re.compile(r"(cuda|hip|cu)Memcpy\w*Async")
BLOCKING_COPY = 100_000
"""ns from which a call that should only enqueue a copy has waited for it, as with pageable memory:
enqueuing takes 5 to 50 us."""

_PROFILER = re.compile(rf"{OWN_MARK}profiler|profiler::|PyTorch Profiler|Activity Buffer Request")


def named(trace: Trace, matches: Callable[[str], object]) -> Mask:
    """Mask of rows whose name satisfies ``matches``, called once for each distinct name."""
    accepted = [number for number, name in enumerate(trace.names) if matches(name)]
    return numbered(trace.name, accepted, len(trace.names))


@once
def devices(trace: Trace) -> Ints:
    """Device of each row; NONE on the CPU."""
    of_track = downcast(np.array([track.device for track in trace.tracks], dtype=np.int64))
    return of_track[trace.track]


@once
def on_cpu(trace: Trace) -> Mask:
    """Rows of CPU threads."""
    mask: Mask = devices(trace) == NONE
    return mask


@once
def believable(trace: Trace) -> Mask:
    """Rows with plausible times: their starts and ends are not hours away from all others."""
    mask = np.ones(len(trace), dtype=bool)
    apart = time_outliers(trace.start)
    if apart is not None:
        mask[apart.rows] = False
    mask &= trace.duration < int(trace.start[mask].max()) + FAR - trace.start
    return mask


@once
def on_thread(trace: Trace) -> Mask:
    """Rows of CPU threads in the file, without those derived by analysis."""
    return on_cpu(trace) & ~trace.in_category(*DERIVED)


@once
def device_activity(trace: Trace) -> Mask:
    """Kernels, copies and sets: what keeps a device busy."""
    return trace.in_category(*DEVICE_ACTIVITY)


@once
def communication(trace: Trace) -> Mask:
    """Kernels of a communication library."""
    return trace.in_category(KERNEL) & named(trace, COMMUNICATION_KERNEL.search)


@once
def host_collectives(trace: Trace) -> Mask:
    """Collectives that a CPU library marks on its own threads, from the call until all data is
    through; and the calls themselves."""
    marked = trace.in_category(ANNOTATION) & named(trace, _HOST_COLLECTIVE.match)
    return on_cpu(trace) & (marked | collective_calls(trace))


@once
def collective_calls(trace: Trace) -> Mask:
    """Operators of ``torch.distributed`` that begin a collective."""
    return trace.in_category(CPU_OP) & named(trace, _COLLECTIVE_CALL.match)


@once
def operators(trace: Trace) -> Mask:
    """CPU operators, without marks that older versions wrote as operators."""
    return trace.in_category(CPU_OP) & ~named(trace, _MARKS.match)


@once
def of_pytorch(trace: Trace) -> Mask:
    """Operators of PyTorch's own library."""
    return operators(trace) & named(trace, lambda name: name.startswith("aten::"))


@once
def only_on_gpu(trace: Trace) -> Mask:
    """Operators that only exist for GPUs: they prove one, even if none was recorded."""
    return operators(trace) & named(trace, _OF_GPU.match)


@once
def of_autograd(trace: Trace) -> Mask:
    """Wrappers of the autograd engine around operators, and its own nodes; nodes of scripts, such
    as ``MyFunctionBackward``, have no number."""
    return operators(trace) & named(trace, _ENGINE.match)


@once
def ranges(trace: Trace) -> Mask:
    """Ranges marked on the CPU by the script, PyTorch or the agent."""
    marked = trace.in_category(CPU_OP) & named(trace, _MARKS.match)
    return (trace.in_category(ANNOTATION) & on_cpu(trace)) | marked


@once
def _range_rows(trace: Trace) -> Int64:
    return np.flatnonzero(ranges(trace))


def ranges_named(trace: Trace, matches: Callable[[str], object]) -> Mask:
    """Ranges whose name satisfies ``matches``: as there are few, other rows are not examined."""
    rows = _range_rows(trace)
    numbers = trace.name[rows]
    accepted = np.zeros(len(trace.names), dtype=bool)
    for number in np.flatnonzero(np.bincount(numbers)).tolist():
        accepted[number] = bool(matches(trace.names[number]))
    return mask_of(len(trace), rows[accepted[numbers]])


@once
def launches(trace: Trace) -> Mask:
    """Calls of the runtime or driver."""
    return trace.in_category(*LAUNCHES)


@once
def input_wait(trace: Trace) -> Mask:
    """The data loader wait: as marked by the agent, else by PyTorch."""
    marks = marked(trace, "input_wait")
    return marks if marks.any() else fetches(trace)


def fetches(trace: Trace) -> Mask:
    """The main thread waiting for a batch, as marked by PyTorch."""
    return ranges_named(trace, FETCH.match)


def optimizer(trace: Trace) -> Mask:
    """The optimizer's step and zero_grad, as marked by PyTorch."""
    return ranges_named(trace, _OPTIMIZER.match)


def optimizer_steps(trace: Trace) -> Mask:
    """The optimizer's steps only, as marked by PyTorch."""
    return ranges_named(trace, lambda name: name.startswith(OPTIMIZER_STEP))


@once
def backward(trace: Trace) -> Mask:
    """Operators that the autograd engine runs."""
    return operators(trace) & named(trace, _BACKWARD.match)


@once
def modules(trace: Trace) -> Mask:
    """Calls of modules, in traces with stacks."""
    return trace.in_category(PYTHON) & named(trace, _MODULE.match)


def module_calls(trace: Trace) -> Mask:
    """Calls of modules: as marked by the agent, else as in traces with stacks.

    The agent's name is the place in the model, torch's the class and a number.
    """
    marks = ranges_named(trace, _MODULE.match)
    return marks if marks.any() else modules(trace)


def module_of(name: str) -> str:
    """The module in the name of its call."""
    return _MODULE.sub("", name, count=1)


def marked(trace: Trace, phase: str) -> Mask:
    """Ranges that the agent marked for one phase."""
    return ranges_named(trace, f"{OWN_MARK}{phase}".__eq__)


@once
def synchronising(trace: Trace) -> Mask:
    """Calls and operators in which the host waits for the device, or until a copy is done."""
    waits = launches(trace) | (trace.in_category(XPU_WAIT) & on_cpu(trace))
    calls = waits & named(trace, _SYNCHRONISING_CALL.match)
    copies = launches(trace) & named(trace, _COPY.match) & (trace.duration >= BLOCKING_COPY)
    return calls | copies | (operators(trace) & named(trace, _SYNCHRONISING_OP.__contains__))


@once
def allocating(trace: Trace) -> Mask:
    """Calls that get memory from the driver, return or pin it."""
    return launches(trace) & named(trace, _ALLOCATION.match)


@once
def profiling(trace: Trace) -> Mask:
    """The profiler's own work."""
    marks = named(trace, _PROFILER.match) & ~operators(trace)
    overhead = trace.in_category("overhead") & ~named(trace, _DRIVER_OVERHEAD.__contains__)
    return on_cpu(trace) & (marks | overhead)


def of_any_thread(trace: Trace) -> Mask:
    """Host rows whose thread is not in the file: CUPTI's overhead, on process -1."""
    unknown = np.array([track.process == "-1" for track in trace.tracks], dtype=bool)
    rows: Mask = unknown[trace.track] & on_cpu(trace)
    return rows


def covered(trace: Trace, rows: Mask) -> Intervals:
    """The time covered by any of ``rows``."""
    tracks = pairwise(track_bounds(trace).tolist())
    chosen = (np.flatnonzero(rows[first:last]) + first for first, last in tracks)
    return unite(*(busy(trace, part) for part in chosen))


def begun_in(trace: Trace, intervals: Intervals) -> Mask:
    """Which rows begin in ``intervals``."""
    mask: Mask = part_of_rows(trace, (intervals,)) != NONE
    return mask


def part_of_rows(trace: Trace, parts: Sequence[Intervals]) -> npt.NDArray[np.int8]:
    """Index of the one of ``parts`` (disjoint) in which each row begins; NONE outside all. Only
    edges of parts are searched for."""
    rows, changes = [np.zeros(1, dtype=np.int64)], [np.array([NONE])]
    for first, last in pairwise(track_bounds(trace).tolist()):
        start = trace.start[first:last]
        for number, part in enumerate(parts, 1):
            begin, end = first + np.searchsorted(start, (part.start, part.end))
            rows += [begin, end]
            changes += [np.full(len(part), number), np.full(len(part), -number)]
    edges = np.concatenate(rows)
    order = np.argsort(edges, kind="stable")
    lengths = np.diff(edges[order], append=len(trace))
    return np.repeat(np.cumsum(np.concatenate(changes)[order]).astype(np.int8), lengths)


def within(trace: Trace, rows: Int64, chosen: Mask) -> Mask:
    """Mask of the ``rows`` that are ``chosen`` or begin on their track before a chosen one ends;
    ``rows`` are in order of the trace."""
    bounds = np.searchsorted(rows, track_bounds(trace))
    mask: Mask = chosen.copy()
    for first, last in pairwise(bounds.tolist()):
        mine, start = chosen[first:last], trace.start[rows[first:last]]
        ends = np.where(mine, trace.ends_of(rows[first:last]), np.iinfo(np.int64).min)
        mask[first:last] |= start < np.maximum.accumulate(ends)
    return mask


def callers(trace: Trace, rows: Ints) -> Int64:
    """The parent row of each of ``rows``; NONE without one or for NONE."""
    return np.where(rows == NONE, NONE, trace.parent[rows]).astype(np.int64)


def under(trace: Trace, rows: Ints, chosen: Mask, levels: int) -> Mask:
    """Which of ``rows`` are ``chosen``, or less than ``levels`` below such a row."""
    result = np.zeros(len(rows), dtype=bool)
    for _ in range(levels):
        result |= chosen[rows] & (rows != NONE)
        rows = callers(trace, rows)
    return result


@once
def track_bounds(trace: Trace) -> Int64:
    """First row of each track, and the end of the last one."""
    return np.searchsorted(trace.track, np.arange(len(trace.tracks) + 1))


def busy(trace: Trace, rows: Int64 | Mask) -> Intervals:
    """When any of the rows runs."""
    return union(trace.start[rows], trace.ends_of(rows))
