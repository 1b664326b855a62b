"""The tables of an export whose rows become events: where each runs, and what it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perftui.trace.categories import KERNEL, MEMCPY, MEMSET
from perftui.trace.nsys import names
from perftui.trace.nsys.database import MPI_TABLES
from perftui.trace.nsys.names import Label
from perftui.trace.nsys.string_tables import COPY_KINDS, MEMORY_KINDS, SYNC_KINDS, StringTables
from perftui.trace.nsys.tracks import UNSIGNED_NONE

SYNC = "cuda_sync"
OVERHEAD = "overhead"


@dataclass(frozen=True)
class Activity:
    """A table whose rows are named by ids.

    ``keys`` are the columns that ``label`` makes name and category from, -1 where the file has no
    such column.
    """

    table: str
    on_device: bool
    keys: tuple[str, ...]
    label: Callable[..., Label]
    by_context: bool = False
    """Whether the table's own device is not to be trusted, and that of the context is."""
    within_others: bool = False
    """Whether only rows count that lie within the time of all other tables."""

    @property
    def owner(self) -> str:
        """The column of whose row it is: a process on the device, a thread on the CPU."""
        return "globalPid" if self.on_device else "globalTid"


def _range(texts: StringTables, text: int) -> Label:
    return names.range_label(texts.string(text) or "unnamed range")


def _call(texts: StringTables, name: int) -> Label:
    return names.call_label(texts.string(name))


def _kernel(texts: StringTables, short: int, demangled: int) -> Label:
    return Label(names.kernel_name(texts.string(short), texts.string(demangled)), KERNEL)


def _copy(texts: StringTables, kind: int, source: int, destination: int) -> Label:
    memory = texts.label(MEMORY_KINDS, source), texts.label(MEMORY_KINDS, destination)
    return Label(names.copy_name(texts.name(COPY_KINDS, kind), *memory), MEMCPY)


def _set(texts: StringTables, memory: int) -> Label:
    return Label(names.set_name(texts.label(MEMORY_KINDS, memory)), MEMSET)


def _sync(texts: StringTables, kind: int, event: int, stream: int) -> Label:
    """Up to schema 3.24 the kinds do not follow the file's own enumeration: of waits for a stream
    or a context, which are on no event, the stream distinguishes them."""
    if event == UNSIGNED_NONE:
        return Label("Context sync" if stream == UNSIGNED_NONE else "Stream sync", SYNC)
    return Label(texts.label(SYNC_KINDS, kind) or "Synchronisation", SYNC)


def _graph(_: StringTables, graph: int) -> Label:
    return Label(f"CUDA graph {graph}", KERNEL)


def _overhead(texts: StringTables, name: int) -> Label:
    return Label(texts.string(name) or "unknown overhead", OVERHEAD)


GRAPHS = Activity("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", True, ("graphId",), _graph)
"""Graphs recorded as a whole: ``nsys profile --cuda-graph-trace=graph``, the default."""

SYNCHRONISATION = Activity(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    True,
    ("syncType", "eventId", "streamId"),
    _sync,
    by_context=True,
)
"""CUPTI has the context that is waited for and no device: nsys writes 0, whichever it was."""

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
    # The profiler also works before the program's first call and after its last: that is no part
    # of what it did.
    Activity("PROFILER_OVERHEAD", False, ("nameId",), _overhead, within_others=True),
)
"""All but NVTX ranges, which have texts for names. What the operating system does (``OSRT_API``) is
left out: threads that wait from begin to end of the program would stretch the trace to its whole
life, and no table of ours asks for them. So are calls of cuBLAS and cuDNN: what they launch
shows."""
