"""Names of events, by table: for people and for analysis."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from perftui.trace.model import ANNOTATION, CPU_OP, KERNEL, MEMCPY, MEMSET
from perftui.trace.nsys.database import (
    COPY_KINDS,
    MEMORY_KINDS,
    MPI_TABLES,
    SYNC_KINDS,
    StringTables,
)

_VERSION = re.compile(r"(?:_pt[sd][sz])?(?:_v\d{4,5})?$")
"""``cudaMemcpy_ptds_v7000``: the API version that introduced a call, and whether the default stream
is the thread's own. ``cuMemcpyDtoH_v2`` has a name of its own."""

_DRIVER_CALL = re.compile(r"cu[A-Z]")

_CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|char|short)\)(?=-?\d)")
"""``(int)4``: nsys's spelling of a numeric template argument."""

_OPERATOR_SUFFIX = re.compile(r", (?:seq|op_id) = -?\d+(?:, (?:op_id|sizes|input_op_ids) = .*)?$")
"""Suffix that ``torch.autograd.profiler.emit_nvtx`` appends to the name of a range (PyTorch,
``torch/csrc/profiler/util.cpp``, ``getNvtxStr``)."""

_OPERATOR = re.compile(r"[a-z_]\w*::\S|\w*Backward\d*$|detach_?$")
_DISPATCHED = re.compile(r"aten::\S")


@dataclass(frozen=True)
class Label:
    """Name and category of an event."""

    name: str
    category: str


def kernel_name(short: str | None, demangled: str | None) -> str:
    """The function with its template arguments: ``reduce_kernel<512, 1, at::MeanOps<float>>``.

    The short name alone would merge all elementwise kernels; the demangled one begins with a return
    type and namespaces and ends with parameters, which distinguish nothing.
    """
    if not short or not demangled:
        return short or demangled or "unknown kernel"
    # The function's own name precedes its template arguments or parameters.
    match = re.search(rf"(?<!\w){re.escape(short)}(?!\w)", demangled)
    if match is None or demangled[match.end() : match.end() + 1] != "<":
        return short
    return _CAST.sub("", demangled[match.start() : _closed(demangled, match.end())])


def _closed(text: str, opened: int) -> int:
    """Index after the ``>`` that closes the ``<`` at ``opened``, or the end if none does.

    Text in parentheses may hold comparisons, and does not count.
    """
    depth = parentheses = 0
    for index in range(opened, len(text)):
        letter = text[index]
        if letter in "([{":
            parentheses += 1
        elif letter in ")]}":
            parentheses -= 1
        elif parentheses == 0 and letter in "<>" and text[index - 1] != "-":
            depth += 1 if letter == "<" else -1
            if depth == 0:
                return index + 1
    return len(text)


def copy_name(constant: str, source: str, destination: str) -> str:
    """Name of a copy as Kineto writes it: ``Memcpy HtoD (Pageable -> Device)``."""
    kind = constant.removeprefix("CUDA_MEMCPY_KIND_")
    unified = kind.startswith("UVM_")
    kind = kind.removeprefix("UVM_")
    between = re.fullmatch(r"(\w)TO(\w)", kind)
    kind = f"{between[1]}to{between[2]}" if between else kind.capitalize()
    words = ["Memcpy", *(["unified"] if unified else []), *([kind] if kind else [])]
    if source and destination:
        words.append(f"({source} -> {destination})")
    return " ".join(words)


def range_label(text: str) -> Label:
    """An NVTX range: an operator if PyTorch marked one, else an annotation.

    PyTorch's ranges carry numbers, which are dropped: with them no two would share a name.
    """
    name = _OPERATOR_SUFFIX.sub("", text) if " = " in text else text
    marked = _OPERATOR if name != text else _DISPATCHED
    return Label(name, CPU_OP if marked.match(name) else ANNOTATION)


UNSIGNED_NONE = 2**32 - 1
"""Stream of operations on a whole context, event of those that wait for none."""


@dataclass(frozen=True)
class Activity:
    """A table whose rows are named by ids.

    ``keys`` are the columns from which ``label`` makes name and category, -1 if the file lacks the
    column.
    """

    table: str
    on_device: bool
    keys: tuple[str, ...]
    label: Callable[..., Label]
    by_context: bool = False
    """Whether to use the device of the context, as the table's own is unreliable."""
    within_others: bool = False
    """Whether only rows within the time of all other tables count."""

    @property
    def owner(self) -> str:
        """Column of the row's owner: a process on the device, a thread on the CPU."""
        return "globalPid" if self.on_device else "globalTid"


def _range(texts: StringTables, text: int) -> Label:
    return range_label(texts.string(text) or "unnamed range")


def call_label(recorded: str | None) -> Label:
    """A call of the CUDA runtime or driver."""
    name = _VERSION.sub("", recorded) if recorded else "unknown call"
    return Label(name, "cuda_driver" if _DRIVER_CALL.match(name) else "cuda_runtime")


def _call(texts: StringTables, name: int) -> Label:
    return call_label(texts.string(name))


def _kernel(texts: StringTables, short: int, demangled: int) -> Label:
    return Label(kernel_name(texts.string(short), texts.string(demangled)), KERNEL)


def _copy(texts: StringTables, kind: int, source: int, destination: int) -> Label:
    memory = texts.label(MEMORY_KINDS, source), texts.label(MEMORY_KINDS, destination)
    return Label(copy_name(texts.name(COPY_KINDS, kind), *memory), MEMCPY)


def _set(texts: StringTables, kind: int) -> Label:
    """Name as in Kineto: ``Memset (Device)``."""
    memory = texts.label(MEMORY_KINDS, kind)
    return Label(f"Memset ({memory})" if memory else "Memset", MEMSET)


def _sync(texts: StringTables, kind: int, event: int, stream: int) -> Label:
    """Up to schema 3.24 the kinds do not follow the file's own enumeration: waits for a stream or a
    context, which have no event, differ by the stream."""
    if event == UNSIGNED_NONE:
        return Label("Context sync" if stream == UNSIGNED_NONE else "Stream sync", "cuda_sync")
    return Label(texts.label(SYNC_KINDS, kind) or "Synchronisation", "cuda_sync")


def _overhead(texts: StringTables, name: int) -> Label:
    return Label(texts.string(name) or "unknown overhead", "overhead")


GRAPHS = Activity(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    True,
    ("graphId",),
    lambda _, graph: Label(f"CUDA graph {graph}", KERNEL),
)
"""Graphs recorded as a whole: ``nsys profile --cuda-graph-trace=graph``, the default."""

SYNCHRONISATION = Activity(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    True,
    ("syncType", "eventId", "streamId"),
    _sync,
    by_context=True,
)
"""CUPTI reports the awaited context and no device: nsys writes 0 for any device."""

ACTIVITIES = (
    # Before the calls that they enclose.
    *(Activity(table, False, ("textId",), _range) for table in MPI_TABLES),
    Activity("CUPTI_ACTIVITY_KIND_RUNTIME", False, ("nameId",), _call),
    Activity("CUPTI_ACTIVITY_KIND_OVERHEAD", False, ("nameId",), _overhead),
    Activity("CUPTI_ACTIVITY_KIND_KERNEL", True, ("shortName", "demangledName"), _kernel),
    Activity("CUPTI_ACTIVITY_KIND_MEMCPY", True, ("copyKind", "srcKind", "dstKind"), _copy),
    Activity("CUPTI_ACTIVITY_KIND_MEMSET", True, ("memKind",), _set),
    GRAPHS,
    SYNCHRONISATION,
    # The profiler also works before the program's first call and after its last: that is no part of
    # the program's activity.
    Activity("PROFILER_OVERHEAD", False, ("nameId",), _overhead, within_others=True),
)
"""All but NVTX ranges, which have texts for names. What the operating system does (``OSRT_API``) is
left out: threads that wait from begin to end of the program would stretch the trace to its whole
life, and no table of ours asks for them. So are calls of cuBLAS and cuDNN: what they launch
shows."""
